// Names the phases of a client connection, and says in which of them to read more.
import { MAX_REQUEST_HEAD_BYTES } from './llhttp.ts'
import type { HttpRequest } from './request.ts'

/** The next request has not arrived completely. */
export const HEAD = 0
/** A request is in progress and its body has not arrived completely. */
export const BODY = 1
/** A request is in progress; whatever arrives belongs to the next one. */
export const BUSY = 2
/** The last response has been sent: anything that still arrives is discarded for a while. */
export const LINGER = 3
/** Another protocol has taken over. */
export const TUNNEL = 4
export const CLOSED = 5

/**
 * No more than this is read while a request waits for its response, or for its turn: enough to notice a client that leaves.
 * An incomplete head is shorter.
 */
const HOLD_BYTES = MAX_REQUEST_HEAD_BYTES

/** @param heldBytes bytes that have not been consumed */
export const wantsMore = (phase: number, request: HttpRequest | undefined, heldBytes: number): boolean => {
  if (phase === BODY && request?.consumer !== undefined) return !request.isPaused && heldBytes === 0
  return phase === HEAD || phase === BODY || phase === BUSY ? heldBytes < HOLD_BYTES : phase !== CLOSED
}
