// Changes access, areas and service accounts on behalf of an Admin, unless that right has ended while the change waited for its turn.
import type { EntityManager } from 'typeorm'
import { TokenStale } from '../errors.ts'
import type { Actor } from './audit-entry.ts'
import { type Database, writeAccess } from './database.ts'
import { query, rowId } from './query.ts'

/** As `writeAccess`. Throws TokenStale: of requests that queue for the lock, the first may have taken the right of the others. */
export const writeAs = <T>(
  database: Database,
  actor: Actor,
  work: (manager: EntityManager) => Promise<T>,
  patienceMs?: number
): Promise<T> =>
  writeAccess(
    database,
    async manager => {
      await checkRight(manager, actor)
      return work(manager)
    },
    patienceMs
  )

/** Throws TokenStale if the right of an Admin has ended since the request began. */
export const checkRight = async (manager: EntityManager, { id, version }: Actor): Promise<void> => {
  const [ended] = version === undefined ? [] : await query(manager, ENDED, [rowId(id ?? 0), version])
  if (ended !== undefined) throw new TokenStale({ reason: 'stale' })
}

// What a fail-over has lost raises versions too, but ends nothing. A token of others may bear a version that no column holds.
const ENDED = `
  SELECT FROM users u
  WHERE u.id = $1 AND u.access_version > $2::bigint AND (u.lowest_accepted_version > $2::bigint OR NOT EXISTS (
    SELECT FROM profiles p WHERE p.name = 'Admin' AND p.id IN (
      SELECT profile_id FROM user_profiles WHERE user_id = u.id
      UNION SELECT profile_id FROM granted_profiles WHERE user_id = u.id)))`
