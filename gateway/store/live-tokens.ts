// Reads live access tokens and their owners a few thousand at a time: all at startup, then only changes.
import type { PersonalTokenNews } from '../tokens/personal-tokens.ts'
import type { PersonalTokenRow } from '../tokens/token-table.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'
import { readAccessNames, readOwners, secondsAt, unpackOwners } from './token-owners.ts'

/** Rows per statement, so that each ends well within its deadline, and little of it is in memory at once. */
const AT_ONCE = 4000

type Learn = (news: PersonalTokenNews) => void

/**
 * Delivers, in parts, the tokens and owners that a transaction from `cursor` on may have changed; with `undefined`, all live
 * ones. An owner comes no later than their tokens.
 * @param ageMs how long ago `cursor` was read: logins and rechecks leave no other trace than their time
 */
export const readLiveTokens = async (
  database: Database,
  cursor: string | undefined,
  learn: Learn,
  ageMs = 0
): Promise<void> => {
  const known = new Set<number>()
  const names = await database.read(readAccessNames)
  const learnOwners = async (ids: readonly number[]): Promise<void> => {
    const wanted = ids.filter(id => !known.has(id)).sort((a, b) => a - b)
    for (const id of wanted) known.add(id)
    let from = 0
    const readMore = () => {
      const some = wanted.slice(from, from + AT_ONCE)
      from += AT_ONCE
      return some.length === 0 ? undefined : database.read(manager => readOwners(manager, some))
    }
    for await (const rows of oneAhead(readMore))
      for (const row of rows) learn({ personalTokens: [], owners: unpackOwners(row, names) })
  }
  const ownersOf = async (statement: string, values: readonly unknown[] = []): Promise<number[]> => {
    const [row] = await database.read(manager => query<{ ids: string | null }>(manager, statement, values))
    // Our own JSON: an array of ids.
    return JSON.parse(row?.ids ?? '[]') as number[]
  }
  // In the order of their ids, all owners take Postgres half as long as page by page with their tokens.
  if (cursor === undefined) await learnOwners(await ownersOf(ALL_OWNERS))
  for await (const personalTokens of pagesOfTokens(database, cursor ?? '0')) {
    await learnOwners([...new Set(personalTokens.map(({ userId }) => userId))])
    learn({ personalTokens, owners: [] })
  }
  if (cursor !== undefined) await learnOwners(await ownersOf(CHANGED_OWNERS, [cursor, ageMs]))
}

/** Postgres prepares the next part while the previous one is processed. */
async function* oneAhead<T>(readAfter: (part: T | undefined) => Promise<T> | undefined): AsyncGenerator<T> {
  let next = readAfter(undefined)
  while (next !== undefined) {
    const part = await next
    next = readAfter(part)
    next?.catch(() => undefined)
    yield part
  }
}

const pagesOfTokens = (database: Database, cursor: string): AsyncGenerator<PersonalTokenRow[]> =>
  oneAhead(page => {
    if (page !== undefined && page.length < AT_ONCE) return undefined
    const lastId = (page ?? []).reduce((last, { id }) => Math.max(last, id), 0)
    return database.read(async manager => {
      const tokens: PersonalTokenRow[] = []
      for (const row of await query<PackedTokens>(manager, TOKENS, [cursor, lastId, AT_ONCE])) unpack(row, tokens)
      return tokens
    })
  })

/** All tokens of a page that name the same profiles, consecutive in `tokens`. */
interface PackedTokens {
  /** A JSON array. */
  profiles: string
  tokens: Buffer
}

/** SHA-256, then id, owner and version as int4, then the times. */
const PACKED_LENGTH = 32 + 3 * 4 + 2 * 8

const unpack = ({ profiles, tokens }: PackedTokens, into: PersonalTokenRow[]): void => {
  // Our own JSON: an array of texts.
  const list = JSON.parse(profiles) as string[]
  for (let at = 0; at < tokens.length; at += PACKED_LENGTH) {
    into.push({
      hashes: tokens,
      hashAt: at,
      id: tokens.readInt32BE(at + 32),
      userId: tokens.readInt32BE(at + 36),
      version: tokens.readInt32BE(at + 40),
      createdAt: secondsAt(tokens, at + 44),
      expiresAt: secondsAt(tokens, at + 52),
      profiles: list
    })
  }
}

// Packed, because one row each would take this process five times as long.
const TOKENS = `
  SELECT array_to_json(profiles)::text AS profiles, string_agg(decode(hash, 'hex')
    || int4send(id) || int4send(user_id) || int4send(version)
    || timestamptz_send(created_at) || timestamptz_send(expires_at), ''::bytea) AS tokens
  FROM (SELECT * FROM personal_tokens WHERE changed_in >= $1::text::xid8 AND expires_at > now() AND id > $2
    ORDER BY id LIMIT $3) AS page
  GROUP BY profiles`

const ALL_OWNERS = `
  SELECT array_to_json(array_agg(id))::text AS ids
  FROM (SELECT DISTINCT user_id AS id FROM personal_tokens WHERE expires_at > now()) AS owners`

// By narrow indexes instead of one wide join, because this runs every two seconds.
const HAS_TOKEN = 'EXISTS (SELECT FROM personal_tokens t WHERE t.user_id = u.id AND t.expires_at > now())'
const RECENTLY = "now() - interval '10 seconds' - $2::float8 * interval '1 millisecond'"
const CHANGED_OWNERS = `
  SELECT array_to_json(array_agg(id))::text AS ids FROM (
    SELECT u.id FROM users u
    WHERE (u.access_version > 0 AND u.version_changed_in >= $1::text::xid8 OR u.last_login_at > ${RECENTLY})
      AND ${HAS_TOKEN}
    UNION
    SELECT u.id FROM users u
    WHERE u.id IN (SELECT user_id FROM directory_accounts WHERE confirmed_at > ${RECENTLY})
      AND ${HAS_TOKEN}) AS changed`
