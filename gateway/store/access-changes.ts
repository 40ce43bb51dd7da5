// Announces changes of access and ended tokens to every instance on this Postgres, and hears them as soon as they are committed.
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { EntityManager } from 'typeorm'
import type { AccessChange, PersonVersion } from '../tokens/revocations.ts'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import { readRecord } from '../values/records.ts'
import { type Database, readRows } from './database.ts'
import { ACCESS_CHANNEL, query } from './query.ts'

const MANY = 50

/** Notifies all instances when the transaction of `manager` commits. */
export const announce = async (manager: EntityManager, changes: AccessChange[]): Promise<void> => {
  const announced: AccessChange[] = changes.length > MANY ? [{ kind: 'many' }] : changes
  const payloads = announced.map(change => JSON.stringify(change))
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
  /** Pause between two notifications that this listener sends to itself. */
  checkMs?: number
}

const CONNECT_TIMEOUT_MS = 2_000
/** What the pool sends reaches a working listener in milliseconds; this leaves room for a busy machine. */
const HEARING_MS = 2_000
const CHECK_MS = 5_000
const MAX_PAUSE_MS = 2_000

/** Listens until closed; a connection that is lost, or that hears nothing, is replaced with back-off (at most 2 s between attempts). */
export const listenAccessChanges = (database: Database, options: AccessListenerOptions): { close(): Promise<void> } => {
  const { notifications } = database
  if (notifications !== undefined) {
    const unsubscribe = notifications.subscribe(task(payload => hear(payload, options)))
    queueMicrotask(task(() => options.onRestored?.()))
    return { close: async () => unsubscribe() }
  }
  const ended = new AbortController()
  task(listenAgain)(database, options, ended.signal)
  return { close: async () => ended.abort() }
}

const listenAgain = async (database: Database, options: AccessListenerOptions, signal: AbortSignal): Promise<void> => {
  let wasHearing = true
  for (let pauseMs = 50; !signal.aborted; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    try {
      await listenOnce(database, options, signal, () => {
        pauseMs = 50
        if (!wasHearing) options.log.info('LISTEN works again')
        wasHearing = true
        options.onRestored?.()
      })
    } catch (error) {
      if (signal.aborted) return
      if (wasHearing) options.log.warn({ err: error, reason: 'listen-lost' }, LOST)
      wasHearing = false
      options.onLost?.()
    }
    await delay(pauseMs * (0.5 + Math.random()), undefined, { signal }).catch(() => undefined)
  }
}

const LOST =
  'lost the LISTEN connection, or it hears nothing; access changes arrive by polling until it works again. Behind a pooler in transaction mode, set DATABASE_LISTEN_URL'

/** Rejects when the connection is lost or hears nothing. */
const listenOnce = async (
  database: Database,
  options: AccessListenerOptions,
  signal: AbortSignal,
  onHearing: () => void
): Promise<never> => {
  const { client, destroy } = await database.connectListener(CONNECT_TIMEOUT_MS)
  const lost = new AbortController()
  const over = AbortSignal.any([signal, lost.signal])
  const self = randomUUID()
  let onEcho = () => {}
  const end = () => {
    destroy(new Error('Connection terminated'))
    onEcho()
  }
  const inTime = (work: Promise<unknown>, otherwise: string) => {
    const timer = setTimeout(() => lost.abort(new Error(otherwise)), HEARING_MS)
    return work.finally(() => clearTimeout(timer))
  }
  over.addEventListener('abort', end)
  client.on('error', error => lost.abort(error))
  client.on('end', () => lost.abort(new Error('Connection terminated')))
  client.on(
    'notification',
    task(({ payload }) => {
      if (payload === self) onEcho()
      else hear(payload, options)
    })
  )
  try {
    await inTime(client.query(`LISTEN ${ACCESS_CHANNEL}`), 'LISTEN is not answered')
    for (let isFirst = true; ; isFirst = false) {
      over.throwIfAborted()
      const echo = Promise.withResolvers<void>()
      onEcho = echo.resolve
      if (await send(database, self)) await inTime(echo.promise, 'it does not hear its own notification')
      else if (isFirst) throw new Error('the database cannot be used')
      over.throwIfAborted()
      if (isFirst) onHearing()
      await delay(options.checkMs ?? CHECK_MS, undefined, { signal: over })
    }
  } catch (error) {
    throw over.reason ?? error
  } finally {
    end()
    lost.abort()
  }
}

/**
 * Sent through the pool, because a pooler may let a connection hear what it sends itself. Resolves to false while the pool has
 * no connection for it, which says nothing about the listener.
 */
const send = (database: Database, payload: string): Promise<boolean> =>
  readRows(database, 'SELECT pg_notify($1, $2)', [ACCESS_CHANNEL, payload])
    .then(() => true)
    .catch(() => false)

const hear = (payload: string | undefined, options: AccessListenerOptions) => {
  const change = parseChange(payload)
  if (change !== undefined) options.onChange(change)
}

/** Undefined for anything that `announce` does not write: the channel is open to every user of the database. */
const parseChange = (payload: string | undefined): AccessChange | undefined => {
  const { kind, jti, expiresAt, userId, version, lowestAccepted } = readRecord(payload ?? '') ?? {}
  if (kind === 'many') return { kind }
  if (kind === 'token' && typeof jti === 'string' && typeof expiresAt === 'number') return { kind, jti, expiresAt }
  if (kind !== 'person' || typeof userId !== 'number') return undefined
  if (typeof version !== 'number' || typeof lowestAccepted !== 'number') return undefined
  return { kind, userId, version, lowestAccepted }
}

/**
 * The same store, whose `changes` take effect on this instance before they resolve.
 * @param catchUp reads what has changed
 */
export const knownAtOnce = <Store extends object>(
  store: Store,
  changes: readonly (keyof Store)[],
  catchUp: () => Promise<void>
): Store => {
  const known = { ...store }
  for (const name of changes) {
    const change = store[name] as unknown as (...args: unknown[]) => Promise<unknown>
    const andKnow = async (...args: unknown[]) => {
      const result = await change(...args)
      await catchUp()
      return result
    }
    Object.assign(known, { [name]: andKnow })
  }
  return known
}
