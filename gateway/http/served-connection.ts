// Describes what a server needs from a connection of any protocol, and what it offers to it.
import type { Socket } from 'node:net'
import type { Contained } from '../values/contain.ts'
import type { Waiting } from './outbox.ts'
import type { ClientConnection, HttpRequest } from './request.ts'
import type { HttpResponse } from './response.ts'

export type MessageFault = 'malformed' | 'too-large' | 'too-slow'

type FaultyConnection = Pick<ClientConnection, 'peer' | 'isTls' | 'isHttp2'>

/** How requests are handled; shared by all connections. */
export interface MessageHandler {
  onRequest(request: HttpRequest): void
  /** Received what is no request. Its response is the last on an HTTP/1.1 connection; undefined: its stream has been reset. */
  onFault(connection: FaultyConnection, fault: MessageFault, response: HttpResponse | undefined): void
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
  /** Reads a socket in turns. @param take takes bytes that were read, and returns whether to keep reading */
  read(socket: Socket, take: (bytes: Buffer) => boolean): void
  /** Lets a connection continue with what it has buffered, in the next turn of the event loop or later. */
  goOnSoon(connection: Contained & { goOn(): void }): void
}

/** A fault ends the request that it belongs to, or else the connection. */
export interface ServedConnection extends Contained {
  readonly peer: string | undefined
  /** When `expire` is to be called, by the host's clock. */
  readonly deadline: number
  expire(): void
  /** The server will stop: clients may be told. */
  onAnnounced?(): void
  /** Requests in progress may finish; an idle connection ends. @param sparesNew unless it is unused: a request may be on its way */
  onDrain(sparesNew: boolean): void
  /** Called at intervals: ends requests whose clients have taken nothing since. */
  endStalled?(): void
  destroy(): void
  /** The socket has been closed. */
  onClose(): void
}
