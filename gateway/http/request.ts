// Holds a request as read from its connection: request line and fields at once, the body on demand.
import type { Duplex } from 'node:stream'
import type { RequestHead } from './head.ts'
import type { ParsedHead } from './http1/head-reader.ts'
import type { HttpResponse } from './response.ts'

/** Consumes a request's body. */
export interface BodyConsumer {
  /** The chunk is valid until this returns. */
  onUpload(chunk: Buffer): void
  onUploadEnd(): void
}

/** The handler that a request was given to. */
export interface ExchangeOwner {
  /** Called once, when the response was handed over completely or the client has gone. */
  onClosed(): void
  /** The body is malformed, and there is no response yet: the handler must send one or cut the connection. */
  onBodyFault(): void
  /** A callback of this request has thrown: the handler must refuse it, or cut a response that has begun. */
  onThrown(error: unknown): void
}

/** A connection that speaks another protocol from now on. */
export interface Takeover {
  /** For writing, pausing and ending; it emits no `data`. */
  readonly socket: Duplex
  /** Bytes that arrived after the request. */
  readonly rest: Buffer
  /** From now on every byte goes here, valid until `take` returns. */
  read(take: (bytes: Buffer) => void): void
}

/** The connection that a request came on. */
export interface ClientConnection {
  /** Address of the peer, from the socket or a PROXY header; undefined if the socket has none. */
  readonly peer: string | undefined
  readonly isTls: boolean
  readonly isHttp2: boolean
  /** Whether its certificate is for a host (a name, or an address without brackets); undefined: that does not matter. */
  readonly covers: ((host: string) => boolean) | undefined
  /** It has not been closed. */
  readonly isOpen: boolean
  /** Stands for the client towards backends: this connection or, of an HTTP/2 stream, the one that all streams share. */
  readonly client: { readonly isOpen: boolean }
  /** Passes on to its consumer what has arrived of the body, and continues reading. */
  pump(): void
  /** Hands the connection over; the request in progress gets no response from here any more. */
  takeOver(): Takeover
}

export class HttpRequest implements ParsedHead {
  readonly method: string
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  readonly fields: readonly string[]
  readonly head: RequestHead
  readonly connection: ClientConnection
  readonly response: HttpResponse
  /** The whole body has been consumed; true at once if there is none. */
  isComplete: boolean
  consumer: BodyConsumer | undefined = undefined
  owner: ExchangeOwner | undefined = undefined
  isPaused = false

  constructor(
    parts: ParsedHead,
    head: RequestHead,
    connection: ClientConnection,
    response: HttpResponse,
    isComplete: boolean
  ) {
    this.method = parts.method
    this.target = parts.target
    this.versionMajor = parts.versionMajor
    this.versionMinor = parts.versionMinor
    this.fields = parts.fields
    this.head = head
    this.connection = connection
    this.response = response
    this.isComplete = isComplete
  }

  /** Passes the body to a consumer, beginning with what has already arrived; also its end. */
  read(consumer: BodyConsumer): void {
    this.consumer = consumer
    if (this.isComplete) consumer.onUploadEnd()
    else this.connection.pump()
  }

  pause(): void {
    this.isPaused = true
  }

  resume(): void {
    if (!this.isPaused) return
    this.isPaused = false
    this.connection.pump()
  }
}

/** Each value of a field in `[name, value, …]`; `name` in lower case. */
export const fieldValues = (fields: readonly string[], name: string): string[] => {
  const values: string[] = []
  for (let i = 0; i < fields.length; i += 2) if (fields[i]?.toLowerCase() === name) values.push(fields[i + 1] ?? '')
  return values
}

/** The same, joined (RFC 9110 §5.3). Undefined: not sent. */
export const fieldValue = (fields: readonly string[], name: string): string | undefined => {
  const values = fieldValues(fields, name)
  return values.length === 0 ? undefined : values.join(', ')
}
