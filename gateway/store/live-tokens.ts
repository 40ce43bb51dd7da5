// Reads live access tokens and their owners a few thousand at a time: all at startup, then only changes.
import type { EntityManager } from 'typeorm'
import type { Provider } from '../identity.ts'
import type { TokenOwner } from '../tokens/owner-table.ts'
import type { PersonalTokenNews } from '../tokens/personal-tokens.ts'
import type { PersonalTokenRow } from '../tokens/token-table.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'

/** Rows per statement, so that each ends well within its deadline, and little of it is in memory at once. */
const AT_ONCE = 4000
/** Separate objects until they are processed: few enough for V8 to free them before it requests more memory from the system. */
const OWNERS_AT_ONCE = 1000

type Learn = (news: PersonalTokenNews) => void

/**
 * Delivers, in parts, the tokens and owners that a transaction from `cursor` on may have changed; with `undefined`, all live
 * ones. An owner comes no later than their tokens.
 */
export const readLiveTokens = async (database: Database, cursor: string | undefined, learn: Learn): Promise<void> => {
  const known = new Set<number>()
  const names = await database.read(readNames)
  const learnOwners = async (ids: readonly number[]): Promise<void> => {
    const wanted = ids.filter(id => !known.has(id))
    for (const id of wanted) known.add(id)
    for (let from = 0; from < wanted.length; from += OWNERS_AT_ONCE) {
      const some = wanted.slice(from, from + OWNERS_AT_ONCE)
      const rows = await database.read(manager => query<OwnerRow>(manager, OWNERS, [some]))
      learn({ personalTokens: [], owners: rows.map(row => toOwner(row, names)) })
    }
  }
  for await (const personalTokens of pagesOfTokens(database, cursor ?? '0')) {
    await learnOwners([...new Set(personalTokens.map(({ userId }) => userId))])
    learn({ personalTokens, owners: [] })
  }
  if (cursor === undefined) return
  const changed = await database.read(manager => query<{ id: number }>(manager, CHANGED_OWNERS, [cursor]))
  await learnOwners(changed.map(({ id }) => id))
}

async function* pagesOfTokens(database: Database, cursor: string): AsyncGenerator<PersonalTokenRow[]> {
  const readAfter = async (id: number): Promise<PersonalTokenRow[]> => {
    const rows = await database.read(manager => query<PackedTokens>(manager, TOKENS, [cursor, id, AT_ONCE]))
    return rows.flatMap(unpack)
  }
  let next = readAfter(0)
  for (;;) {
    const page = await next
    const isLast = page.length < AT_ONCE
    // Postgres prepares the next page while this one is processed.
    if (!isLast) next = readAfter(page.reduce((last, { id }) => Math.max(last, id), 0))
    next.catch(() => undefined)
    yield page
    if (isLast) return
  }
}

/** All tokens of a page that name the same profiles, consecutive in `tokens`. */
interface PackedTokens {
  /** A JSON array. */
  profiles: string
  tokens: Buffer
}

/** SHA-256, then id, owner and version as int4, then the times as float8. */
const PACKED_LENGTH = 32 + 3 * 4 + 2 * 8

const unpack = ({ profiles, tokens }: PackedTokens): PersonalTokenRow[] => {
  // Our own JSON: an array of texts.
  const list = JSON.parse(profiles) as string[]
  return Array.from({ length: tokens.length / PACKED_LENGTH }, (_, index) => {
    const at = index * PACKED_LENGTH
    return {
      hashes: tokens,
      hashAt: at,
      id: tokens.readInt32BE(at + 32),
      userId: tokens.readInt32BE(at + 36),
      version: tokens.readInt32BE(at + 40),
      createdAt: tokens.readDoubleBE(at + 44),
      expiresAt: tokens.readDoubleBE(at + 52),
      profiles: list
    }
  })
}

/** Names by id, and lists of them by the text of their ids. */
interface Names {
  readonly profiles: ReadonlyMap<number, string>
  readonly areas: ReadonlyMap<number, string>
  readonly lists: Map<string, string[]>
}

const readNames = async (manager: EntityManager): Promise<Names> => {
  const byId = (rows: { id: number; name: string }[]) => new Map(rows.map(({ id, name }) => [id, name]))
  return {
    profiles: byId(await query(manager, 'SELECT id, name FROM profiles ORDER BY id')),
    areas: byId(await query(manager, 'SELECT id, name FROM areas ORDER BY lower(name)')),
    lists: new Map()
  }
}

/** In the order of `names`. */
const listOf = (names: Names, kind: 'profiles' | 'areas', ids: string | null): string[] => {
  const key = `${kind} ${ids}`
  const known = names.lists.get(key)
  if (known !== undefined) return known
  const wanted = new Set((ids ?? '').split(',').map(Number))
  const list = [...names[kind]].filter(([id]) => wanted.has(id)).map(([, name]) => name)
  names.lists.set(key, list)
  return list
}

const toOwner = (row: OwnerRow, names: Names): TokenOwner => {
  const { id, name, email, username, provider, version, lowestAccepted, disabled, confirmedAt } = row
  const profiles = listOf(names, 'profiles', row.profiles)
  const areas = listOf(names, 'areas', row.areas)
  const areaPrincipal = row.mainArea === null ? '' : (names.areas.get(row.mainArea) ?? '')
  const accessStatus = profiles.length > 0 && areas.length > 0 ? 'assigned' : 'unassigned'
  const person = { id, name, email, username, provider, perfis: profiles, profiles, areas, areaPrincipal, accessStatus }
  return { user: { ...person, accessStatus }, version, lowestAccepted, disabled, confirmedAt }
}

interface OwnerRow {
  id: number
  name: string
  email: string
  username: string
  provider: Provider
  version: number
  lowestAccepted: number
  disabled: boolean
  confirmedAt: number
  mainArea: number | null
  /** Ids, separated by commas. */
  profiles: string | null
  areas: string | null
}

// Packed, because one row each would take this process five times as long.
const TOKENS = `
  SELECT array_to_json(profiles)::text AS profiles, string_agg(decode(hash, 'hex')
    || int4send(id) || int4send(user_id) || int4send(version)
    || float8send(extract(epoch FROM created_at)::float8) || float8send(extract(epoch FROM expires_at)::float8),
    ''::bytea) AS tokens
  FROM (SELECT * FROM personal_tokens WHERE changed_in >= $1::text::xid8 AND expires_at > now() AND id > $2
    ORDER BY id LIMIT $3) AS page
  GROUP BY profiles`

// Joined as whole sets: queried person by person, a hundred thousand owners take ten seconds.
const idsOf = (assigned: string, granted: string, column: string) => `
  (SELECT user_id, string_agg(${column}::text, ',' ORDER BY ${column}) AS ids FROM (
    SELECT user_id, ${column} FROM ${assigned} WHERE user_id = ANY($1::int[])
    UNION SELECT user_id, ${column} FROM ${granted} WHERE user_id = ANY($1::int[])) AS both_kinds GROUP BY user_id)`
const OWNERS = `
  SELECT u.id, u.name, u.email, u.username, u.provider, u.access_version AS version,
    u.lowest_accepted_version AS "lowestAccepted", u.disabled,
    floor(extract(epoch FROM greatest(coalesce(u.last_login_at, u.created_at), d.confirmed_at)))::float8 AS "confirmedAt",
    coalesce(u.main_area_id, g.main_area_id) AS "mainArea", p.ids AS profiles, a.ids AS areas
  FROM users u
    LEFT JOIN directory_accounts d ON d.user_id = u.id
    LEFT JOIN granted_access g ON g.user_id = u.id
    LEFT JOIN ${idsOf('user_profiles', 'granted_profiles', 'profile_id')} p ON p.user_id = u.id
    LEFT JOIN ${idsOf('user_areas', 'granted_areas', 'area_id')} a ON a.user_id = u.id
  WHERE u.id = ANY($1::int[])`

// By narrow indexes instead of one wide join, because this runs every two seconds.
const HAS_TOKEN = 'EXISTS (SELECT FROM personal_tokens t WHERE t.user_id = u.id AND t.expires_at > now())'
const CHANGED_OWNERS = `
  SELECT u.id FROM users u
  WHERE (u.access_version > 0 AND u.version_changed_in >= $1::text::xid8 OR u.last_login_at > now() - interval '10 seconds')
    AND ${HAS_TOKEN}
  UNION
  SELECT u.id FROM users u
  WHERE u.id IN (SELECT user_id FROM directory_accounts WHERE confirmed_at > now() - interval '10 seconds')
    AND ${HAS_TOKEN}`
