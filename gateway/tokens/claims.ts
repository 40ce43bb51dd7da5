// Defines the claims of Portaria's own tokens, and validates them one by one (RFC 7519 §4.1).
import { type GatewayError, TokenExpired, Unauthenticated } from '../errors.ts'
import type { AccountProvider, Identity, User } from '../identity.ts'
import { isRecord } from '../values/records.ts'

/** A part of a JWT (RFC 7515 §7.1). */
export const encodePart = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

/** Seconds by which another machine's clock may be ahead. */
const CLOCK_TOLERANCE_S = 30

/** The person, as described in all our tokens. */
export const personClaims = (user: User) => ({
  name: user.name,
  email: user.email,
  provider: user.provider,
  username: user.username,
  perfis: user.profiles,
  profiles: user.profiles,
  areas: user.areas,
  areaPrincipal: user.areaPrincipal,
  accessStatus: user.accessStatus
})

/** By which a login can be ended: the database takes no NUL and no half of a surrogate pair. */
const STORABLE_ID = /^[^\p{Cc}\p{Cs}]{1,128}$/u

interface Circumstances {
  readonly nowS: number
  /** Maximum seconds from `iat` to `exp`. */
  readonly mostLifeS: number
  readonly takesExpired: boolean
}

/** The claims of a token whose signature is ours. */
export const readClaims = (
  claims: unknown,
  { nowS, mostLifeS, takesExpired }: Circumstances
): Identity | GatewayError => {
  if (!isRecord(claims)) return new Unauthenticated({ reason: 'bad-claims' })
  const { exp, iat, jti, nbf, ver = 0, auth_time = 0, addresses, host } = claims
  const user = userOf(claims)
  if (
    user === undefined ||
    typeof jti !== 'string' ||
    !STORABLE_ID.test(jti) ||
    !isSeconds(exp) ||
    !isSeconds(iat) ||
    !isSeconds(auth_time) ||
    (addresses !== undefined && !isStrings(addresses)) ||
    (host !== undefined && typeof host !== 'string')
  ) {
    return new Unauthenticated({ reason: 'bad-claims' })
  }
  if (typeof ver !== 'number' || !Number.isSafeInteger(ver) || ver < 0)
    return new Unauthenticated({ reason: 'bad-claims' })
  if (nbf !== undefined && (!isSeconds(nbf) || nbf > nowS + CLOCK_TOLERANCE_S))
    return new Unauthenticated({ reason: 'not-yet-valid' })
  if (iat > nowS + CLOCK_TOLERANCE_S) return new Unauthenticated({ reason: 'issued-in-the-future' })
  if (exp - iat > mostLifeS) return new Unauthenticated({ reason: 'lives-too-long' })
  if (exp <= nowS && !takesExpired) return new TokenExpired({ reason: 'expired' })
  return {
    user,
    subject: String(user.id),
    tokenId: jti,
    version: ver,
    issuedAt: iat,
    expiresAt: exp,
    authenticatedAt: auth_time,
    kind: user.provider === 'client' ? 'client' : 'login',
    addresses,
    host
  }
}

const isStrings = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every(item => typeof item === 'string')

const isSeconds = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= 0 && value < 1e12

const isProvider = (value: unknown): value is AccountProvider =>
  value === 'ldap' || value === 'cloudidp' || value === 'client'

const sameItems = (a: readonly string[], b: unknown): boolean =>
  isStrings(b) && a.length === b.length && a.every((item, index) => item === b[index])

const text = (value: unknown): string | undefined =>
  value === undefined ? '' : typeof value === 'string' ? value : undefined

const userOf = (claims: Record<string, unknown>): User | undefined => {
  const { sub, provider, profiles, areas, accessStatus } = claims
  const name = text(claims.name)
  const email = text(claims.email)
  const username = text(claims.username)
  const areaPrincipal = text(claims.areaPrincipal)
  if (typeof sub !== 'string' || !/^[1-9]\d{0,15}$/.test(sub) || !isProvider(provider)) return undefined
  if (!isStrings(profiles) || !sameItems(profiles, claims.perfis) || !isStrings(areas)) return undefined
  if (accessStatus !== 'assigned' && accessStatus !== 'unassigned') return undefined
  if (name === undefined || email === undefined || username === undefined || areaPrincipal === undefined)
    return undefined
  return {
    id: Number(sub),
    name,
    email,
    username,
    provider,
    perfis: profiles,
    profiles,
    areas,
    areaPrincipal,
    accessStatus
  }
}
