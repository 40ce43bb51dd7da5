// Validates logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.4, §2.6).
import type { ProviderLogout } from '../store/provider-sessions.ts'
import { keyIdOf, verifyForeignToken } from '../tokens/foreign-token.ts'
import { isRecord } from '../values/records.ts'
import { tenantIssuer } from './id-token.ts'
import type { ProviderKeys } from './provider-keys.ts'
import { isTemplate, type ProviderMetadata } from './provider-metadata.ts'

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const MAX_TOKEN_LENGTH = 16 * 1024
const CLOCK_TOLERANCE_S = 30
/** Unsigned, or signed with a secret, which must not be accepted for logout tokens. */
const NOT_ASYMMETRIC = /^(?:none|HS\d+)$/

/** What is wrong with a logout token, worded for the provider's log. */
export class LogoutTokenError extends Error {}

interface LogoutTokenParts {
  readonly clientId: string
  readonly metadata: ProviderMetadata
  readonly keysOf: ProviderKeys
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Throws LogoutTokenError, and OAuthFailure if the provider's keys cannot be read. */
export const judgeLogoutToken = async (token: string, parts: LogoutTokenParts): Promise<ProviderLogout> => {
  const { clientId, metadata, keysOf, now } = parts
  if (token.length > MAX_TOKEN_LENGTH) throw new LogoutTokenError('the logout token is too long')
  const issuer = isTemplate(metadata) ? issuerOf(token, parts) : metadata.issuer
  const keys = await keysOf(metadata, await keyIdOf(token))
  const announced = metadata.id_token_signing_alg_values_supported ?? ['RS256']
  const verified = await verifyForeignToken(token, keys, {
    issuer,
    audience: clientId,
    algorithms: announced.filter(algorithm => !NOT_ASYMMETRIC.test(algorithm)),
    clockToleranceS: CLOCK_TOLERANCE_S,
    now
  })
  if ('fault' in verified) throw new LogoutTokenError(`the logout token is not valid (${verified.fault})`)
  const { claims, typ } = verified
  // An ID token must not end sessions (§2.4 recommends the type, RFC 8725 §3.11 explains why).
  if (typ !== undefined && !/^(?:application\/)?(?:logout\+jwt|jwt)$/i.test(typ)) throw wrong('typ')
  if (claims.nonce !== undefined) throw wrong('nonce')
  if (!isRecord(claims.events) || !isRecord(claims.events[EVENT])) throw wrong('events')
  if (typeof claims.iat !== 'number' || claims.iat > now / 1000 + CLOCK_TOLERANCE_S) throw wrong('iat')
  const [subject, sid, jti] = [textOf('sub', claims.sub), textOf('sid', claims.sid), textOf('jti', claims.jti)]
  if (jti === undefined) throw wrong('jti')
  if (subject === undefined && sid === undefined) throw wrong('sub')
  return { issuer, subject, sid, jti, expiresAt: claims.exp ?? 0 }
}

const issuerOf = (token: string, { clientId, metadata }: LogoutTokenParts): string => {
  try {
    return tenantIssuer(token, clientId, metadata.issuer)
  } catch {
    throw wrong('iss')
  }
}

const wrong = (claim: string) => new LogoutTokenError(`the logout token is not valid (claim ${claim})`)

const textOf = (claim: string, value: unknown): string | undefined => {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '' || value.length > 512) throw wrong(claim)
  return value
}
