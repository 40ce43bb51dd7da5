// Declares what all connections of a server share: who handles requests, how long things may take, and their turns.
import type { FieldKinds } from '../flood-memory.ts'
import type { Waiting } from '../write-batch.ts'
import type { Llhttp } from './llhttp.ts'
import type { ClientConnection, HttpRequest } from './request.ts'

export type MessageFault = 'malformed' | 'too-large' | 'too-slow'

/** What is done about requests; each connection is given the same one. */
export interface MessageHandler {
  onRequest(request: HttpRequest): void
  /** What came is no request. The text answers it before the connection ends; '' : nothing does. */
  onFault(connection: ClientConnection, fault: MessageFault): string
}

export interface ConnectionLimits {
  /** From the first byte of a head, or the beginning of a connection, to the end of the head. */
  readonly headMs: number
  /** Silence between two requests. */
  readonly idleMs: number
  /** What is read and dropped behind an answer that ends a connection (RFC 9112 §9.6). */
  readonly lingerMs: number
  readonly lingerBytes: number
}

export interface ConnectionHost {
  readonly fieldKinds: FieldKinds
  readonly llhttp: Llhttp
  readonly handler: MessageHandler
  readonly limits: ConnectionLimits
  readonly isDraining: boolean
  /** Milliseconds of a coarse monotonic clock. */
  readonly now: number
  flushSoon(waiting: Waiting): void
  /** Lets a connection go on with what it holds, in the next turn of the event loop or a later one. */
  goOnSoon(connection: { goOn(): void }): void
}
