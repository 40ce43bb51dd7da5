// Reads people with live access tokens: all of them at startup, then those whose tokens, access or confirmation changed.
import type { EntityManager } from 'typeorm'
import type { LiveToken, OwnerNews } from '../tokens/personal-tokens.ts'
import type { Database } from './database.ts'
import { findPeople } from './people.ts'
import { query } from './query.ts'

/** People per statement, so that each ends well within its deadline. */
const AT_ONCE = 1000

/**
 * Delivers, in parts, the owners whom a transaction from `cursor` on may have changed, with all their live tokens; with
 * `undefined`, all owners.
 * @param ageMs how long ago `cursor` was read: logins and rechecks leave no other trace than their time
 */
export const readLiveTokens = async (
  database: Database,
  cursor: string | undefined,
  learn: (news: OwnerNews[]) => void,
  ageMs = 0
): Promise<void> => {
  const [statement, values] =
    cursor === undefined ? [ALL_OWNERS, []] : [CHANGED_OWNERS, [cursor.split(' ').at(-1), ageMs]]
  const owners = await database.read(manager => query<{ id: number }>(manager, statement, values))
  for (let from = 0; from < owners.length; from += AT_ONCE) {
    const ids = owners.slice(from, from + AT_ONCE).map(({ id }) => id)
    learn(await database.read(manager => readOwners(manager, ids)))
  }
}

const readOwners = async (manager: EntityManager, ids: readonly number[]): Promise<OwnerNews[]> => {
  const rows = await query<{ id: number; confirmedAt: number; tokens: LiveToken[] }>(manager, TOKENS, [ids])
  const people = new Map((await findPeople(manager, ids)).map(person => [person.user.id, person]))
  return rows.flatMap(({ id, confirmedAt, tokens }) => {
    const person = people.get(id)
    if (person === undefined) return []
    const { user, version, lowestAcceptedVersion: lowestAccepted, disabled } = person
    return [{ owner: { user, version, lowestAccepted, disabled, confirmedAt }, tokens }]
  })
}

const TOKENS = `
  SELECT u.id,
    extract(epoch FROM greatest(coalesce(u.last_login_at, u.created_at), d.confirmed_at))::float8 AS "confirmedAt",
    json_agg(json_build_object('id', t.id, 'hash', t.hash, 'profiles', t.profiles, 'version', t.version,
      'createdAt', extract(epoch FROM t.created_at), 'expiresAt', extract(epoch FROM t.expires_at))) AS tokens
  FROM personal_tokens t JOIN users u ON u.id = t.user_id LEFT JOIN directory_accounts d ON d.user_id = u.id
  WHERE t.user_id = ANY($1::int[]) AND t.expires_at > now()
  GROUP BY u.id, d.confirmed_at`

const ALL_OWNERS = 'SELECT DISTINCT user_id AS id FROM personal_tokens WHERE expires_at > now() ORDER BY 1'

// By narrow indexes instead of one wide join, because this runs every two seconds.
const HAS_TOKEN = 'EXISTS (SELECT FROM personal_tokens t WHERE t.user_id = u.id AND t.expires_at > now())'
const RECENTLY = "now() - interval '10 seconds' - $2::float8 * interval '1 millisecond'"
const CHANGED_OWNERS = `
  SELECT user_id AS id FROM personal_tokens WHERE changed_in >= $1::text::xid8 AND expires_at > now()
  UNION
  SELECT u.id FROM users u
  WHERE (u.access_version > 0 AND u.version_changed_in >= $1::text::xid8 OR u.last_login_at > ${RECENTLY})
    AND ${HAS_TOKEN}
  UNION
  SELECT u.id FROM users u
  WHERE u.id IN (SELECT user_id FROM directory_accounts WHERE confirmed_at > ${RECENTLY}) AND ${HAS_TOKEN}`
