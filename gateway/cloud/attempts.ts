// Binds each cloud login to the browser that started it, by a cookie of its own that ends with its first use.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { ATTEMPT_COOKIE, SECURE_ATTEMPT_COOKIE } from '../access/own-cookies.ts'
import { NONCE_BYTES, signState, type VerifiedState } from './state.ts'

/** Remembers which states were used, over all instances. */
export interface UsedStates {
  /**
   * True for exactly one caller, false for every later one until `expiresAtMs` (milliseconds since the epoch). `nonce` is
   * base64url. Throws `GW_UNAVAILABLE` when the memory is away: then the attempt stays usable.
   */
  use(nonce: string, expiresAtMs: number): Promise<boolean>
}

/** What one attempt sends to the provider and must see again. */
export interface Attempt {
  readonly state: string
  /** RFC 7636 §4.1: 43 characters. */
  readonly codeVerifier: string
  /** OpenID Connect Core §3.1.2.1. */
  readonly oidcNonce: string
}

interface AttemptOptions {
  readonly secrets: readonly string[]
  readonly maxAgeMs: number
  /** Whether browsers reach the gateway by https. */
  readonly isSecure: boolean
}

/** At most so many logins of one browser are under way; the oldest leave first. */
const MAX_ATTEMPTS = 5
/** More cookies than this are not looked at: only a stranger sets so many. */
const MAX_COOKIES_READ = 40
const CALLBACK_FOLDER = '/auth/oauth/cloudidp'

// A cookie's bytes: 30 of secret, then 6 of milliseconds since the epoch. As base64url 48 characters, one spelling each.
const SECRET_BYTES = 30
const TIMESTAMP_BYTES = 6
const VALUE = /^[A-Za-z0-9_-]{48}$/
const ID_LENGTH = 12

interface AttemptCookie {
  readonly name: string
  readonly secret: Buffer | undefined
  readonly startedAt: number
}

/**
 * A new attempt and the Set-Cookie fields that begin it. State nonce, verifier and OpenID nonce all derive from one secret
 * that only the cookie holds: nothing is remembered here before the callback, and a login begun costs no memory.
 */
export const beginAttempt = (
  cookieHeader: string | undefined,
  now: number,
  options: AttemptOptions
): { attempt: Attempt; setCookies: string[] } => {
  const bytes = Buffer.alloc(SECRET_BYTES + TIMESTAMP_BYTES)
  randomBytes(SECRET_BYTES).copy(bytes)
  bytes.writeUIntBE(now, SECRET_BYTES, TIMESTAMP_BYTES)
  const signing = options.secrets[0] ?? ''
  const { nonce, attempt } = derive(bytes.subarray(0, SECRET_BYTES), signing)
  const maxAgeS = Math.ceil(options.maxAgeMs / 1000)
  return {
    attempt: { state: signState(nonce, now, signing), ...attempt },
    setCookies: [
      ...outdated(cookieHeader, now, options).map(name => expire(name, options)),
      `${nameOf(nonce, options)}=${bytes.toString('base64url')}; ${attributes(options)}; Max-Age=${maxAgeS}`
    ]
  }
}

/** The attempt that this browser began with this state; undefined when it was another browser, or is over here. */
export const findAttempt = (
  cookieHeader: string | undefined,
  stateText: string,
  state: VerifiedState,
  options: AttemptOptions
): Attempt | undefined => {
  const name = nameOf(state.nonce, options)
  for (const cookie of attemptCookies(cookieHeader, options)) {
    if (cookie.name !== name || cookie.secret === undefined) continue
    const { nonce, attempt } = derive(cookie.secret, options.secrets[state.signedBy] ?? '')
    if (timingSafeEqual(nonce, state.nonce)) return { state: stateText, ...attempt }
  }
  return undefined
}

/** The Set-Cookie field that ends the attempt of this state in its browser. */
export const endAttempt = (state: VerifiedState, options: AttemptOptions): string =>
  expire(nameOf(state.nonce, options), options)

// The gateway's secret takes part, so that a stolen cookie alone says nothing about the verifier.
const derive = (secret: Buffer, key: string) => {
  const part = (label: string) =>
    createHmac('sha256', key).update(`portaria cloud login: ${label}\0`).update(secret).digest()
  return {
    nonce: part('state').subarray(0, NONCE_BYTES),
    attempt: {
      codeVerifier: part('code verifier').toString('base64url'),
      oidcNonce: part('nonce').toString('base64url')
    }
  }
}

const nameOf = (nonce: Buffer, { isSecure }: AttemptOptions): string =>
  (isSecure ? SECURE_ATTEMPT_COOKIE : ATTEMPT_COOKIE) + nonce.toString('base64url').slice(0, ID_LENGTH)

// `__Host-` demands the whole host as its path; without https there is no such prefix, and the path can be narrow.
const attributes = ({ isSecure }: AttemptOptions): string =>
  `Path=${isSecure ? '/' : CALLBACK_FOLDER}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`

const expire = (name: string, options: AttemptOptions): string => `${name}=; ${attributes(options)}; Max-Age=0`

/** Names of the cookies that must leave before another attempt begins: the dead, and the oldest beyond four. */
const outdated = (cookieHeader: string | undefined, now: number, options: AttemptOptions): string[] => {
  const cookies = attemptCookies(cookieHeader, options)
  const isAlive = ({ secret, startedAt }: AttemptCookie) =>
    secret !== undefined && startedAt <= now + options.maxAgeMs && now < startedAt + options.maxAgeMs
  const alive = cookies.filter(isAlive).sort((a, b) => b.startedAt - a.startedAt)
  const leaving = [...cookies.filter(cookie => !isAlive(cookie)), ...alive.slice(MAX_ATTEMPTS - 1)]
  return [...new Set(leaving.map(cookie => cookie.name))]
}

const attemptCookies = (cookieHeader: string | undefined, { isSecure }: AttemptOptions): AttemptCookie[] => {
  const prefix = isSecure ? SECURE_ATTEMPT_COOKIE : ATTEMPT_COOKIE
  const found: AttemptCookie[] = []
  for (const pair of (cookieHeader ?? '').split(';')) {
    const equals = pair.indexOf('=')
    const name = pair.slice(0, Math.max(equals, 0)).trim()
    if (!name.startsWith(prefix) || !/^[A-Za-z0-9_-]{1,40}$/.test(name)) continue
    const value = pair.slice(equals + 1).trim()
    const bytes = VALUE.test(value) ? Buffer.from(value, 'base64url') : undefined
    found.push({
      name,
      secret: bytes?.subarray(0, SECRET_BYTES),
      startedAt: bytes?.readUIntBE(SECRET_BYTES, TIMESTAMP_BYTES) ?? 0
    })
    if (found.length === MAX_COOKIES_READ) break
  }
  return found
}
