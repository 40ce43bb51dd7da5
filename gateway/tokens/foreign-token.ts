// Verifies a signed token of another issuer with the issuer's published keys.
import type { JSONWebKeySet, JWTPayload } from 'jose'

/** Only if it is used, because most of its many files serve nothing else here. */
const loadJose = () => import('jose')

interface ForeignTokenRules {
  readonly issuer: string
  readonly audience: string
  /** Accepted values of `alg`, only those with public keys. */
  readonly algorithms: readonly string[]
  /** Seconds by which clocks may differ. */
  readonly clockToleranceS: number
  /** Milliseconds since the epoch. */
  readonly now: number
}

/** `kid` of the header, unverified; undefined if there is none, or this is not a JWT. */
export const keyIdOf = async (token: string): Promise<string | undefined> => {
  const { decodeProtectedHeader } = await loadJose()
  try {
    return decodeProtectedHeader(token).kid
  } catch {
    return undefined
  }
}

/** The verified claims and `typ`, or why there are none: `signature`, `claims` (which one) or `malformed`. */
export const verifyForeignToken = async (
  token: string,
  keys: JSONWebKeySet,
  { issuer, audience, algorithms, clockToleranceS, now }: ForeignTokenRules
): Promise<{ claims: JWTPayload; typ: string | undefined } | { fault: string }> => {
  const { createLocalJWKSet, errors, jwtVerify } = await loadJose()
  try {
    const { payload, protectedHeader } = await jwtVerify(token, createLocalJWKSet(keys), {
      issuer,
      audience,
      algorithms: [...algorithms],
      clockTolerance: clockToleranceS,
      currentDate: new Date(now),
      requiredClaims: ['iat', 'exp']
    })
    return { claims: payload, typ: protectedHeader.typ }
  } catch (error) {
    if (error instanceof errors.JWTClaimValidationFailed) return { fault: `claim ${error.claim}` }
    if (error instanceof errors.JWTExpired) return { fault: 'claim exp' }
    if (error instanceof errors.JOSEError) return { fault: error.code }
    return { fault: 'malformed' }
  }
}
