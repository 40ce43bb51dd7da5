// Stores the session at the cloud provider from which each login came, and ends logins when the provider ends theirs.
import type { EntityManager } from 'typeorm'
import type { RevokedToken } from '../tokens/revocations.ts'
import { raiseVersions } from './access-changes.ts'
import { appendAudit, appendAudits } from './audit-entry.ts'
import { type Database, writeAccess } from './database.ts'
import { HOLDS_LOGIN, query, sha256, storableKey } from './query.ts'
import { revokeTokens } from './token-state.ts'

/** What the provider knows a login by. */
export interface ProviderSession {
  readonly issuer: string
  readonly subject: string
  /** `sid` of the ID token; undefined if the provider sends none. */
  readonly sid: string | undefined
  /** When the provider issued the ID token; seconds since the epoch. */
  readonly issuedAt: number
  /** When the login ends, however often it is renewed; seconds since the epoch. */
  readonly loginEndsAt: number
}

/** A verified logout token with at least one of subject and sid (OpenID Connect Back-Channel Logout 1.0 §2.4). */
export interface ProviderLogout {
  readonly issuer: string
  readonly subject: string | undefined
  readonly sid: string | undefined
  readonly jti: string
  /** Seconds since the epoch. */
  readonly issuedAt: number
  readonly expiresAt: number
}

/**
 * Stores where a login came from.
 * @param login `tokenId` is the `jti` of our token
 * @returns false if the provider has ended this session since it issued the ID token: the login must not succeed
 */
export const beginAtProvider = async (
  manager: EntityManager,
  { tokenId, userId }: { readonly tokenId: string; readonly userId: number },
  { issuer, subject, sid, issuedAt, loginEndsAt }: ProviderSession
): Promise<boolean> => {
  const names = [storableKey(issuer), storableKey(subject), sidOf(sid)]
  const values = [storableKey(tokenId), userId, ...names, issuedAt, loginEndsAt]
  return values.includes(undefined) || (await query(manager, BEGIN, values)).length > 0
}

const sidOf = (sid: string | undefined): string => storableKey(sid) ?? ''

/** Ends what the token names, on every instance, and returns the number of logins; undefined: the token was already used. */
export const endAtProvider = (
  database: Database,
  { issuer, subject, sid, jti, issuedAt, expiresAt }: ProviderLogout,
  from: { requestId: string; ip: string }
): Promise<number | undefined> =>
  database.write(async manager => {
    const key = sha256(JSON.stringify([issuer, jti]))
    const names = [storableKey(issuer) ?? '', sidOf(sid), storableKey(subject) ?? '']
    if ((await query(manager, USE, [...names, key, issuedAt, expiresAt])).length === 0) return undefined
    // Logins that are being stored are waited for, and found below; later ones find the row that has just been written.
    await query(manager, 'LOCK TABLE provider_sessions IN SHARE MODE')
    const logins = await query<Login>(manager, NAMED, names)
    await revokeTokens(manager, logins)
    for (const [id, { length: sessions }] of Map.groupBy(logins, login => login.user_id)) {
      const actor = { id: null, username: 'cloudidp', ...from }
      await appendAudit(manager, { actor, action: 'logout.provider', target: `user:${id}`, details: { sessions } })
    }
    return logins.length
  })

interface Login extends RevokedToken {
  user_id: number
}

/** Everyone in a tenant gets another access version: some tenths of a millisecond each. */
const TENANT_MS = 120_000

/** Ends what people of tenants hold that are not admitted any more; returns their number. @param admitted in lower case */
export const endOtherTenants = (database: Database, admitted: readonly string[]): Promise<number> =>
  // Of several processes that start together, one ends them.
  writeAccess(
    database,
    async manager => {
      const people = await query<{ id: number; tenant: string }>(manager, OF_OTHER_TENANTS, [admitted])
      const ids = people.map(({ id }) => id)
      await raiseVersions(manager, ids, true)
      const ended = { actor: { id: null, username: 'cloudidp' }, action: 'person.ended-by-tenant' }
      await appendAudits(
        manager,
        people.map(({ id, tenant }) => ({ ...ended, target: `user:${id}`, details: { tenant } }))
      )
      return people.length
    },
    TENANT_MS
  )

const OF_OTHER_TENANTS = `
  SELECT u.id, g.tenant FROM person_groups g JOIN users u ON u.id = g.user_id
  WHERE g.provider = 'cloudidp' AND g.tenant <> '' AND lower(g.tenant) <> ALL ($1::text[]) AND ${HOLDS_LOGIN}
  ORDER BY u.id`

// A session that has ended never comes back; its subject may log in anew, with a later ID token. Of the same second, it may be earlier.
const BEGIN = `
  INSERT INTO provider_sessions (jti, user_id, issuer, subject, sid, expires_at)
  SELECT $1, id, $3, $4, $5, to_timestamp($7::float8) FROM users WHERE id = $2 AND NOT EXISTS (
    SELECT FROM used_logout_tokens e WHERE e.issuer = $3 AND (e.subject = '' OR e.subject = $4) AND (
      (e.sid <> '' AND e.sid = $5)
      OR (e.subject <> '' AND (e.sid = '' OR $5 = '') AND e.issued_at >= to_timestamp($6::float8))))
  RETURNING jti`

// A minute of tolerance, because clocks differ; ten minutes, because a login may be under way.
const USE = `
  INSERT INTO used_logout_tokens (issuer, sid, subject, key, issued_at, expires_at)
  VALUES ($1, $2, $3, $4, to_timestamp($5::float8),
    greatest(to_timestamp($6::float8) + interval '1 minute', now() + interval '10 minutes'))
  ON CONFLICT DO NOTHING RETURNING key`

// Without a sid, all logins of the subject end; with one, those of that session and those whose session is unknown.
const NAMED = `
  SELECT jti, user_id, extract(epoch FROM expires_at)::float8 AS "expiresAt" FROM provider_sessions
  WHERE issuer = $1 AND expires_at > now() AND ($3 = '' OR subject = $3)
    AND (($2 <> '' AND sid = $2) OR ($3 <> '' AND (sid = '' OR $2 = '')))
  UNION
  SELECT s.jti, s.user_id, extract(epoch FROM s.expires_at)::float8 FROM provider_links l
  JOIN sessions s ON s.user_id = l.user_id AND s.provider = l.provider
  WHERE l.provider = 'cloudidp' AND l.issuer = $1 AND l.subject = $3 AND s.expires_at > now()
    AND NOT EXISTS (SELECT FROM provider_sessions p WHERE p.jti = s.jti)
  ORDER BY user_id, jti`
