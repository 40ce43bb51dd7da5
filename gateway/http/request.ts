// Holds a request as read from its connection: request line and fields at once, the body on demand.
import type { Duplex } from 'node:stream'
import { DROP, headerKind, PASS, READ_FIELDS } from './fields.ts'
import type { HttpResponse } from './response.ts'

type Property = (typeof READ_FIELDS)[keyof typeof READ_FIELDS][0]

/** The fields of a request that the gateway itself needs; undefined: not sent. `connection` is in lower case. */
export type RequestHead = Record<'hosts' | 'authorizations' | 'transferEncodings', number> &
  Record<Property, string | undefined>

const NOTHING_SENT = {
  ...{ hosts: 0, authorizations: 0, transferEncodings: 0 },
  ...Object.fromEntries(Object.values(READ_FIELDS).map(([property]) => [property, undefined]))
} as RequestHead

export const readHead = (rawHeaders: readonly string[]): RequestHead => {
  const head = { ...NOTHING_SENT }
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const kind = headerKind(rawHeaders[i] ?? '')
    if (kind === PASS || kind === DROP) continue
    const [property, joinedBy] = READ_FIELDS[kind]
    const value = rawHeaders[i + 1] ?? ''
    const before = head[property]
    head[property] = before === undefined || joinedBy === undefined ? value : before + joinedBy + value
    if (kind === 'host') head.hosts++
    else if (kind === 'authorization') head.authorizations++
    else if (kind === 'transfer-encoding') head.transferEncodings++
  }
  head.connection = head.connection?.toLowerCase()
  return head
}

/** Whether a request has a body, by its framing alone (RFC 9112 §6.3). */
export const hasBody = (head: RequestHead): boolean =>
  head.transferEncoding !== undefined || (head.contentLength !== undefined && head.contentLength !== '0')

// RFC 9110 §9.3, RFC 5789 (PATCH), RFC 4918 and its companions (WebDAV), QUERY.
const WITH_BODY: ReadonlySet<string> = new Set('POST PUT PATCH PROPFIND PROPPATCH LOCK REPORT SEARCH QUERY'.split(' '))

/** Whether a method gives a body no meaning, so that some backends leave it unread. */
export const ignoresBody = (method: string): boolean => !WITH_BODY.has(method)

/** How many more gateways may forward an OPTIONS or TRACE request (RFC 9110 §7.6.2); undefined: any number, as with other methods. */
export const forwardsLeft = (method: string, { maxForwards }: RequestHead): number | undefined => {
  if (maxForwards === undefined || (method !== 'OPTIONS' && method !== 'TRACE')) return undefined
  return /^\d{1,9}$/.test(maxForwards) ? Number(maxForwards) : undefined
}

// Values of Connection that name no other fields.
const PLAIN_CONNECTION = /^(?:|keep-alive|close)$/

/** Names that the client declared hop-by-hop (RFC 9110 §7.6.1); undefined if there are none. */
export const connectionNames = (connection = ''): ReadonlySet<string> | undefined =>
  PLAIN_CONNECTION.test(connection) ? undefined : new Set(connection.split(',').map(name => name.trim()))

/** Whether a message leaves its connection open, by all its Connection fields in lower case: nothing revokes `close` (RFC 9112 §9.3). */
export const keepsConnection = (minor: number, connection = ''): boolean => {
  if (connection === '' || connection === 'keep-alive') return connection !== '' || minor > 0
  if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/.test(connection)) return false
  return minor > 0 || /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/.test(connection)
}

// b64token of RFC 6750 §2.1; the scheme in any case (RFC 9110 §11.1).
const BEARER = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i

/** The bearer token of an Authorization field; undefined if it contains none. */
export const bearerToken = (authorization: string | undefined): string | undefined =>
  authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]

/** What Basic credentials (RFC 7617 §2) encode; the scheme is written in any case (RFC 9110 §11.1), and token68 follows it. */
export const basicCredentials = (authorization: string): Buffer | undefined => {
  const [, encoded] = /^Basic +([A-Za-z0-9+/]+={0,2})$/i.exec(authorization) ?? []
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64')
}

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

/** A request head as sent. */
export interface ParsedHead {
  readonly method: string
  /** RFC 9112 §3.2. */
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  /** `[name, value, …]`, Latin-1, without blanks around the values. */
  readonly fields: readonly string[]
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

/** Whether Accept names a media type, given in lower case, and does not refuse it (RFC 9110 §12.5.1). */
export const accepts = (accept: string | undefined, type: string): boolean =>
  (accept ?? '').split(',').some(range => {
    const [named, ...parameters] = range.toLowerCase().split(';')
    return named?.trim() === type && !parameters.some(parameter => /^\s*q=0(?:\.0*)?\s*$/.test(parameter))
  })

/** `[name, value, …]` without some of the fields. */
export const fieldsWithout = (fields: readonly string[], isLeftOut: (name: string) => boolean): string[] => {
  const kept: string[] = []
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? ''
    if (!isLeftOut(name)) kept.push(name, fields[i + 1] ?? '')
  }
  return kept
}
