// Verifies ID tokens and logout tokens with the provider's published keys, and checks what they say (OpenID Connect Core §3.1.3.7, §10.1).
import type { JWTVerifyGetKey, JWTVerifyOptions, JWTVerifyResult } from 'jose'
import { decodeProtectedHeader } from 'jose/decode/protected_header'
import {
  JOSEAlgNotAllowed,
  JOSEError,
  JWKSMultipleMatchingKeys,
  JWKSNoMatchingKey,
  JWSSignatureVerificationFailed,
  JWTClaimValidationFailed
} from 'jose/errors'
import { createLocalJWKSet } from 'jose/jwks/local'
import { createRemoteJWKSet, customFetch } from 'jose/jwks/remote'
import { decodeJwt } from 'jose/jwt/decode'
import { jwtVerify } from 'jose/jwt/verify'
import type { ProviderLogout } from '../store/provider-sessions.ts'
import { isRecord } from '../values/records.ts'
import { asOAuthFailure, OAuthFailure } from './failure.ts'
import type { Claims } from './person.ts'
import type { ProviderFetch } from './provider-fetch.ts'
import { isTemplate, type ProviderMetadata, readJson, TENANT_PLACEHOLDER } from './provider-metadata.ts'

/** Seconds by which the provider's clock may differ. */
const CLOCK_TOLERANCE_S = 30
const KEEP_MS = 5 * 60 * 1000
/** While they cannot be read again, as discovery is kept. */
const TRUST_MS = 60 * 60 * 1000
/** Anyone can send tokens, and they can name any key. */
const PAUSE_MS = 10_000
const MAX_KEYS = 200
/** The last second of a Date; the database knows some more. */
const MAX_TIME_S = 8.64e12
/** Unsigned, or signed with a secret: neither proves who issued the token. */
const NOT_ASYMMETRIC = /^(?:none|HS\d+)$/

export type VerifyProviderToken = ReturnType<typeof createTokenVerifier>

interface VerifierOptions {
  readonly clientId: string
  readonly fetch: ProviderFetch
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export const createTokenVerifier = ({ clientId, fetch, now }: VerifierOptions) => {
  let published: ReturnType<typeof publishedKeys> | undefined

  /**
   * The claims, `iat` and `exp` among them, of a token that this provider has issued for this client and that is valid now; its
   * `issuer` is the tenant's own if the metadata contain a template. Throws OAuthFailure if the keys cannot be read or no tenant is
   * named, otherwise jose's error about the token.
   */
  return async (token: string, metadata: ProviderMetadata) => {
    const uri = metadata.jwks_uri
    if (uri === undefined) throw new OAuthFailure('provider-metadata', 'the provider publishes no keys')
    if (published?.uri !== uri) published = publishedKeys(uri, fetch, now)
    const { reads, areNewer, keepUp } = published
    await keepUp()
    const issuer = isTemplate(metadata) ? tenantIssuer(token, metadata.issuer) : metadata.issuer
    const keys = isTemplate(metadata) ? keysOfIssuer(published.keys, [issuer, metadata.issuer]) : published.keys
    const announced = metadata.id_token_signing_alg_values_supported ?? ['RS256']
    const options: JWTVerifyOptions = {
      issuer,
      audience: clientId,
      algorithms: announced.filter(algorithm => !NOT_ASYMMETRIC.test(algorithm)),
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(now()),
      requiredClaims: ['iat', 'exp']
    }
    const before = reads()
    try {
      return { ...(await verify(token, keys, options)), issuer }
    } catch (error) {
      // A provider may have replaced its keys; its tokens need not name one.
      const mayBeNew = error instanceof JWKSNoMatchingKey || error instanceof JWSSignatureVerificationFailed
      if (!mayBeNew || !(await areNewer(before))) throw error
      return { ...(await verify(token, keys, options)), issuer }
    }
  }
}

const publishedKeys = (uri: string, fetch: ProviderFetch, now: () => number) => {
  const url = URL.parse(uri)
  if (url === null) throw new OAuthFailure('provider-metadata', 'jwks_uri is not a URL')
  let read = 0
  let readAt = Number.NEGATIVE_INFINITY
  let refreshedAt = Number.NEGATIVE_INFINITY
  let askedAgainAt = Number.NEGATIVE_INFINITY
  const keys = createRemoteJWKSet(url, {
    // `keepUp` decides.
    cacheMaxAge: Number.POSITIVE_INFINITY,
    // `areNewer` decides, because it also reads again for tokens that name no key.
    cooldownDuration: Number.POSITIVE_INFINITY,
    [customFetch]: async address => {
      const set = await readKeys(address, fetch)
      read += 1
      readAt = now()
      return set
    }
  })
  // A clock that has been set back says nothing.
  const msSince = (at: number): number => (now() < at ? Number.POSITIVE_INFINITY : now() - at)
  const mayAskAgain = (): boolean => {
    if (performance.now() - askedAgainAt < PAUSE_MS) return false
    askedAgainAt = performance.now()
    return true
  }
  return {
    uri,
    keys,
    /** How often they were read. */
    reads: () => read,
    /** Reads them again every five minutes. While that fails, it is tried every ten seconds, and they count for an hour. */
    keepUp: async (): Promise<void> => {
      if (msSince(readAt) < KEEP_MS) return
      if (msSince(readAt) < TRUST_MS && msSince(refreshedAt) < PAUSE_MS) return
      refreshedAt = now()
      await keys.reload().catch(error => {
        if (msSince(readAt) >= TRUST_MS) throw error
      })
    },
    /** Whether they were read since: for another token, or now, but at most every ten seconds. */
    areNewer: async (before: number): Promise<boolean> => {
      if (keys.reloading || (read === before && mayAskAgain())) await keys.reload()
      return read !== before
    }
  }
}

/**
 * Where many tenants publish their keys together, a key signs for the issuer that it names alone; one that names the template signs for
 * all (Microsoft identity platform, "Validate the signing key issuer").
 */
const keysOfIssuer =
  (keys: ReturnType<typeof createRemoteJWKSet>, accepted: readonly string[]): JWTVerifyGetKey =>
  async (header, token) => {
    const isAccepted = ({ issuer }: Readonly<Record<string, unknown>>) =>
      typeof issuer !== 'string' || accepted.includes(issuer)
    if (header?.kid === undefined) throw new JWKSNoMatchingKey()
    // Reads them, if need be. Keys of several issuers may have one `kid`.
    await keys(header, token).catch(error => {
      if (!(error instanceof JWKSMultipleMatchingKeys)) throw error
    })
    return createLocalJWKSet({ keys: keys.jwks()?.keys.filter(isAccepted) ?? [] })(header, token)
  }

const readKeys = async (address: string, fetch: ProviderFetch): Promise<Response> => {
  try {
    const headers = { accept: 'application/json, application/jwk-set+json' }
    const response = await fetch(address, { method: 'GET', headers })
    if (response.status !== 200) throw new OAuthFailure('provider-error', `jwks_uri responded with ${response.status}`)
    const { keys } = await readJson(response)
    if (!Array.isArray(keys) || keys.length > MAX_KEYS) throw new OAuthFailure('provider-nonsense', 'no usable key set')
    return Response.json({ keys: keys.filter(isRecord) })
  } catch (error) {
    throw asOAuthFailure(error, 'provider-nonsense')
  }
}

const verify = async (token: string, keys: JWTVerifyGetKey, options: JWTVerifyOptions) => {
  try {
    return verified(await jwtVerify(token, keys, options))
  } catch (error) {
    if (!(error instanceof JWKSMultipleMatchingKeys)) throw error
    for await (const key of error) {
      try {
        return verified(await jwtVerify(token, key, options))
      } catch (other) {
        if (!(other instanceof JWSSignatureVerificationFailed)) throw other
      }
    }
    throw new JWSSignatureVerificationFailed()
  }
}

const verified = ({ payload, protectedHeader }: JWTVerifyResult) => {
  for (const claim of ['iat', 'exp'] as const) {
    const { [claim]: seconds = 0 } = payload
    if (seconds < 0 || seconds > MAX_TIME_S) throw new JWTClaimValidationFailed(`"${claim}" is no time`, payload, claim)
  }
  return { claims: payload, typ: protectedHeader.typ }
}

/**
 * The claims. Without CLOUDIDP_ISSUER no keys are known: the TLS connection to the configured token endpoint authenticates
 * the issuer (OpenID Connect Core §3.1.3.7, item 6); audience and time are checked here. It provides the tenant (`tid`)
 * and missing names, never the subject. `now` in milliseconds since the epoch. Throws OAuthFailure.
 */
export const checkDirectIdToken = (idToken: string, clientId: string, now: number): Claims => {
  const { alg, claims } = decoded(idToken)
  if (typeof alg !== 'string' || alg.toLowerCase() === 'none' || idToken.endsWith('.')) throw invalid('is not signed')
  checkParty(claims, clientId)
  const nowS = Math.floor(now / 1000)
  if (typeof claims.exp !== 'number' || claims.exp <= nowS - CLOCK_TOLERANCE_S) throw invalid('has expired')
  if (claims.nbf !== undefined && (typeof claims.nbf !== 'number' || claims.nbf > nowS + CLOCK_TOLERANCE_S)) {
    throw invalid('is not valid yet')
  }
  return claims
}

/** For claims whose signature, issuer, audience and time have been verified. Throws OAuthFailure. */
export const checkIdToken = (claims: Claims, clientId: string, nonce: string): Claims => {
  checkParty(claims, clientId)
  if (claims.nonce !== nonce) throw invalid('belongs to another login (nonce)')
  if (typeof claims.sub !== 'string' || claims.sub === '') throw invalid('names no subject')
  return claims
}

/**
 * That the person has proven who they are since then, where the provider says when they last did (OpenID Connect Core
 * §3.1.2.1, `max_age`): one that ignores `prompt=login` answers from its old session. Throws OAuthFailure.
 */
export const checkLoggedInAgain = ({ auth_time: at }: Claims, since: number | undefined): void => {
  if (since === undefined || at === undefined) return
  if (typeof at !== 'number' || at < Math.floor(since / 1000) - CLOCK_TOLERANCE_S)
    throw new OAuthFailure('login-not-repeated', 'the provider went on with an earlier login')
}

const checkParty = ({ aud, azp }: Claims, clientId: string): void => {
  const audience = Array.isArray(aud) ? aud : [aud]
  if (!audience.includes(clientId)) throw invalid('is for another client')
  if (azp !== undefined ? azp !== clientId : audience.length > 1) throw invalid('was issued to another client')
}

/**
 * The issuer of this tenant, from a template with `{tenantid}`. This only selects the expected issuer; the token's issuer
 * and signature are verified with it afterwards.
 */
const tenantIssuer = (token: string, template: string): string => {
  const { tid } = decodeJwt(token)
  if (typeof tid !== 'string' || !/^[0-9a-z-]{1,64}$/i.test(tid))
    throw new OAuthFailure('tenant-unknown', 'the token names no tenant')
  return template.replace(TENANT_PLACEHOLDER, tid)
}

const invalid = (what: string) => new OAuthFailure('id-token-invalid', `the ID token ${what}`)

const decoded = (idToken: string) => {
  try {
    return { claims: decodeJwt(idToken), alg: decodeProtectedHeader(idToken).alg }
  } catch {
    throw invalid('is no JWT')
  }
}

const EVENT = 'http://schemas.openid.net/event/backchannel-logout'
const MAX_TOKEN_LENGTH = 16 * 1024

/** What is wrong with a logout token, worded for the provider's log. */
export class LogoutTokenError extends Error {}

/** `now` in milliseconds since the epoch. Throws LogoutTokenError, and OAuthFailure if the provider's keys cannot be read. */
export const checkLogoutToken = async (
  token: string,
  { metadata, verify, now }: { metadata: ProviderMetadata; verify: VerifyProviderToken; now: number }
): Promise<ProviderLogout> => {
  if (token.length > MAX_TOKEN_LENGTH) throw new LogoutTokenError('the logout token is too long')
  const { claims, typ, issuer } = await verify(token, metadata).catch(error => {
    throw error instanceof OAuthFailure && error.reason !== 'tenant-unknown'
      ? error
      : new LogoutTokenError(`the logout token is not valid (${faultOf(error)})`, { cause: error })
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
  if (error instanceof OAuthFailure) return 'claim tid'
  if (error instanceof JWSSignatureVerificationFailed) return 'signature'
  if (error instanceof JWKSNoMatchingKey) return 'unknown key'
  if (error instanceof JOSEAlgNotAllowed) return 'algorithm'
  return error instanceof JOSEError && 'claim' in error ? `claim ${error.claim}` : 'malformed'
}

const wrong = (claim: string) => new LogoutTokenError(`the logout token is not valid (claim ${claim})`)

const textOf = (claim: string, value: unknown): string | undefined => {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '' || value.length > 512) throw wrong(claim)
  return value
}
