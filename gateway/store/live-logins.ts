// Stores the live logins: who, from where, with which browser, and when each was last used.
import type { EntityManager } from 'typeorm'
import { NotFound } from '../errors.ts'
import type { LiveLogin, Provider } from '../identity.ts'
import { closed, integer, string } from '../values/json-schema.ts'
import { type Actor, type AuditEntry, appendAudit, unlessErased } from './audit-entry.ts'
import { type Database, readRows } from './database.ts'
import { beginAtProvider, type ProviderSession } from './provider-sessions.ts'
import { type Bounds, isRowId, query, readPage, rowId, storableKey, storableText } from './query.ts'
import { revokeToken, revokeTokens } from './token-state.ts'

/** A login as described by its tokens; times in seconds since the epoch. */
interface StoredLogin {
  readonly tokenId: string
  readonly userId: number
  readonly provider: Provider
  readonly version: number
  readonly createdAt: number
  readonly expiresAt: number
}

interface BegunLogin {
  readonly login: StoredLogin
  readonly ip: string
  readonly userAgent: string
  /** undefined: no provider can end it. */
  readonly atProvider: ProviderSession | undefined
  readonly entry: AuditEntry
}

/** Who has ended a login before it began: the provider, or an Admin. */
export type LoginEnd = 'ended-at-provider' | 'ended-meanwhile'

interface LoginUse extends StoredLogin {
  /** Milliseconds since the epoch. */
  readonly usedAt: number
}

/** The login whose token was used; empty for tokens that do not belong to a person's login. */
export const loginUse = ({ identity, usedAt }: { identity: LiveLogin; usedAt: number }): LoginUse[] => {
  const { user, tokenId, version, issuedAt, authenticatedAt, expiresAt, kind } = identity
  if (kind !== 'login' || user.provider === 'client') return []
  const createdAt = authenticatedAt === 0 ? issuedAt : authenticatedAt
  return [{ tokenId, userId: user.id, provider: user.provider, version, createdAt, expiresAt, usedAt }]
}

/** What lists show of a login. */
export const loginItemSchema = closed({
  id: integer,
  current: { type: 'boolean', description: 'The session that asks' },
  provider: { type: 'string', enum: ['ldap', 'cloudidp'] },
  createdAt: { type: 'string', description: 'ISO 8601, UTC' },
  lastUsedAt: { type: 'string', description: 'ISO 8601, UTC, to the minute' },
  ip: { type: 'string', description: 'Where the login came from' },
  userAgent: string
})

export type LiveLogins = ReturnType<typeof createLiveLogins>

export const createLiveLogins = (database: Database) => ({
  /**
   * Stores a successful login and its audit entry: there is neither without the other. Returns what has ended the login in
   * the meantime, as a stable word.
   */
  begin: ({ login, ip, userAgent, atProvider, entry }: BegunLogin): Promise<LoginEnd | undefined> =>
    database.write(async manager => {
      if (atProvider !== undefined && !(await beginAtProvider(manager, login, atProvider))) return 'ended-at-provider'
      const { tokenId, userId, provider, createdAt, expiresAt, version } = login
      const place = [storableText(ip, 64), storableText(userAgent)]
      const key = storableKey(tokenId) ?? ''
      const begun = await query(manager, BEGIN, [key, userId, provider, createdAt, expiresAt, ...place, version])
      if (begun.length === 0) {
        await query(manager, 'DELETE FROM provider_sessions WHERE jti = $1', [key])
        return 'ended-meanwhile'
      }
      await appendAudit(manager, entry)
      return undefined
    }),
  /** Records when logins were last used; unknown ones are stored from now on, ended ones are not. */
  recordUse: (uses: readonly LoginUse[]): Promise<void> => database.read(manager => recordUse(manager, uses)),
  /** Stores that a login goes on until `expiresAt` (seconds since the epoch). False if it has been ended in the meantime. */
  renew: (login: LiveLogin, expiresAt: number): Promise<boolean> =>
    database.read(async manager => {
      await recordUse(manager, loginUse({ identity: login, usedAt: Date.now() }))
      return (await query(manager, RENEW, [storableKey(login.tokenId) ?? '', expiresAt])).length > 0
    }),
  /** When each of these logins ends, in seconds since the epoch; those that have been ended are missing. */
  liveUntil: async (tokenIds: readonly string[]): Promise<ReadonlyMap<string, number>> => {
    const ids = tokenIds.map(id => storableKey(id) ?? '')
    const rows = await readRows<{ jti: string; expiresAt: number }>(database, LIVE_UNTIL, [ids])
    return new Map(rows.map(({ jti, expiresAt }) => [jti, expiresAt]))
  },
  /** Live logins of a person, the most recently used first; `tokenId` is that of the login that sent the request. */
  list: (userId: number, options: Bounds & { tokenId?: string }) =>
    database.read(manager => list(manager, userId, options)),
  /** Ends one login of a person on every instance. Throws NotFound. */
  end: (actor: Actor, userId: number, id: number): Promise<void> =>
    database.write(async manager => {
      const [login] = await query<Row>(manager, `${LIVE} AND s.id = $2 FOR UPDATE`, [rowId(userId), rowId(id)])
      if (login === undefined) throw new NotFound({ reason: 'no-session' })
      await revokeToken(manager, login.jti, login.expiresAt)
      await appendAudit(manager, { actor, action: 'session.end', target: `user:${userId}`, details: { session: id } })
    }),
  /** Ends all logins of a person, except the one with `exceptTokenId` if given. Returns their number. */
  endAll: (actor: Actor, userId: number, exceptTokenId = ''): Promise<number> =>
    database.write(async manager => {
      const target = `user:${userId}`
      const entry = await unlessErased(manager, actor.id, { actor, action: 'session.end-all', target })
      const logins = await query<Row>(manager, ALL_ENDABLE, [rowId(userId), exceptTokenId])
      await revokeTokens(manager, logins)
      const details = { sessions: logins.length, keptOwn: exceptTokenId !== '' }
      await appendAudit(manager, { ...entry, details })
      return logins.length
    })
})

interface Row {
  id: number
  jti: string
  provider: Provider
  created_at: Date
  last_used_at: Date
  /** Seconds since the epoch. */
  expiresAt: number
  ip: string
  user_agent: string
}

/** A refreshed token and the previous one belong to one login, and a statement may touch its row only once. */
const latestOf = (uses: readonly LoginUse[]): LoginUse[] => {
  const latest = new Map<string, LoginUse>()
  for (const use of uses) if (use.usedAt >= (latest.get(use.tokenId)?.usedAt ?? 0)) latest.set(use.tokenId, use)
  return [...latest.values()]
}

const recordUse = async (manager: EntityManager, all: readonly LoginUse[]) => {
  const uses = latestOf(all)
  if (uses.length === 0) return
  const keyed = uses.map(use => ({ ...use, tokenId: storableKey(use.tokenId) ?? '' }))
  const storable = keyed.filter(({ userId }) => isRowId(userId))
  const rows = await query<Pick<Row, 'jti'>>(manager, RECORD_USE, [JSON.stringify(storable)])
  const known = new Set(rows.map(({ jti }) => jti))
  const unknown = storable.filter(({ tokenId }) => !known.has(tokenId))
  if (unknown.length > 0) await query(manager, STORE_UNKNOWN, [JSON.stringify(unknown)])
}

const list = async (manager: EntityManager, userId: number, { tokenId, ...bounds }: Bounds & { tokenId?: string }) => {
  const select = (window: string) => `${LIVE} ORDER BY s.last_used_at DESC, s.id DESC ${window}`
  const page = await readPage<Row>(manager, bounds, `FROM (${LIVE}) AS live`, select, [rowId(userId)])
  const items = page.items.map(row => ({
    id: row.id,
    current: row.jti === tokenId,
    provider: row.provider,
    createdAt: row.created_at.toISOString(),
    lastUsedAt: row.last_used_at.toISOString(),
    ip: row.ip,
    userAgent: row.user_agent
  }))
  return { ...page, items }
}

const OF_PERSON = `
  SELECT s.id, s.jti, s.provider, s.created_at, date_trunc('minute', s.last_used_at) AS last_used_at,
    extract(epoch FROM s.expires_at)::float8 AS "expiresAt", s.ip, s.user_agent
  FROM sessions s WHERE s.user_id = $1 AND s.expires_at >`
const LIVE = `${OF_PERSON} now()`
// A minute of tolerance, because a gateway's clock that lags behind the database's takes the token for live, and renews it.
const ALL_ENDABLE = `${OF_PERSON} now() - interval '1 minute' AND s.jti <> $2 ORDER BY s.jti FOR UPDATE`

// An end or an erasure of the person that is under way is waited for; one that begins later finds the login.
const BEGIN = `
  INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at, ip, user_agent)
  SELECT $1, id, $3, to_timestamp($4::float8), now(), to_timestamp($5::float8), $6, $7 FROM users
  WHERE id = $2 AND lowest_accepted_version <= $8 AND NOT EXISTS (SELECT FROM revocations r WHERE r.jti = $1)
  FOR SHARE
  ON CONFLICT (jti) DO UPDATE SET ip = excluded.ip, user_agent = excluded.user_agent RETURNING jti`

const USED = `
  jsonb_to_recordset($1::jsonb) AS used ("tokenId" text, "userId" int, provider text, version bigint,
    "createdAt" float8, "usedAt" float8, "expiresAt" float8)`

// All processes record at the same time, and the same logins: in one order, so that no two of them can deadlock. What another
// one has recorded is not written again.
const RECORD_USE = `
  WITH known AS (
    SELECT s.id, used.* FROM ${USED} JOIN sessions s ON s.jti = "tokenId"
    WHERE s.last_used_at < to_timestamp("usedAt" / 1000) OR s.expires_at < to_timestamp("expiresAt")
    ORDER BY s.jti FOR NO KEY UPDATE OF s)
  UPDATE sessions s SET last_used_at = greatest(s.last_used_at, to_timestamp("usedAt" / 1000)),
    expires_at = greatest(s.expires_at, to_timestamp(known."expiresAt"))
  FROM known WHERE s.id = known.id RETURNING s.jti`

// A login that was ended in the meantime must not come back, whether it was ended itself or with all tokens of its person: until
// that is committed, its row is there. Each row that conflicts takes an id, of which there are too few for every use. A token
// that outlives its row was renewed in what a fail-over has lost.
const STORE_UNKNOWN = `
  INSERT INTO sessions (jti, user_id, provider, created_at, last_used_at, expires_at)
  SELECT "tokenId", u.id, u.provider, to_timestamp("createdAt"), to_timestamp("usedAt" / 1000), to_timestamp("expiresAt")
  FROM ${USED}
  JOIN users u ON u.id = "userId" AND u.provider = used.provider AND used.version >= u.lowest_accepted_version
  WHERE "tokenId" <> '' AND NOT EXISTS (SELECT FROM revocations r WHERE r.jti = "tokenId")
    AND NOT EXISTS (SELECT FROM sessions s WHERE s.jti = "tokenId")
  ORDER BY "tokenId"
  ON CONFLICT (jti) DO NOTHING`

// A statement of its own, after the row exists: it waits for what ends the login, and then finds no row or its revocation.
// A token renewed at the same moment would otherwise outlive that revocation.
const RENEW = `
  UPDATE sessions SET expires_at = greatest(expires_at, to_timestamp($2::float8))
  WHERE jti = $1 AND NOT EXISTS (SELECT FROM revocations r WHERE r.jti = $1) RETURNING jti`

const LIVE_UNTIL = `
  SELECT jti, extract(epoch FROM expires_at)::float8 AS "expiresAt" FROM sessions WHERE jti = ANY($1::text[])`
