// Stores the permits of accounts, which count recent failed logins, so that all instances see them and they survive a restart.
import type { EntityManager } from 'typeorm'
import type { Database } from './database.ts'
import { query } from './query.ts'

/** Text by key, updated by compare-and-swap. */
export interface PermitStore {
  /** `now`: ms since the epoch by the store's own clock, the only one that counts. */
  read(key: string): Promise<{ readonly text: string | undefined; readonly now: number }>
  /** Replaces `before` (undefined: absent) with `after`, for at least `ttlMs`; false if it had changed. */
  swap(key: string, before: string | undefined, after: string | undefined, ttlMs: number): Promise<boolean>
}

/**
 * Expired rows are removed with the other purges (`token-state.ts`). `now` replaces the database's clock.
 * Throws `GW_UNAVAILABLE` if the database is unavailable.
 */
export const createLoginPermits = (database: Database, now?: () => number): PermitStore => ({
  read: async key => {
    const [row] = await database.read(manager => query<{ permits: string | null; now: number }>(manager, READ, [key]))
    return { text: row?.permits ?? undefined, now: now?.() ?? row?.now ?? Date.now() }
  },
  swap: async (key, before, after, ttlMs) => {
    const rows = await database.read(manager => {
      if (before === undefined) return query(manager, INSERT, [key, after ?? '', ttlMs])
      if (after === undefined) return query(manager, DELETE, [key, before])
      return query(manager, UPDATE, [key, before, after, ttlMs])
    })
    return rows.length === 1
  }
})

/** Resets these keys, as if no login had failed. */
export const releasePermits = async (manager: EntityManager, keys: readonly string[]): Promise<void> => {
  await query(manager, 'DELETE FROM login_permits WHERE key = ANY($1::text[])', [keys])
}

const READ = `
  SELECT (SELECT permits FROM login_permits WHERE key = $1) AS permits,
    floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now`
const END = (parameter: string) => `now() + ${parameter}::float8 * interval '1 millisecond'`
const INSERT = `
  INSERT INTO login_permits (key, permits, expires_at) VALUES ($1, $2, ${END('$3')})
  ON CONFLICT DO NOTHING RETURNING key`
const UPDATE = `
  UPDATE login_permits SET permits = $3, expires_at = ${END('$4')} WHERE key = $1 AND permits = $2 RETURNING key`
const DELETE = 'DELETE FROM login_permits WHERE key = $1 AND permits = $2 RETURNING key'
