// Reads a client's header fields once, for everything that the gateway needs from them.
import { DROP, headerKind, PASS, READ_FIELDS } from './fields.ts'

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
