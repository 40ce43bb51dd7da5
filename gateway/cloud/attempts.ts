// Binds each cloud login to the browser that started it: by a signed state, and by a cookie that is used only once.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { ATTEMPT_COOKIE, SECURE_ATTEMPT_COOKIE } from '../access/own-cookies.ts'

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

interface StateOptions {
  /** JWT_SECRET first, then JWT_PREVIOUS_SECRETS: a login that began before a rotation may finish after it. */
  readonly secrets: readonly string[]
  readonly maxAgeMs: number
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

// The state: `<payload>.<signature>`, which proves that this gateway started a cloud login and when.

/**
 * The bytes of the payload: 24 of nonce, then 6 of milliseconds since the epoch, big-endian. 30 bytes fill exactly 40
 * characters of base64url, so each payload has only one spelling.
 */
const NONCE_BYTES = 24
const PAYLOAD_LENGTH = 40
/** HMAC-SHA256 is 32 bytes: 43 characters. */
const SIGNATURE_LENGTH = 43
export const STATE_LENGTH = PAYLOAD_LENGTH + 1 + SIGNATURE_LENGTH

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
  if (nonce.length !== NONCE_BYTES) throw new RangeError(`a nonce has ${NONCE_BYTES} bytes`)
  const bytes = Buffer.alloc(NONCE_BYTES + TIMESTAMP_BYTES)
  nonce.copy(bytes)
  bytes.writeUIntBE(issuedAt, NONCE_BYTES, TIMESTAMP_BYTES)
  const payload = bytes.toString('base64url')
  return `${payload}.${signatureOf(payload, secret)}`
}

/**
 * The state that the text contains, or why it is refused. Valid from `issuedAt` until `maxAgeMs` have elapsed. A JWT of
 * the gateway is signed with the same secret but never passes: its signed text contains a dot, a payload never does.
 */
export const verifyState = (
  text: string | undefined,
  now: number,
  options: StateOptions
): VerifiedState | StateReason => {
  if (text === undefined || text === '') return 'state-missing'
  const dot = text.indexOf('.')
  if (dot === -1 || dot === 0 || dot === text.length - 1) return 'state-missing'
  if (dot !== PAYLOAD_LENGTH || text.length !== STATE_LENGTH) return 'state-malformed'
  const payload = text.slice(0, PAYLOAD_LENGTH)
  const bytes = Buffer.from(payload, 'base64url')
  if (bytes.toString('base64url') !== payload) return 'state-malformed'
  const signedBy = findSigner(payload, text.slice(PAYLOAD_LENGTH + 1), options.secrets)
  if (signedBy === -1) return 'state-signature'
  const issuedAt = bytes.readUIntBE(NONCE_BYTES, TIMESTAMP_BYTES)
  if (issuedAt > now + CLOCK_TOLERANCE_MS) return 'state-from-future'
  const expiresAt = issuedAt + options.maxAgeMs
  if (now >= expiresAt) return 'state-expired'
  return { nonce: bytes.subarray(0, NONCE_BYTES), issuedAt, expiresAt, signedBy }
}

const signatureOf = (payload: string, secret: string): string =>
  createHmac('sha256', secret).update(payload).digest('base64url')

// Compared as text, so that other spellings of the same bytes never match. Every secret is tried, even after a match.
const findSigner = (payload: string, signature: string, secrets: readonly string[]): number => {
  const given = Buffer.from(signature, 'utf8')
  let signer = -1
  for (const [index, secret] of secrets.entries()) {
    const expected = Buffer.from(signatureOf(payload, secret), 'utf8')
    if (given.length === expected.length && timingSafeEqual(given, expected) && signer === -1) signer = index
  }
  return signer
}
