// Names the phases of a client connection, and decides in which of them more is read from its socket.
import { MAX_REQUEST_HEAD_BYTES } from './llhttp.ts'
import type { HttpRequest } from './request.ts'

export type ConnectionPhase =
  /** The next request has not arrived completely. */
  | 'head'
  /** A request is in progress and its body has not arrived completely. */
  | 'body'
  /** A request is in progress; whatever arrives belongs to the next one. */
  | 'busy'
  /** The response is complete before the body: the rest of it is discarded, because its client may read only afterwards. */
  | 'discard'
  /** The last response has been sent: anything that still arrives is discarded for a while. */
  | 'linger'
  /** Another protocol has taken over. */
  | 'tunnel'
  | 'closed'

/**
 * No more than this is read while a request waits for its response, or for its turn: enough to notice a client that leaves.
 * An incomplete head is shorter.
 */
const HOLD_BYTES = MAX_REQUEST_HEAD_BYTES

/** @param heldBytes bytes that have not been consumed */
export const wantsMore = (phase: ConnectionPhase, request: HttpRequest | undefined, heldBytes: number): boolean => {
  switch (phase) {
    case 'body':
      if (request?.consumer !== undefined) return !request.isPaused && heldBytes === 0
      return heldBytes < HOLD_BYTES
    case 'head':
    case 'busy':
      return heldBytes < HOLD_BYTES
    default:
      return phase !== 'closed'
  }
}
