// Notifies every instance on this Postgres of a change of access or an ended token as soon as it is committed.
import type { EntityManager } from 'typeorm'
import type { AccessChange, PersonVersion } from '../tokens/revocations.ts'
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
