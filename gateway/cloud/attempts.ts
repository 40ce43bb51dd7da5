// Binds each cloud login to the browser that started it: by a signed state, and by a cookie that is used only once.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { ATTEMPT_COOKIE, SECURE_ATTEMPT_COOKIE } from '../access/session-cookie.ts'
import { cookiePairs } from '../values/cookies.ts'

/** What one attempt sends to the provider and must receive back. */
export interface Attempt {
  readonly state: string
  /** RFC 7636 §4.1: 43 characters. */
  readonly codeVerifier: string
  /** OpenID Connect Core §3.1.2.1. */
  readonly oidcNonce: string
  /** One of our own pages began it under this name, and gets its result, wherever FRONTEND_URL is. */
  readonly page: string | undefined
  /** Milliseconds since the epoch, if the provider has to ask the person anew, whatever session it has. */
  readonly againSince: number | undefined
}

interface AttemptOptions {
  /** JWT_SECRET first, then JWT_PREVIOUS_SECRETS: a login that began before a rotation may finish after it. */
  readonly secrets: readonly string[]
  readonly maxAgeMs: number
  /** Whether browsers reach the gateway over https. */
  readonly isSecure: boolean
}

/** The number of logins that one browser may have in progress; the oldest are dropped first. */
const MAX_ATTEMPTS = 5
/** Cookies beyond this number are ignored: only an attacker sets so many. */
const MAX_COOKIES_READ = 40
const CALLBACK_FOLDER = '/auth/oauth/cloudidp'

const SECRET_BYTES = 30
const TIMESTAMP_BYTES = 6
const VALUE = /^[A-Za-z0-9_-]{48}(?:\.page(\d{1,40}))?(?:\.again)?$/
const VALUE_LENGTH = 48
const ID_LENGTH = 12

/** What a login is begun with. */
interface Beginning {
  readonly page: string | undefined
  readonly again: boolean
}

interface AttemptCookie extends Beginning {
  readonly name: string
  readonly secret: Buffer | undefined
  readonly startedAt: number
}

/**
 * A new attempt, and the Set-Cookie fields that begin it. State nonce, verifier and OpenID nonce are all derived from a
 * secret that only the cookie contains, so the gateway stores nothing before the callback, and starting a login uses no memory.
 */
export const beginAttempt = (
  cookieHeader: string | undefined,
  { page, again }: Beginning,
  now: number,
  options: AttemptOptions
): { attempt: Attempt; setCookies: string[] } => {
  const secret = randomBytes(SECRET_BYTES)
  const signing = options.secrets[0] ?? ''
  const { nonce, attempt } = derive(secret, signing)
  const maxAgeS = Math.ceil(options.maxAgeMs / 1000)
  const value = `${dated(secret, now)}${page === undefined ? '' : `.page${page}`}${again ? '.again' : ''}`
  return {
    attempt: { state: signState(nonce, now, signing), ...attempt, page, againSince: again ? now : undefined },
    setCookies: [
      ...outdated(cookieHeader, now, options).map(name => expire(name, options)),
      `${nameOf(nonce, options)}=${value}; ${attributes(options)}; Max-Age=${maxAgeS}`
    ]
  }
}

/** The bytes, then 6 of milliseconds since the epoch, in base64url: all lengths fill whole characters, so there is one spelling. */
const dated = (bytes: Buffer, at: number): string => {
  const time = Buffer.alloc(TIMESTAMP_BYTES)
  time.writeUIntBE(at, 0, TIMESTAMP_BYTES)
  return Buffer.concat([bytes, time]).toString('base64url')
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
    const { page, again, startedAt } = cookie
    return { state: stateText, ...attempt, page, againSince: again ? startedAt : undefined }
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
  for (const [name, value] of cookiePairs(cookieHeader)) {
    if (!name.startsWith(prefix) || !/^[A-Za-z0-9_-]{1,40}$/.test(name)) continue
    const [whole, page] = VALUE.exec(value) ?? []
    const bytes = whole === undefined ? undefined : Buffer.from(whole.slice(0, VALUE_LENGTH), 'base64url')
    found.push({
      name,
      secret: bytes?.subarray(0, SECRET_BYTES),
      startedAt: bytes?.readUIntBE(SECRET_BYTES, TIMESTAMP_BYTES) ?? 0,
      page,
      again: value.endsWith('.again')
    })
    if (found.length === MAX_COOKIES_READ) break
  }
  return found
}

// The state: `<payload>.<signature>`, which proves that this gateway started a cloud login and when.

const NONCE_BYTES = 24
/** Nonce and time, then an HMAC-SHA256 of 32 bytes. */
const STATE = /^([A-Za-z0-9_-]{40})\.([A-Za-z0-9_-]{43})$/

/** Milliseconds by which another instance's clock may be ahead. */
const CLOCK_TOLERANCE_MS = 30_000

/** Why a callback's state is refused. Words may be added, never changed. */
export type StateReason =
  | 'state-missing'
  | 'state-malformed'
  | 'state-signature'
  | 'state-expired'
  | 'state-from-future'
  | 'state-foreign-browser'
  | 'state-replayed'
  | 'repeated-parameter'

export interface VerifiedState {
  readonly nonce: Buffer
  /** Milliseconds since the epoch. */
  readonly issuedAt: number
  readonly expiresAt: number
  /** Index of the secret that signed it: 0 is the current one. */
  readonly signedBy: number
}

/** Signs a state over 24 bytes of nonce. `issuedAt` in milliseconds since the epoch. */
export const signState = (nonce: Buffer, issuedAt: number, secret: string): string => {
  const payload = dated(nonce, issuedAt)
  return `${payload}.${signatureOf(payload, secret)}`
}

/**
 * The state that the text contains, or why it is refused. Valid from `issuedAt` until `maxAgeMs` have elapsed. A JWT of
 * the gateway is signed with the same secret but never passes: its signed text contains a dot, a payload never does.
 */
export const verifyState = (
  text: string | undefined,
  now: number,
  options: Pick<AttemptOptions, 'secrets' | 'maxAgeMs'>
): VerifiedState | StateReason => {
  // Without something on both sides of a dot there is no state.
  if (text === undefined || !/^[^.]+\../s.test(text)) return 'state-missing'
  const [, payload, signature] = STATE.exec(text) ?? []
  if (payload === undefined || signature === undefined) return 'state-malformed'
  const bytes = Buffer.from(payload, 'base64url')
  const signedBy = findSigner(payload, signature, options.secrets)
  if (signedBy === -1) return 'state-signature'
  const issuedAt = bytes.readUIntBE(NONCE_BYTES, TIMESTAMP_BYTES)
  if (issuedAt > now + CLOCK_TOLERANCE_MS) return 'state-from-future'
  const expiresAt = issuedAt + options.maxAgeMs
  if (now >= expiresAt) return 'state-expired'
  return { nonce: bytes.subarray(0, NONCE_BYTES), issuedAt, expiresAt, signedBy }
}

const signatureOf = (payload: string, secret: string): string =>
  createHmac('sha256', secret).update(payload).digest('base64url')

// Compared as text, so that other spellings of the same bytes never match.
const findSigner = (payload: string, signature: string, secrets: readonly string[]): number =>
  secrets.findIndex(secret => timingSafeEqual(Buffer.from(signature), Buffer.from(signatureOf(payload, secret))))
