// Checks logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.4, §2.6).
import { JOSEError } from 'jose/errors'
import type { ProviderLogout } from '../store/provider-sessions.ts'
import { isRecord } from '../values/records.ts'
import { OAuthFailure } from './failure.ts'
import { CLOCK_TOLERANCE_S } from './id-token.ts'
import type { ProviderMetadata } from './provider-metadata.ts'
import type { VerifyProviderToken } from './provider-tokens.ts'

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const MAX_TOKEN_LENGTH = 16 * 1024

/** What is wrong with a logout token, worded for the provider's log. */
export class LogoutTokenError extends Error {}

interface LogoutTokenParts {
  readonly metadata: ProviderMetadata
  readonly verify: VerifyProviderToken
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** Throws LogoutTokenError, and OAuthFailure if the provider's keys cannot be read. */
export const checkLogoutToken = async (
  token: string,
  { metadata, verify, now }: LogoutTokenParts
): Promise<ProviderLogout> => {
  if (token.length > MAX_TOKEN_LENGTH) throw new LogoutTokenError('the logout token is too long')
  const { claims, typ, issuer } = await verify(token, metadata).catch(error => {
    throw error instanceof OAuthFailure
      ? error
      : new LogoutTokenError(`the logout token is not valid (${faultOf(error)})`)
  })
  // An ID token must not end sessions (§2.4 recommends the type, RFC 8725 §3.11 explains why).
  if (typ !== undefined && !/^(?:application\/)?(?:logout\+jwt|jwt)$/i.test(typ)) throw wrong('typ')
  if (claims.nonce !== undefined) throw wrong('nonce')
  if (!isRecord(claims.events) || !isRecord(claims.events[EVENT])) throw wrong('events')
  const { iat: issuedAt = Number.NaN, exp: expiresAt = 0 } = claims
  if (!(issuedAt <= now / 1000 + CLOCK_TOLERANCE_S)) throw wrong('iat')
  const [subject, sid, jti] = [textOf('sub', claims.sub), textOf('sid', claims.sid), textOf('jti', claims.jti)]
  if (jti === undefined) throw wrong('jti')
  if (subject === undefined && sid === undefined) throw wrong('sub')
  return { issuer, subject, sid, jti, issuedAt, expiresAt }
}

const faultOf = (error: unknown): string => {
  if (!(error instanceof JOSEError)) return 'malformed'
  return 'claim' in error ? `claim ${error.claim}` : error.code
}

const wrong = (claim: string) => new LogoutTokenError(`the logout token is not valid (claim ${claim})`)

const textOf = (claim: string, value: unknown): string | undefined => {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '' || value.length > 512) throw wrong(claim)
  return value
}
