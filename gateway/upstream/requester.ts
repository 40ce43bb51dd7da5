// Declares what a requester of an upstream is notified of, from the response head to the last byte or a fault.
import type { Contained } from '../values/contain.ts'
import type { UpstreamFault } from './faults.ts'
import type { ResponseSink } from './parser.ts'

/** Every request ends in exactly one of `onEnd`, `onFault` and `onThrown`. */
export interface Requester extends ResponseSink, Contained {
  /**
   * `nothingSent`: no byte of the request reached the kernel, so it may be sent again on another connection
   * (RFC 9110 §9.2.2 would allow more, but nothing else is retried).
   */
  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean): void
  /** The connection was not established when it got the request, and is now. */
  onConnected?(): void
  /** The socket accepts bytes again after `write` returned false. */
  onDrain(): void
}
