// Serialises changes of access, and refuses one that would leave the gateway without an Admin.
import type { EntityManager } from 'typeorm'
import { LastAdmin } from '../errors.ts'
import { ACCESS_LOCK } from './advisory-locks.ts'
import { query } from './query.ts'

export interface AccessNames {
  profiles: string[]
  areas: string[]
  /** null only if there are no areas. */
  areaPrincipal: string | null
}

/** Until the end of the transaction, no other change of access, area or state runs, on any instance. */
export const lockAccess = (manager: EntityManager) => query(manager, 'SELECT pg_advisory_xact_lock($1)', [ACCESS_LOCK])

/**
 * Until the end of the transaction, nothing else changes these people. Statements over several people lock them in the
 * order of their ids, before anything of the audit log, so that no two of them can deadlock.
 */
export const lockPeople = (manager: EntityManager, ids: readonly number[]) =>
  query(manager, 'SELECT id FROM users WHERE id = ANY ($1::int[]) ORDER BY id FOR NO KEY UPDATE', [ids])

/** Throws LastAdmin if this person is the only enabled Admin by assignment. Requires the access lock. */
export const refuseLastAdmin = async (manager: EntityManager, id: number): Promise<void> => {
  const admins = await query<{ id: number }>(manager, ENABLED_ADMINS)
  if (admins.length === 1 && admins[0]?.id === id) throw new LastAdmin()
}

const ENABLED_ADMINS = `
  SELECT u.id FROM users u
  JOIN user_profiles up ON up.user_id = u.id JOIN profiles p ON p.id = up.profile_id
  WHERE p.name = 'Admin' AND NOT u.disabled AND u.provider <> 'client' LIMIT 2`
