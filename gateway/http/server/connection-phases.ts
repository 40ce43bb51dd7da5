// Names the phases of a client connection, and says in which of them more is read.
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

/** More is not read while a request waits for its answer: enough to notice a client that leaves. */
const HOLD_BYTES = 16 * 1024

/** @param heldBytes that nothing has taken yet */
export const wantsMore = (phase: number, request: HttpRequest | undefined, heldBytes: number): boolean => {
  if (phase === BODY && request?.consumer !== undefined) return !request.isPaused && heldBytes === 0
  return phase === BODY || phase === BUSY ? heldBytes < HOLD_BYTES : phase !== CLOSED
}
