// Binds each cloud login to the browser that started it, by a cookie that is used only once.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { ATTEMPT_COOKIE, SECURE_ATTEMPT_COOKIE } from '../access/own-cookies.ts'
import { NONCE_BYTES, type StateOptions, signState, type VerifiedState } from './state.ts'

/** Remembers which states were used, across all instances. */
export interface UsedStates {
  /**
   * True for exactly one caller, false for all later ones until `expiresAtMs` (milliseconds since the epoch). `nonce` is
   * base64url. Throws `GW_UNAVAILABLE` if the store is unavailable; the attempt then stays usable.
   */
  use(nonce: string, expiresAtMs: number): Promise<boolean>
}

/** What one attempt sends to the provider and must receive back. */
export interface Attempt {
  readonly state: string
  /** RFC 7636 §4.1: 43 characters. */
  readonly codeVerifier: string
  /** OpenID Connect Core §3.1.2.1. */
  readonly oidcNonce: string
  /** One of our own pages began it, and gets its result, wherever FRONTEND_URL is. */
  readonly fromOwnPage: boolean
  /** Milliseconds since the epoch, if the provider has to ask the person anew, whatever session it has. */
  readonly againSince: number | undefined
}

interface AttemptOptions extends StateOptions {
  /** Whether browsers reach the gateway over https. */
  readonly isSecure: boolean
}

/** The number of logins that one browser may have in progress; the oldest are dropped first. */
const MAX_ATTEMPTS = 5
/** Cookies beyond this number are ignored: only an attacker sets so many. */
const MAX_COOKIES_READ = 40
const CALLBACK_FOLDER = '/auth/oauth/cloudidp'

// The bytes of a cookie: 30 of secret, then 6 of milliseconds since the epoch. 48 characters of base64url, in one spelling.
const SECRET_BYTES = 30
const TIMESTAMP_BYTES = 6
const VALUE = /^[A-Za-z0-9_-]{48}(?:\.page)?(?:\.again)?$/
const VALUE_LENGTH = 48
const ID_LENGTH = 12

interface AttemptCookie {
  readonly name: string
  readonly secret: Buffer | undefined
  readonly startedAt: number
  readonly fromOwnPage: boolean
  readonly again: boolean
}

/** What a login is begun with. */
interface Beginning {
  readonly fromOwnPage: boolean
  readonly again: boolean
}

/**
 * A new attempt, and the Set-Cookie fields that begin it. State nonce, verifier and OpenID nonce are all derived from a
 * secret that only the cookie contains, so the gateway stores nothing before the callback, and starting a login uses no memory.
 */
export const beginAttempt = (
  cookieHeader: string | undefined,
  { fromOwnPage, again }: Beginning,
  now: number,
  options: AttemptOptions
): { attempt: Attempt; setCookies: string[] } => {
  const bytes = Buffer.alloc(SECRET_BYTES + TIMESTAMP_BYTES)
  randomBytes(SECRET_BYTES).copy(bytes)
  bytes.writeUIntBE(now, SECRET_BYTES, TIMESTAMP_BYTES)
  const signing = options.secrets[0] ?? ''
  const { nonce, attempt } = derive(bytes.subarray(0, SECRET_BYTES), signing)
  const maxAgeS = Math.ceil(options.maxAgeMs / 1000)
  const value = `${bytes.toString('base64url')}${fromOwnPage ? '.page' : ''}${again ? '.again' : ''}`
  return {
    attempt: { state: signState(nonce, now, signing), ...attempt, fromOwnPage, againSince: again ? now : undefined },
    setCookies: [
      ...outdated(cookieHeader, now, options).map(name => expire(name, options)),
      `${nameOf(nonce, options)}=${value}; ${attributes(options)}; Max-Age=${maxAgeS}`
    ]
  }
}

/** The attempt that this browser began with this state; undefined if another browser did, or if it is already over. */
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
    if (!timingSafeEqual(nonce, state.nonce)) continue
    const { fromOwnPage, again, startedAt } = cookie
    return { state: stateText, ...attempt, fromOwnPage, againSince: again ? startedAt : undefined }
  }
  return undefined
}

/** The Set-Cookie field that ends the attempt of this state in the browser. */
export const endAttempt = (state: VerifiedState, options: AttemptOptions): string =>
  expire(nameOf(state.nonce, options), options)

// Derived with the gateway's secret, so that a stolen cookie alone does not reveal the verifier.
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

// `__Host-` requires the path `/`; without https this prefix is unavailable, and the path can be narrower.
const attributes = ({ isSecure }: AttemptOptions): string =>
  `Path=${isSecure ? '/' : CALLBACK_FOLDER}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`

const expire = (name: string, options: AttemptOptions): string => `${name}=; ${attributes(options)}; Max-Age=0`

/** Names of the cookies to remove before another attempt begins: expired ones, and the oldest beyond four. */
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
    const bytes = VALUE.test(value) ? Buffer.from(value.slice(0, VALUE_LENGTH), 'base64url') : undefined
    found.push({
      name,
      secret: bytes?.subarray(0, SECRET_BYTES),
      startedAt: bytes?.readUIntBE(SECRET_BYTES, TIMESTAMP_BYTES) ?? 0,
      fromOwnPage: value.includes('.page'),
      again: value.endsWith('.again')
    })
    if (found.length === MAX_COOKIES_READ) break
  }
  return found
}
