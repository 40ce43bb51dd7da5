// Notifies every instance on this Postgres of a change of access or an ended token as soon as it is committed.

import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { EntityManager } from 'typeorm'
import type { AccessChange, PersonVersion } from '../tokens/revocations.ts'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import { isRecord } from '../values/records.ts'
import type { Database } from './database.ts'
import { ACCESS_CHANNEL } from './embedded-notifications.ts'
import { query } from './query.ts'

const MANY = 50

/** Notifies all instances when the transaction of `manager` commits. */
export const announce = async (manager: EntityManager, changes: AccessChange[]): Promise<void> => {
  const told: AccessChange[] = changes.length > MANY ? [{ kind: 'many' }] : changes
  const payloads = told.map(change => JSON.stringify(change))
  await query(manager, 'SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload', [ACCESS_CHANNEL, payloads])
}

/**
 * Raises the access version of people, so that their tokens become stale; with `end`, their earlier tokens are also
 * revoked. Announced at commit.
 */
export const raiseVersions = async (manager: EntityManager, ids: number[], end = false): Promise<PersonVersion[]> => {
  if (ids.length === 0) return []
  const raised = await query<PersonVersion>(manager, RAISE, [ids, end])
  if (end) await query(manager, 'DELETE FROM sessions WHERE user_id = ANY($1::int[])', [ids])
  await announce(
    manager,
    raised.map(person => ({ kind: 'person', ...person }))
  )
  return raised
}

// The rows are locked in the order of their ids, as by `lockPeople`.
const RAISE = `
  WITH person AS (SELECT id FROM users WHERE id = ANY ($1::int[]) ORDER BY id FOR NO KEY UPDATE)
  UPDATE users u SET
    access_version = access_version + 1,
    lowest_accepted_version = CASE WHEN $2 THEN access_version + 1 ELSE lowest_accepted_version END,
    version_changed_in = pg_current_xact_id()
  FROM person WHERE u.id = person.id
  RETURNING u.id AS "userId", access_version AS version, lowest_accepted_version AS "lowestAccepted"`

interface AccessListenerOptions {
  onChange(change: AccessChange): void
  /** Changes may be missed from now on. */
  onLost?(): void
  /** Listening (also the first time): read what may have been missed with `changesSince`. */
  onRestored?(): void
  log: Log
  /** Pause between two queries that show whether the connection still lives. */
  heartbeatMs?: number
}

const CONNECT_TIMEOUT_MS = 2_000
const HEARTBEAT_MS = 2_000
const MAX_PAUSE_MS = 2_000

/** Listens until closed; a lost connection is reopened with back-off (at most 2 s between attempts). */
export const listenAccessChanges = (database: Database, options: AccessListenerOptions): { close(): Promise<void> } => {
  const { connection, notifications } = database
  if (notifications !== undefined) {
    const unsubscribe = notifications.subscribe(task(payload => hear(payload, options)))
    queueMicrotask(task(() => options.onRestored?.()))
    return { close: async () => unsubscribe() }
  }
  const ended = new AbortController()
  const loop = listenAgain(connection, options, ended.signal)
  return {
    close() {
      ended.abort()
      return loop
    }
  }
}

const listenAgain = async (
  connection: Database['connection'],
  options: AccessListenerOptions,
  signal: AbortSignal
): Promise<void> => {
  for (let pauseMs = 50; !signal.aborted; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    const client = new pg.Client({
      ...connection,
      application_name: 'portaria-listen',
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      query_timeout: CONNECT_TIMEOUT_MS,
      keepAlive: true
    })
    client.on(
      'notification',
      task(message => hear(message.payload, options))
    )
    // Everything that waits for the connection waits for this signal, and leaves nothing with it afterwards: a connection may
    // stay open for months, or be tried again for days.
    const over = new AbortController()
    const close = () => over.abort()
    signal.addEventListener('abort', close)
    client.on('error', error => over.abort(error))
    client.on('end', () => over.abort(new Error('the connection ended')))
    try {
      await unless(
        over.signal,
        client.connect().then(() => client.query(`LISTEN ${ACCESS_CHANNEL}`))
      )
      pauseMs = 50
      options.onRestored?.()
      await beatUntil(over.signal, client, options.heartbeatMs ?? HEARTBEAT_MS)
    } catch (error) {
      if (!signal.aborted)
        options.log.warn(
          { err: over.signal.reason ?? error },
          'lost the LISTEN connection; access changes arrive by polling until it is restored'
        )
      if (!signal.aborted) options.onLost?.()
    } finally {
      signal.removeEventListener('abort', close)
      client.end().catch(() => undefined)
    }
    await delay(pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined)
  }
}

/** A frozen server is silent, and only a query can detect that. Throws when the connection is over. */
const beatUntil = async (over: AbortSignal, client: pg.Client, pauseMs: number): Promise<never> => {
  for (;;) {
    await delay(pauseMs, undefined, { signal: over })
    await unless(over, client.query('SELECT 1'))
  }
}

/** What `work` resolves to; throws at once when `over` is aborted. */
const unless = <T>(over: AbortSignal, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const stop = () => reject(over.reason)
    if (over.aborted) stop()
    over.addEventListener('abort', stop)
    work.then(resolve, reject).finally(() => over.removeEventListener('abort', stop))
  })

const hear = (payload: string | undefined, options: AccessListenerOptions) => {
  const change = parseChange(payload)
  if (change !== undefined) options.onChange(change)
}

/** Undefined for anything that `announce` does not write: the channel is open to every user of the database. */
const parseChange = (payload: string | undefined): AccessChange | undefined => {
  let change: unknown
  try {
    change = JSON.parse(payload ?? '')
  } catch {
    return undefined
  }
  const { kind, jti, expiresAt, userId, version, lowestAccepted } = isRecord(change) ? change : {}
  if (kind === 'many') return { kind }
  if (kind === 'token' && typeof jti === 'string' && typeof expiresAt === 'number') return { kind, jti, expiresAt }
  if (kind !== 'person' || typeof userId !== 'number') return undefined
  if (typeof version !== 'number' || typeof lowestAccepted !== 'number') return undefined
  return { kind, userId, version, lowestAccepted }
}
