// Stores people's access tokens, reads live ones with their owners (at startup all, then what has changed), and records last uses.
import { randomBytes } from 'node:crypto'
import type { EntityManager } from 'typeorm'
import { BadRequest, Conflict, NotFound, TokenRevoked } from '../errors.ts'
import type { Identity } from '../identity.ts'
import {
  hashPersonalToken,
  type LiveToken,
  type OwnerNews,
  type PersonalTokenUse,
  personalTokenId
} from '../tokens/personal-tokens.ts'
import { array, integer, string } from '../values/json-schema.ts'
import { plainName, storedName } from '../values/names.ts'
import { parseTimestamp } from '../values/quantities.ts'
import { announce } from './access-changes.ts'
import { type Actor, appendAudit } from './audit-entry.ts'
import { bind, type Database, readRows } from './database.ts'
import { findPeople, getPerson, type StoredPerson } from './people.ts'
import { type Bounds, query, readPage, requireName, rowId } from './query.ts'
import { revokeToken, writtenSince } from './token-state.ts'

export interface TokenWish {
  name: string
  profiles: string[]
  /** RFC 3339, at most a year ahead. */
  expiresAt: string
}

/** What lists show of a token. */
export const tokenItemProperties = {
  id: integer,
  name: string,
  profiles: array(string),
  expiresAt: { type: 'string', description: 'ISO 8601, UTC' },
  lastUsedAt: { type: 'string', description: "ISO 8601, UTC, to the minute; '' if never" }
} as const

const MAX_LIVE = 100

type Login = Pick<Identity, 'user' | 'tokenId' | 'version'>

/**
 * The token is contained only in this result.
 * Throws BadRequest, Conflict (too many), NotFound, TokenRevoked (the login that asks has ended).
 */
const create = (database: Database, actor: Actor, login: Login, wish: TokenWish) =>
  database.write(async manager => {
    const userId = login.user.id
    await refuseEnded(manager, login)
    const person = await getPerson(manager, userId)
    const name = requireName(plainName(wish.name), 'token-name')
    const profiles = ownProfiles(person, wish.profiles)
    const expiresAt = expiry(wish.expiresAt)
    const [count] = await query<{ live: string }>(manager, COUNT, [userId])
    if (Number(count?.live ?? 0) >= MAX_LIVE)
      throw new Conflict({
        reason: 'too-many-tokens',
        message: `At most ${MAX_LIVE} access tokens can be live at once`
      })
    const token = `pt_${randomBytes(32).toString('base64url')}`
    const values = [userId, hashPersonalToken(token), name, profiles, person.version, expiresAt]
    const [row] = await query<ItemRow>(manager, CREATE, values)
    if (row === undefined) throw new Error('the access token was not stored')
    await announce(manager, [{ kind: 'many' }])
    const item = toItem(row)
    await appendAudit(manager, { actor, action: 'token.create', target: `user:${userId}`, after: item })
    return { ...item, token }
  })

/**
 * An instance learns of an ended login a moment after it is committed. A token that it creates in between would outlive that
 * end, since it has the person's new version; the lock makes an end that is not committed yet wait, and include the token. It
 * also keeps the count of the person's live tokens from being read twice at once.
 */
const refuseEnded = async (manager: EntityManager, { user, tokenId, version }: Login) => {
  const [row] = await query(manager, LIVE_LOGIN, [rowId(user.id), version, tokenId, user.provider, user.username])
  if (row === undefined) throw new TokenRevoked({ reason: 'revoked' })
}

/** Ends a token on every instance; only if it belongs to this person, if one is given. Throws NotFound. */
const end = (database: Database, actor: Actor, id: number, userId?: number): Promise<void> =>
  database.write(async manager => {
    const [row] = await query<EndedRow>(manager, END, [rowId(id), ownerId(userId)])
    if (row === undefined) throw new NotFound({ reason: 'no-token' })
    await revokeToken(manager, personalTokenId(id), row.expires_s)
    await appendAudit(manager, { actor, action: 'token.end', target: `user:${row.user_id}`, before: toItem(row) })
  })

const ownerId = (userId: number | undefined): number | null => (userId === undefined ? null : rowId(userId))

const ownProfiles = ({ user }: StoredPerson, wanted: readonly string[]): string[] => {
  const own = new Set(user.profiles)
  const profiles = wanted.map(profile => storedName(profile, own))
  const foreign = profiles.findIndex(profile => !own.has(profile))
  if (foreign !== -1) throw invalid('foreign-profile', `profiles/${foreign} is not one of your profiles`)
  return [...new Set(profiles)]
}

const expiry = (text: string): Date => {
  const [date, now] = [parseTimestamp(text), new Date()]
  if (date === undefined || date <= now || date.getTime() > new Date(now).setUTCFullYear(now.getUTCFullYear() + 1))
    throw invalid(
      'token-expiry',
      'expiresAt must be a time in the future, at most a year ahead, such as 2027-06-30 or 2027-06-30T18:00:00Z'
    )
  return date
}

const invalid = (reason: string, message: string) => new BadRequest({ reason, message })

/** Live tokens of a person, or of all people; the newest first. */
const list = async (database: Database, bounds: Bounds, userId?: number) => {
  const select = (window: string) =>
    `SELECT ${ITEM}, u.id AS owner_id, u.username, u.name AS owner_name ${LIVE} ORDER BY t.id DESC ${window}`
  const page = await database.read(manager =>
    readPage<ItemRow & OwnerColumns>(manager, bounds, LIVE, select, [ownerId(userId)])
  )
  const ownerOf = (row: OwnerColumns) => ({ id: row.owner_id, username: row.username, name: row.owner_name })
  return { ...page, items: page.items.map(row => ({ ...toItem(row), user: ownerOf(row) })) }
}

interface ItemRow {
  id: number
  name: string
  profiles: string[]
  expires_at: Date
  last_used_at: Date | null
}

interface OwnerColumns {
  owner_id: number
  username: string
  owner_name: string
}

interface EndedRow extends ItemRow {
  user_id: number
  expires_s: number
}

const toItem = ({ id, name, profiles, expires_at, last_used_at }: ItemRow) => ({
  id,
  name,
  profiles,
  /** ISO 8601, UTC. */
  expiresAt: expires_at.toISOString(),
  /** To the minute; ISO 8601, UTC; `''` if never. */
  lastUsedAt: last_used_at?.toISOString() ?? ''
})

const ITEM = "t.id, t.name, t.profiles, t.expires_at, date_trunc('minute', t.last_used_at) AS last_used_at"

// A token issued before all tokens of its owner were ended is dead, and is not shown.
const LIVE = `
  FROM personal_tokens t JOIN users u ON u.id = t.user_id
  WHERE ($1::int IS NULL OR t.user_id = $1) AND t.expires_at > now() AND t.version >= u.lowest_accepted_version`

// The id alone is no proof: after a fail-over it may be that of somebody else.
const LIVE_LOGIN = `
  SELECT FROM users u WHERE u.id = $1 AND NOT u.disabled AND u.lowest_accepted_version <= $2::bigint
    AND u.provider = $4 AND u.username = $5
    AND NOT EXISTS (SELECT FROM revocations r WHERE r.jti = $3) FOR NO KEY UPDATE OF u`

const COUNT = `SELECT count(*) AS live ${LIVE}`

const CREATE = `
  INSERT INTO personal_tokens AS t (user_id, hash, name, profiles, version, expires_at)
  VALUES ($1, $2, $3, $4::text[], $5, $6) RETURNING ${ITEM}`

const END = `
  DELETE FROM personal_tokens t WHERE t.id = $1 AND ($2::int IS NULL OR t.user_id = $2)
  RETURNING ${ITEM}, t.user_id, extract(epoch FROM t.expires_at)::float8 AS expires_s`

const recordUse = (database: Database, uses: readonly PersonalTokenUse[]): Promise<void> => {
  const of = uses.map(({ personalToken: id, usedAt }) => ({ id, usedAt }))
  return recordLastUse(database, 'personal_tokens', 'id', of)
}

interface Use {
  readonly id: number
  /** Milliseconds since the epoch. */
  readonly usedAt: number
}

/** Records when rows of a table were last used. */
export const recordLastUse = async (
  database: Database,
  table: 'clients' | 'personal_tokens',
  key: 'user_id' | 'id',
  uses: readonly Use[]
) => {
  if (uses.length === 0) return
  // The rows are locked in the order of their ids: several processes record the same ones at once.
  const statement = `
    WITH used AS (
      SELECT t.${key} AS id, u.at FROM unnest($1::int[], $2::float8[]) AS u (id, at) JOIN ${table} t ON t.${key} = u.id
      ORDER BY t.${key} FOR NO KEY UPDATE OF t)
    UPDATE ${table} t SET last_used_at = greatest(t.last_used_at, to_timestamp(used.at))
    FROM used WHERE t.${key} = used.id`
  await readRows(database, statement, [uses.map(({ id }) => rowId(id)), uses.map(({ usedAt }) => usedAt / 1000)])
}

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
  const owners = await readRows<{ id: number }>(database, statement, values)
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
  SELECT user_id AS id FROM personal_tokens WHERE ${writtenSince('changed_in')} AND expires_at > now()
  UNION
  SELECT u.id FROM users u
  WHERE (u.access_version > 0 AND ${writtenSince('u.version_changed_in')} OR u.last_login_at > ${RECENTLY})
    AND ${HAS_TOKEN}
  UNION
  SELECT u.id FROM users u
  WHERE u.id IN (SELECT user_id FROM directory_accounts WHERE confirmed_at > ${RECENTLY}) AND ${HAS_TOKEN}`

export type PersonalTokenStore = ReturnType<typeof createPersonalTokenStore>

export const createPersonalTokenStore = (database: Database) =>
  bind(database, { list, create, end, recordUse, readLive: readLiveTokens })
