// Stores the session at the cloud provider from which each login came, and ends logins when the provider ends theirs.
import type { EntityManager } from 'typeorm'
import { appendAudit } from './audit-entry.ts'
import type { Database } from './database.ts'
import { query } from './query.ts'
import { sha256, storableKey } from './storable.ts'
import { revokeToken } from './token-state.ts'

interface ProviderSession {
  /** `jti` of our token. */
  readonly tokenId: string
  readonly userId: number
  readonly issuer: string
  readonly subject: string
  /** `sid` of the ID token; undefined if the provider sends none. */
  readonly sid: string | undefined
  /** Seconds since the epoch. */
  readonly expiresAt: number
}

/** A verified logout token with at least one of subject and sid (OpenID Connect Back-Channel Logout 1.0 §2.4). */
export interface ProviderLogout {
  readonly issuer: string
  readonly subject: string | undefined
  readonly sid: string | undefined
  readonly jti: string
  /** Seconds since the epoch. */
  readonly expiresAt: number
}

export type ProviderSessions = ReturnType<typeof createProviderSessions>

export const createProviderSessions = (database: Database) => ({
  begin: ({ tokenId, userId, issuer, subject, sid, expiresAt }: ProviderSession): Promise<void> =>
    database.read(async manager => {
      const values = [storableKey(tokenId), userId, storableKey(issuer), storableKey(subject), sidOf(sid), expiresAt]
      if (!values.includes(undefined)) await query(manager, BEGIN, values)
    }),
  /** Ends what the token names, on every instance, and returns the number of logins; undefined: the token was already used. */
  end: (logout: ProviderLogout, from: { requestId: string; ip: string }): Promise<number | undefined> =>
    database.write(manager => end(manager, logout, from))
})

const sidOf = (sid: string | undefined): string => storableKey(sid) ?? ''

const end = async (
  manager: EntityManager,
  { issuer, subject, sid, jti, expiresAt }: ProviderLogout,
  from: { requestId: string; ip: string }
): Promise<number | undefined> => {
  const key = sha256(JSON.stringify([issuer, jti]))
  if ((await query(manager, USE, [key, expiresAt])).length === 0) return undefined
  const names = [storableKey(issuer) ?? '', sidOf(sid), storableKey(subject) ?? '']
  const logins = await query<Login>(manager, NAMED, names)
  for (const login of logins) await revokeToken(manager, login.jti, login.expires_s)
  for (const [id, { length: sessions }] of Map.groupBy(logins, login => login.user_id)) {
    const actor = { id: null, username: 'cloudidp', ...from }
    await appendAudit(manager, { actor, action: 'logout.provider', target: `user:${id}`, details: { sessions } })
  }
  return logins.length
}

interface Login {
  jti: string
  user_id: number
  /** Seconds since the epoch. */
  expires_s: number
}

const BEGIN = `
  INSERT INTO provider_sessions (jti, user_id, issuer, subject, sid, expires_at)
  SELECT $1, id, $3, $4, $5, to_timestamp($6::float8) FROM users WHERE id = $2
  ON CONFLICT (jti) DO NOTHING`

// A minute of tolerance, because clocks differ.
const USE = `
  INSERT INTO used_logout_tokens (key, expires_at) VALUES ($1, to_timestamp($2::float8) + interval '1 minute')
  ON CONFLICT DO NOTHING RETURNING key`

// Without a sid, all logins of the subject end; with one, those of that session and those whose session is unknown.
const NAMED = `
  SELECT jti, user_id, extract(epoch FROM expires_at)::float8 AS expires_s FROM provider_sessions
  WHERE issuer = $1 AND expires_at > now() AND ($3 = '' OR subject = $3)
    AND (($2 <> '' AND sid = $2) OR ($3 <> '' AND (sid = '' OR $2 = '')))
  UNION
  SELECT s.jti, s.user_id, extract(epoch FROM s.expires_at)::float8 FROM provider_links l
  JOIN sessions s ON s.user_id = l.user_id AND s.provider = l.provider
  WHERE l.provider = 'cloudidp' AND l.issuer = $1 AND l.subject = $3 AND s.expires_at > now()
    AND NOT EXISTS (SELECT FROM provider_sessions p WHERE p.jti = s.jti)
  ORDER BY user_id, jti`
