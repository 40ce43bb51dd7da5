// Builds what takes long on a large database while gateways use it: indexes, one after the other, in the background.
import pg from 'pg'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import type { Database } from './database.ts'

interface OnlineIndex {
  readonly name: string
  /** What follows the name in CREATE INDEX. */
  readonly on: string
}

type Steps = Pick<Database, 'connection' | 'embedded'>

const INDEXES: readonly OnlineIndex[] = [{ name: 'audit_events_at', on: 'ON audit_events (at, id)' }]

/** An arbitrary constant; the same for all versions of the gateway. */
const STEPS_LOCK = 7_263_544_006

/**
 * Does what is missing, unless another process is at it. Holds no lock that reading or writing waits for (PostgreSQL
 * documentation, CREATE INDEX, "Building Indexes Concurrently"). Throws what Postgres refuses.
 */
const runOnlineSteps = async ({ connection, embedded }: Steps, signal?: AbortSignal): Promise<void> => {
  const client = new pg.Client({ ...connection, application_name: 'portaria-steps' })
  client.on('error', () => undefined)
  const close = () => void client.end().catch(() => undefined)
  await client.connect()
  signal?.addEventListener('abort', close)
  try {
    for (const index of INDEXES)
      if (await isMissing(client, index)) await build(client, index, embedded ? '' : 'CONCURRENTLY')
  } finally {
    signal?.removeEventListener('abort', close)
    await client.end().catch(() => undefined)
  }
}

const isMissing = async (client: pg.Client, { name }: OnlineIndex): Promise<boolean> => {
  const { rows } = await client.query<{ isValid: boolean | null }>(VALID, [name])
  return rows[0]?.isValid !== true
}

const VALID = `SELECT (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)) AS "isValid"`

const build = async (client: pg.Client, index: OnlineIndex, how: 'CONCURRENTLY' | ''): Promise<void> => {
  await client.query('SET statement_timeout = 0; SET lock_timeout = 0')
  const { rows } = await client.query<{ isOurs: boolean }>('SELECT pg_try_advisory_lock($1) AS "isOurs"', [STEPS_LOCK])
  if (rows[0]?.isOurs !== true) return
  try {
    // What a broken attempt left is of no use.
    if (await isMissing(client, index)) {
      await client.query(`DROP INDEX ${how} IF EXISTS ${index.name}`)
      await client.query(`CREATE INDEX ${how} ${index.name} ${index.on}`)
    }
  } finally {
    await client.query('SELECT pg_advisory_unlock($1)', [STEPS_LOCK])
  }
}

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
