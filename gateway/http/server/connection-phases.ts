// Names the phases of a client connection, and says in which of them more is read.
import { MAX_REQUEST_HEAD_BYTES } from './llhttp.ts'
import type { HttpRequest } from './request.ts'

/** The next request has not come whole. */
export const HEAD = 0
/** A request is under way and its body has not come whole. */
export const BODY = 1
/** A request is under way; what comes now is the next one. */
export const BUSY = 2
/** The last answer has been given: what still comes is dropped for a while. */
export const LINGER = 3
/** Another protocol has taken over. */
export const TUNNEL = 4
export const CLOSED = 5

/**
 * More is not read while a request waits for its answer, or for its turn: enough to notice a client that leaves. A head that
 * has not come whole is shorter.
 */
const HOLD_BYTES = MAX_REQUEST_HEAD_BYTES

/** @param heldBytes that nothing has taken yet */
export const wantsMore = (phase: number, request: HttpRequest | undefined, heldBytes: number): boolean => {
  if (phase === BODY && request?.consumer !== undefined) return !request.isPaused && heldBytes === 0
  return phase === HEAD || phase === BODY || phase === BUSY ? heldBytes < HOLD_BYTES : phase !== CLOSED
}
