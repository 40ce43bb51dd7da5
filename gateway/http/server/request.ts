// Holds a request as read from its connection: line and fields at once, the body on demand.
import type { Duplex } from 'node:stream'
import type { RequestHead } from '../head.ts'
import type { HttpResponse } from './response.ts'

/** Takes a request's body. What it is given belongs to it. */
export interface BodyConsumer {
  onUpload(chunk: Buffer): void
  onUploadEnd(): void
}

/** What a request was given to. */
export interface ExchangeOwner {
  /** Once: the answer was handed over whole, or the client has gone. */
  onClosed(): void
  /** The body is malformed, and the request has no answer yet: it must be answered or cut. */
  onBodyFault(): void
}

/** A connection that speaks another protocol from now on. */
export interface Takeover {
  /** For writing, pausing and ending; it emits no `data`. */
  readonly socket: Duplex
  /** What came behind the request. */
  readonly rest: Buffer
  /** From now on every byte goes here, in memory that may be kept. */
  read(take: (bytes: Buffer) => void): void
}

/** The connection that a request came on. */
export interface ClientConnection {
  /** Address of the peer, as the socket or a PROXY header names it; undefined when the socket has none. */
  readonly peer: string | undefined
  readonly isTls: boolean
  /** Gives what has come of the body to its consumer, and reads on. */
  pump(): void
  /** Hands the connection over; the request under way gets no answer from here any more. */
  takeOver(): Takeover
}

interface RequestParts {
  readonly method: string
  /** As sent (RFC 9112 §3.2). */
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  readonly keepAlive: boolean
  /** `[name, value, …]`, as sent. */
  readonly fields: readonly string[]
}

export class HttpRequest implements RequestParts {
  readonly method: string
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  readonly keepAlive: boolean
  readonly fields: readonly string[]
  readonly head: RequestHead
  readonly connection: ClientConnection
  readonly response: HttpResponse
  /** The whole body has been given to its consumer; at once when there is none. */
  isComplete: boolean
  consumer: BodyConsumer | undefined
  owner: ExchangeOwner | undefined
  isPaused = false

  constructor(
    parts: RequestParts,
    head: RequestHead,
    connection: ClientConnection,
    response: HttpResponse,
    isComplete: boolean
  ) {
    this.method = parts.method
    this.target = parts.target
    this.versionMajor = parts.versionMajor
    this.versionMinor = parts.versionMinor
    this.keepAlive = parts.keepAlive
    this.fields = parts.fields
    this.head = head
    this.connection = connection
    this.response = response
    this.isComplete = isComplete
    this.consumer = undefined
    this.owner = undefined
  }

  /** Gives the body to a consumer, beginning with what is already here; its end too. */
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

/** All values of a field in `[name, value, …]`, joined (RFC 9110 §5.3); `name` in lower case. Undefined: not sent. */
export const fieldValue = (fields: readonly string[], name: string): string | undefined => {
  let found: string | undefined
  for (let i = 0; i < fields.length; i += 2) {
    const sent = fields[i] ?? ''
    if (sent.length !== name.length || sent.toLowerCase() !== name) continue
    found = found === undefined ? (fields[i + 1] ?? '') : `${found}, ${fields[i + 1] ?? ''}`
  }
  return found
}

/** Each value of a field in `[name, value, …]`; `name` in lower case. */
export const fieldValues = (fields: readonly string[], name: string): string[] => {
  const values: string[] = []
  for (let i = 0; i < fields.length; i += 2) if (fields[i]?.toLowerCase() === name) values.push(fields[i + 1] ?? '')
  return values
}
