// Builds what takes long on a large database while gateways use it: indexes, one after the other, in the background.
import type pg from 'pg'
import { COUNTED, FOLLOW_BEFORE, LISTED } from '../../migrations/0018-listed-people.ts'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import type { Database } from './database.ts'
import { ONLINE_STEPS_LOCK } from './query.ts'

type Steps = Pick<Database, 'connectListener' | 'embedded'>

interface OnlineIndex {
  readonly name: string
  /** What follows the name in CREATE INDEX. */
  readonly on: string
  /** What comes first. */
  readonly before?: (client: pg.Client) => Promise<unknown>
  /** Worth an extension only with many people, and the embedded Postgres lacks it. */
  readonly isForMany?: true
}

const CONNECT_TIMEOUT_MS = 10_000
const PORTION = 2_000
/** Fewer people are searched without an index within milliseconds. */
const MANY = 20_000

/** In portions, so that no login waits long for a row. */
const followBefore = async (client: pg.Client): Promise<void> => {
  const { rows } = await client.query<{ last: number }>('SELECT coalesce(max(id), 0) AS last FROM users')
  for (let id = 0; id < (rows[0]?.last ?? 0); id += PORTION)
    await client.query(`${FOLLOW_BEFORE} AND id > $1 AND id <= $2`, [id, id + PORTION])
  // An index is read without the table only where the table has been vacuumed since it was changed.
  await client.query('VACUUM ANALYZE users')
}

const INDEXES: readonly OnlineIndex[] = [
  { name: 'audit_events_at', on: 'ON audit_events (at, id)' },
  { name: 'users_counted', on: COUNTED, before: followBefore },
  { name: 'users_listed', on: LISTED },
  {
    name: 'users_searched',
    on: 'ON users USING gin (searched gin_trgm_ops)',
    before: client => client.query('CREATE EXTENSION IF NOT EXISTS pg_trgm'),
    isForMany: true
  }
]

const runOnlineSteps = async ({ connectListener, embedded }: Steps, signal: AbortSignal): Promise<void> => {
  const clients: pg.Client[] = []
  const close = () => Promise.allSettled(clients.map(client => client.end()))
  const open = async () => {
    const { client, isPooled } = await connectListener(CONNECT_TIMEOUT_MS, signal)
    clients.push(client)
    return { client, isPooled }
  }
  signal.addEventListener('abort', close)
  try {
    const { client, isPooled } = await open()
    const isOurs = isPooled ? await lockBesides((await open()).client) : await lock(client)
    if (isOurs && !signal.aborted) await buildMissing(client, embedded)
  } finally {
    signal.removeEventListener('abort', close)
    await close()
  }
}

/** Until the connection ends. */
const lock = async (client: pg.Client): Promise<boolean> => {
  await client.query('SET statement_timeout = 0; SET lock_timeout = 0')
  const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS "isOurs"', [ONLINE_STEPS_LOCK])
  return rows[0]?.isOurs === true
}

/**
 * Behind a pooler a lock of the session, and its settings, would stay with the pooler: a transaction of another connection has
 * the lock, until that ends. It must keep no snapshot, for which an index would wait; hence the level, and no parameter, with
 * which the statement would stay open.
 */
const lockBesides = async (client: pg.Client): Promise<boolean> => {
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = 0')
  const { rows } = await client.query(`SELECT pg_try_advisory_xact_lock(${ONLINE_STEPS_LOCK}) AS "isOurs"`)
  return rows[0]?.isOurs === true
}

/**
 * Does what is missing. Holds no lock that reading or writing waits for (PostgreSQL documentation, CREATE INDEX, "Building
 * Indexes Concurrently"). Throws the first that Postgres refuses, once it has tried all.
 */
const buildMissing = async (client: pg.Client, embedded: boolean): Promise<void> => {
  const isLarge = !embedded && (await client.query(`SELECT FROM users OFFSET ${MANY} LIMIT 1`)).rows.length > 0
  const { rows: valid } = await client.query<{ name: string }>(VALID, [INDEXES.map(({ name }) => name)])
  const how = embedded ? '' : 'CONCURRENTLY'
  const build = async ({ name, on, before }: OnlineIndex) => {
    await before?.(client)
    // It may have been left unfinished.
    await client.query(`DROP INDEX ${how} IF EXISTS ${name}`)
    await client.query(`CREATE INDEX ${how} ${name} ${on}`)
  }
  const failures: unknown[] = []
  for (const index of INDEXES) {
    if ((index.isForMany && !isLarge) || valid.some(({ name }) => name === index.name)) continue
    await build(index).catch(error => failures.push(error))
  }
  if (failures.length > 0) throw failures[0]
}

const VALID = `
  SELECT name FROM unnest($1::text[]) AS name JOIN pg_index ON indexrelid = to_regclass(name) WHERE indisvalid`

/** Runs the steps in the background; what fails is tried again at the next start. */
export const startOnlineSteps = (database: Steps, log: Log): { close(): void } => {
  const closing = new AbortController()
  task(async () => {
    try {
      await runOnlineSteps(database, closing.signal)
    } catch (error) {
      if (!closing.signal.aborted)
        log.warn(
          { err: error, reason: 'steps-unfinished' },
          'an index could not be built, so that some lists are slow; the next start tries again'
        )
    }
  })()
  return { close: () => closing.abort() }
}
