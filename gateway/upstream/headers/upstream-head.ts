// Writes the head of an upstream request from a client's: nothing forged, nothing hop-by-hop, identity added.
import { type Exchange, GATEWAY_NAME } from '../../http/exchange.ts'
import { headerKind, LOOP_FIELD, PASS } from '../../http/fields.ts'
import { connectionNames, forwardsLeft, type RequestHead } from '../../http/head.ts'
import { isReplaced } from '../../http/trace-context.ts'
import { ownText } from '../../values/own-text.ts'
import type { RequestRules } from './header-rules.ts'
import { identityHeaderBlock } from './identity-headers.ts'

export interface ForwardedValues {
  for: string
  proto: string
  host: string
  /** The prefix that was removed from the path; '' if there is none. */
  prefix: string
}

/** `Field: value` lines for the body as the client framed it; the length is rewritten. */
const framingLines = (head: RequestHead): string => {
  if (head.transferEncoding !== undefined) return 'transfer-encoding: chunked\r\n'
  return head.contentLength === undefined ? '' : `content-length: ${Number(head.contentLength)}\r\n`
}

/** The same server that the backend is asked as: some accept no path alone, and none another server (RFC 4918 §10.3). */
const destinationLine = ({ route, destination }: Exchange, authority: string): string =>
  `destination: ${route?.upstream?.targets[0]?.tls ? 'https' : 'http'}://${authority}${destination}\r\n`

/** Fields that pass as the client sent them, in the same order and spelling. */
const passedLines = (parts: UpstreamHeadParts): string => {
  const { exchange, authority, passAuthorization, cookie, isSecret, without, rules } = parts
  const raw = exchange.request.fields
  const { trace } = exchange
  const named = connectionNames(exchange.head.connection)
  const left = forwardsLeft(exchange.request.method, exchange.head)
  let lines = ''
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] ?? ''
    const kind = headerKind(name)
    const passes =
      kind === PASS ||
      kind === 'origin' ||
      kind === 'accept' ||
      kind === 'sec-fetch-site' ||
      kind === 'traceparent' ||
      (kind === 'destination' && exchange.destination === '') ||
      (kind === 'authorization' && passAuthorization) ||
      (kind === 'max-forwards' && left === undefined)
    if (!passes || named?.has(name.toLowerCase()) || without?.has(name.toLowerCase())) continue
    if (rules?.removes(name)) continue
    if (trace !== undefined && isReplaced(name.toLowerCase(), trace)) continue
    const value = raw[i + 1] ?? ''
    if (isSecret?.(value)) continue
    // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
    lines += name + ': ' + value + '\r\n'
  }
  if (exchange.destination !== '' && !rules?.removes('destination')) lines += destinationLine(exchange, authority)
  if (left !== undefined) lines += `max-forwards: ${left - 1}\r\n`
  if (trace !== undefined && !rules?.removes('traceparent')) lines += `traceparent: ${trace.traceparent}\r\n`
  if (cookie !== undefined && !named?.has('cookie') && !rules?.removes('cookie')) lines += `cookie: ${cookie}\r\n`
  return lines
}

export interface UpstreamHeadParts {
  exchange: Exchange
  /** The path without its stripped prefix, followed by the query. */
  target: string
  authority: string
  forwarded: ForwardedValues
  passAuthorization: boolean
  /** The Cookie field without the gateway's own cookies; undefined: none. */
  cookie: string | undefined
  /** Whether a value contains something that the backend must not see; undefined: no value does. */
  isSecret?: ((value: string) => boolean) | undefined
  /** Rules of the upstream; undefined: none. */
  rules: RequestRules | undefined
  /** The line with the signed assertion; '': none. */
  assertion: string
  /** Further fields (lower case) to remove. */
  without?: ReadonlySet<string>
}

const PASSED_HERE = ownText(`\r\n${LOOP_FIELD}: ${GATEWAY_NAME}\r\n`)

/** The end of a line, and one that appends this gateway to those that the request has passed; long invented lists are not passed on. */
const passedLine = ({ passed: before }: RequestHead, isSecret: UpstreamHeadParts['isSecret']): string =>
  before === undefined || before.length > 200 || isSecret?.(before) === true
    ? PASSED_HERE
    : `\r\n${LOOP_FIELD}: ${before}, ${GATEWAY_NAME}\r\n`

/**
 * An upstream request's head before its empty line, and before the fields of an upgrade; Latin-1. The client's fields come last,
 * because some backends drop those beyond a number (Node before 24: 1000), and a client can send as many.
 * @param framing field lines that frame the body
 */
export const upstreamHeadStart = (parts: UpstreamHeadParts, framing = ''): string => {
  const { exchange, target, authority, forwarded, rules } = parts
  const identity = exchange.identity === undefined ? '' : identityHeaderBlock(exchange.identity)
  const prefix = forwarded.prefix === '' ? '' : `\r\nx-forwarded-prefix: ${forwarded.prefix}`
  const realIp = rules?.removes('x-real-ip') ? '' : `\r\nx-real-ip: ${exchange.client.address}`
  // Few pieces, because V8 walks all of them when the text is written.
  return (
    `${exchange.request.method} ${target} HTTP/1.1\r\nhost: ${authority}\r\n${framing}x-forwarded-for: ${forwarded.for}` +
    `\r\nx-forwarded-proto: ${forwarded.proto}\r\nx-forwarded-host: ${forwarded.host}${prefix}${realIp}` +
    `\r\nx-request-id: ${exchange.requestId}${passedLine(exchange.head, parts.isSecret)}${identity}${parts.assertion}` +
    (rules === undefined ? '' : rules.lines + rules.identityLines(exchange.identity)) +
    passedLines(parts)
  )
}

/** After `close` a backend reads no other request, not even from a body that it left unread (RFC 9112 §9.6). */
const connectionLines = (head: RequestHead, closes: boolean): string => {
  const wantsTrailers = head.te !== undefined && /(?:^|,)\s*trailers\s*(?:,|$)/i.test(head.te)
  if (!wantsTrailers) return closes ? 'connection: close\r\n' : ''
  return `te: trailers\r\nconnection: te${closes ? ', close' : ''}\r\n`
}

/** The complete head of an HTTP request, with the body framed as the client framed it. @param closes no other request follows */
export const upstreamHead = (parts: UpstreamHeadParts, closes: boolean): string => {
  const { head } = parts.exchange
  return `${upstreamHeadStart(parts, framingLines(head) + connectionLines(head, closes))}\r\n`
}
