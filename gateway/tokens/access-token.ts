// Signs Portaria's own JWT for a person at login, and verifies it: signature first, then claim by claim (RFC 7519, RFC 8725).
import { isUtf8 } from 'node:buffer'
import { createHmac, createSecretKey, randomUUID, timingSafeEqual } from 'node:crypto'
import { GatewayError, orThrow, TokenExpired, Unauthenticated } from '../errors.ts'
import type { Identity, LiveLogin, User } from '../identity.ts'
import { isRecord } from '../values/records.ts'
import { encodePart, personClaims, readClaims } from './claims.ts'

/** Longer tokens are refused unread (a header field has at most 16 KB). */
const MAX_TOKEN_LENGTH = 8192
/** No token lives longer than this, or than JWT_EXPIRES_IN if that is more; seconds. */
const MAX_LIFE_S = 24 * 60 * 60
/** Length of an HMAC-SHA-256 in base64url, without padding. */
const SIGNATURE_LENGTH = 43

// Shared, because a flood of forged tokens needs many of them.
const BAD_SIGNATURE = new Unauthenticated({ reason: 'bad-signature' })

/** Restrictions of a service account's token. */
interface Conditions {
  /** Seconds since the epoch; the latest possible `exp`. */
  expiresAt?: number | undefined
  /** CIDR blocks from which it may be used; empty: anywhere. */
  addresses?: readonly string[] | undefined
}

interface AccessTokenOptions {
  secret: string
  previousSecrets: readonly string[]
  expiresInMs: number
  /** From the login to the last possible `exp`; absent: `expiresInMs`. */
  sessionMaxMs?: number
  /** Milliseconds since the epoch. */
  now?: () => number
}

interface Life {
  id: string
  issuedAt: number
  expiresAt: number
  authenticatedAt: number
  addresses?: readonly string[]
  host?: string | undefined
}

/** RFC 7515 §4.1. */
const HEADER = encodePart({ alg: 'HS256', typ: 'JWT' })

const claimsOf = (user: User, version: number, life: Life) => ({
  ...personClaims(user),
  ver: version,
  auth_time: life.authenticatedAt,
  ...(life.addresses === undefined || life.addresses.length === 0 ? {} : { addresses: life.addresses }),
  ...(life.host === undefined ? {} : { host: life.host }),
  sub: String(user.id),
  jti: life.id,
  iat: life.issuedAt,
  exp: life.expiresAt
})

const MOST = 9_999_999_999
const LONGEST_LIFE: Life = { id: 'x'.repeat(36), issuedAt: MOST, expiresAt: MOST, authenticatedAt: MOST }

/** Whether `verify` would accept a token of this user: it contains all of their areas, and longer ones are refused unread. */
export const fitsToken = (user: User, bounds: Pick<Life, 'host' | 'addresses'> = {}): boolean => {
  const payload = encodePart(claimsOf(user, MOST, { ...LONGEST_LIFE, ...bounds }))
  return `${HEADER}.${payload}.`.length + SIGNATURE_LENGTH <= MAX_TOKEN_LENGTH
}

/** Strict, like other verifiers: canonical base64url (RFC 7515 §2) of well-formed UTF-8; otherwise undefined. */
const decodePart = (part: string): unknown => {
  const bytes = Buffer.from(part, 'base64url')
  if (bytes.toString('base64url') !== part || !isUtf8(bytes)) return undefined
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}

export type AccessTokens = ReturnType<typeof createAccessTokens>

export const createAccessTokens = (options: AccessTokenOptions) => {
  const now = options.now ?? Date.now
  const lifeS = Math.floor(options.expiresInMs / 1000)
  const sessionS = Math.floor((options.sessionMaxMs ?? options.expiresInMs) / 1000)
  const mostLifeS = Math.max(lifeS, MAX_LIFE_S)
  const keys = [options.secret, ...options.previousSecrets].map(secret => createSecretKey(secret, 'utf8'))
  const verified = keys.map(() => 0)

  // Async like its callers, although HMAC needs no thread.
  const sign = async (user: User, version: number, life: Life): Promise<string> => {
    const signed = `${HEADER}.${encodePart(claimsOf(user, version, life))}`
    return `${signed}.${createHmac('sha256', options.secret).update(signed).digest('base64url')}`
  }

  // Without `auth_time`, the time of issue counts, and is passed on as such: otherwise each renewal would move the end.
  const loggedInAt = ({ authenticatedAt, issuedAt }: LiveLogin) => (authenticatedAt === 0 ? issuedAt : authenticatedAt)
  const mayRenew = ({ kind }: LiveLogin) => sessionS > lifeS && kind === 'login'
  const endOf = (login: LiveLogin) => (mayRenew(login) ? loggedInAt(login) + sessionS : login.expiresAt)

  // Compared as text, character by character, so that other spellings of the same signature bytes (RFC 7515 §2 requires
  // base64url without padding) never match.
  const signedBy = (token: string): number => {
    const dot = token.lastIndexOf('.')
    if (token.length > MAX_TOKEN_LENGTH) return -1
    const signature = Buffer.from(token.slice(dot + 1))
    if (signature.length !== SIGNATURE_LENGTH) return -1
    const signed = token.slice(0, dot)
    return keys.findIndex(key =>
      timingSafeEqual(signature, Buffer.from(createHmac('sha256', key).update(signed).digest('base64url')))
    )
  }

  const check = (token: string, takesExpired = false): Identity | GatewayError => {
    const key = signedBy(token)
    const parts = key === -1 ? [] : token.split('.', 4)
    const [headerPart, payloadPart] = parts
    if (parts.length !== 3 || headerPart === undefined || payloadPart === undefined) return BAD_SIGNATURE
    const header = decodePart(headerPart)
    // RFC 8725 §3.1, §3.11: one algorithm, one type; an unknown `crit` is refused (RFC 7515 §4.1.11).
    if (
      !isRecord(header) ||
      header.alg !== 'HS256' ||
      header.typ !== 'JWT' ||
      header.crit !== undefined ||
      header.b64 === false
    ) {
      return new Unauthenticated({ reason: 'bad-header' })
    }
    const identity = readClaims(decodePart(payloadPart), { nowS: now() / 1000, mostLifeS, takesExpired })
    if (!takesExpired && !(identity instanceof GatewayError)) verified[key] = (verified[key] ?? 0) + 1
    return identity
  }

  return {
    /** A new login: new `jti`, and `exp` after the configured lifetime, or earlier if `conditions` say so. */
    issue(user: User, version: number, { expiresAt = Number.POSITIVE_INFINITY, addresses = [] }: Conditions = {}) {
      const issuedAt = Math.floor(now() / 1000)
      const life = {
        id: randomUUID(),
        issuedAt,
        expiresAt: Math.min(issuedAt + lifeS, Math.floor(expiresAt)),
        authenticatedAt: issuedAt,
        addresses
      }
      return sign(user, version, life)
    },
    /**
     * Current access under an earlier login: same `jti`, and the same host. With SESSION_MAX above the lifetime, `exp` is that of a new token, but
     * never beyond the end of the session; otherwise it stays. Rejects with `GW_TOKEN_EXPIRED` after the end of the session.
     */
    async reissue(user: User, version: number, login: LiveLogin) {
      const issuedAt = Math.floor(now() / 1000)
      const { tokenId: id, authenticatedAt, host } = login
      if (!mayRenew(login))
        return sign(user, version, { id, issuedAt, expiresAt: login.expiresAt, authenticatedAt, host })
      const expiresAt = Math.min(issuedAt + lifeS, endOf(login))
      if (expiresAt <= issuedAt) throw new TokenExpired({ reason: 'session-max' })
      return sign(user, version, { id, issuedAt, expiresAt, authenticatedAt: loggedInAt(login), host })
    },
    /** When a token that is used should be renewed, at half of its life; Infinity: its session cannot go on. Seconds since the epoch. */
    renewsAt: (login: Identity) =>
      login.expiresAt < endOf(login)
        ? login.issuedAt + (login.expiresAt - login.issuedAt) / 2
        : Number.POSITIVE_INFINITY,
    /** The latest `exp` of any token with this login's `jti`. Seconds since the epoch. */
    endsAt: (login: Identity) => Math.max(login.expiresAt, endOf(login)),
    /** Throws `GW_UNAUTHENTICATED` or `GW_TOKEN_EXPIRED`; does not check revocation. Synchronous: HMAC is cheap, a thread hop is not. */
    verify: (token: string): Identity => orThrow(check(token)),
    /** The same, but the refusal is returned. */
    check,
    /** The login of a token that has expired, if copies of it that were renewed later may be valid; undefined: it is none. */
    outlived(token: string): Identity | undefined {
      const login = check(token, true)
      const nowS = now() / 1000
      return login instanceof GatewayError || login.expiresAt > nowS || endOf(login) <= nowS ? undefined : login
    },
    /** Number of tokens that passed `verify`, by the secret that signed them: the current one, then the previous ones. */
    verified,
    /** Index of the secret that signed it: 0 is the current one; -1: none. */
    signedBy,
    /** Whether the text is signed by this gateway, whatever it contains and however old it is. */
    isOurs: (token: string) => signedBy(token) !== -1
  }
}
