// Declares what all connections of a server share: request handlers, time limits, and their turns.
import type { Contained } from '../../values/contain.ts'
import type { Waiting } from '../write-batch.ts'
import type { ClientConnection, HttpRequest } from './request.ts'

export type MessageFault = 'malformed' | 'too-large' | 'too-slow'

/** How requests are handled; shared by all connections. */
export interface MessageHandler {
  onRequest(request: HttpRequest): void
  /** Received something that is not a request. The text is sent before the connection ends; '': nothing is sent. */
  onFault(connection: ClientConnection, fault: MessageFault): string
}

export interface ConnectionLimits {
  /** From the first byte of a head, or the start of a connection, to the end of the head. */
  readonly headMs: number
  /** Idle time between two requests. */
  readonly idleMs: number
  /** How long a connection is read after the response that ends it (RFC 9112 §9.6): until silence, altogether. */
  readonly lingerSilenceMs: number
  readonly lingerMs: number
  /** The silence while the gateway is stopping. */
  readonly drainSilenceMs: number
}

export interface ConnectionHost {
  readonly handler: MessageHandler
  readonly limits: ConnectionLimits
  readonly isDraining: boolean
  /** Milliseconds of a coarse monotonic clock. */
  readonly now: number
  flushSoon(waiting: Waiting): void
  /** Lets a connection continue with what it has buffered, in the next turn of the event loop or later. */
  goOnSoon(connection: Contained & { goOn(): void }): void
}
