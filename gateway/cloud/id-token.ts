// Checks what ID tokens say: issued for this client, in answer to this login, and valid now (OpenID Connect Core §3.1.3.7).
import { decodeProtectedHeader } from 'jose/decode/protected_header'
import { decodeJwt } from 'jose/jwt/decode'
import { OAuthFailure } from './failure.ts'
import type { Claims } from './person.ts'
import { TENANT_PLACEHOLDER } from './provider-metadata.ts'

/** Seconds by which the provider's clock may differ. */
export const CLOCK_TOLERANCE_S = 30

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
export const tenantIssuer = (idToken: string, clientId: string, template: string): string => {
  const { tid } = checkDirectIdToken(idToken, clientId, Date.now())
  if (typeof tid !== 'string' || !/^[0-9a-z-]{1,64}$/i.test(tid)) {
    throw new OAuthFailure('tenant-unknown', 'the ID token names no tenant')
  }
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
