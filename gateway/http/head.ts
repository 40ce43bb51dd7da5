// Reads a client's header fields once, for everything that the gateway needs from them.
import { type FieldKind, headerKind } from './fields.ts'

type Value = string | undefined

/** The fields of a request that the gateway itself needs; undefined: not sent. */
const emptyHead = () => ({
  hosts: 0,
  host: undefined as Value,
  authorizations: 0,
  authorization: undefined as Value,
  /** All Connection fields joined, lower case. */
  connection: undefined as Value,
  transferEncodings: 0,
  transferEncoding: undefined as Value,
  contentLength: undefined as Value,
  forwardedFor: undefined as Value,
  forwardedProto: undefined as Value,
  forwardedHost: undefined as Value,
  requestId: undefined as Value,
  cookie: undefined as Value,
  te: undefined as Value,
  origin: undefined as Value,
  accept: undefined as Value,
  upgrade: undefined as Value,
  /** Sec-Fetch-Site (Fetch Metadata Request Headers §2.3). */
  fetchSite: undefined as Value,
  expect: undefined as Value,
  maxForwards: undefined as Value,
  traceparent: undefined as Value,
  /** What a COPY or MOVE writes to (RFC 4918 §10.3). */
  destination: undefined as Value,
  /** The gateways that this request has passed, by the names they give themselves. */
  passed: undefined as Value
})

export type RequestHead = ReturnType<typeof emptyHead>

type Property = Exclude<keyof RequestHead, 'hosts' | 'authorizations' | 'transferEncodings'>

/** Where the value of a field is kept, and what joins several; without that, the last one counts. */
const PLACES = new Map<FieldKind, readonly [property: Property, joinedBy?: string]>([
  ['host', ['host']],
  ['authorization', ['authorization']],
  ['connection', ['connection', ',']],
  ['transfer-encoding', ['transferEncoding']],
  ['content-length', ['contentLength', ', ']],
  ['x-forwarded-for', ['forwardedFor', ', ']],
  ['x-forwarded-proto', ['forwardedProto', ',']],
  ['x-forwarded-host', ['forwardedHost']],
  ['x-request-id', ['requestId']],
  ['cookie', ['cookie', '; ']],
  ['te', ['te', ', ']],
  ['origin', ['origin']],
  ['accept', ['accept', ', ']],
  ['sec-fetch-site', ['fetchSite']],
  ['upgrade', ['upgrade']],
  ['x-portaria-via', ['passed', ', ']],
  ['expect', ['expect', ', ']],
  ['max-forwards', ['maxForwards', ', ']],
  ['traceparent', ['traceparent', ', ']],
  ['destination', ['destination', ', ']]
])

export const readHead = (rawHeaders: readonly string[]): RequestHead => {
  const head = emptyHead()
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const kind = headerKind(rawHeaders[i] ?? '')
    const place = PLACES.get(kind)
    if (place === undefined) continue
    const [property, joinedBy] = place
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

/**
 * How many more gateways may forward an OPTIONS or TRACE request (RFC 9110 §7.6.2); undefined: any number, as with other
 * methods.
 */
export const forwardsLeft = (method: string, { maxForwards }: RequestHead): number | undefined => {
  if (maxForwards === undefined || (method !== 'OPTIONS' && method !== 'TRACE')) return undefined
  return /^\d{1,9}$/.test(maxForwards) ? Number(maxForwards) : undefined
}

// Values of Connection that name no other fields.
const PLAIN_CONNECTION = /^(?:|keep-alive|close)$/

/** Names that the client declared hop-by-hop (RFC 9110 §7.6.1); undefined if there are none. */
export const connectionNames = (connection = ''): ReadonlySet<string> | undefined =>
  PLAIN_CONNECTION.test(connection) ? undefined : new Set(connection.split(',').map(name => name.trim()))

/**
 * Whether a message leaves its connection open, by all its Connection fields in lower case. No other option can revoke `close`
 * (RFC 9112 §9.3).
 */
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
