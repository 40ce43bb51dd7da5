// Signs and verifies state values, which prove that this gateway started a cloud login and when: `<payload>.<signature>`.
import { createHmac, timingSafeEqual } from 'node:crypto'

/**
 * The bytes of the payload: 24 of nonce, then 6 of milliseconds since the epoch, big-endian. 30 bytes fill exactly 40
 * characters of base64url, so each payload has only one spelling.
 */
export const NONCE_BYTES = 24
const TIMESTAMP_BYTES = 6
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

export interface StateOptions {
  /** JWT_SECRET first, then JWT_PREVIOUS_SECRETS: a login that began before a rotation may finish after it. */
  readonly secrets: readonly string[]
  readonly maxAgeMs: number
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
