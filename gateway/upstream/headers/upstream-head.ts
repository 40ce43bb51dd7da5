// Writes the head of an upstream request from a client's: nothing forged, nothing hop-by-hop, none of our secrets; identity added.
import { type Exchange, GATEWAY_NAME } from '../../http/exchange.ts'
import { headerKind, LOOP_FIELD, type OwnCookies, PASS } from '../../http/fields.ts'
import { bearerToken, connectionNames, forwardsLeft, type RequestHead } from '../../http/request.ts'
import { isReplaced } from '../../http/trace-context.ts'
import { forwardedPath, type Route } from '../../routes/route.ts'
import type { AccessTokens } from '../../tokens/access-token.ts'
import type { Assertions } from '../../tokens/assertions.ts'
import { holdsOwnToken, withoutOwnTokens } from '../../tokens/own-tokens.ts'
import { ownText } from '../../values/bounded-map.ts'
import { type RequestRules, requestRulesOf } from './header-rules.ts'
import { identityHeaderBlock } from './identity-headers.ts'

interface UpstreamHeadOptions {
  readonly tokens: Pick<AccessTokens, 'isOurs'>
  /** Names of cookies that only the gateway may read. */
  readonly ownCookies: OwnCookies
  readonly assertions: Pick<Assertions, 'lineFor'>
}

/** Whether a value contains something that the backend must not see; undefined: no value does. */
type IsSecret = ((value: string) => boolean) | undefined

/** What the client's own fields are chosen by. */
interface Choice {
  readonly exchange: Exchange
  readonly route: Route
  readonly authority: string
  readonly ownCookies: OwnCookies
  readonly isSecret: IsSecret
  /** Of the upstream; undefined: none. */
  readonly rules: RequestRules | undefined
  /** Further fields (lower case) to remove. */
  readonly without: ReadonlySet<string> | undefined
}

/** X-Forwarded-For: appended to what a trusted proxy sent, otherwise set anew. */
const forwardedFor = ({ request, head, client, peerTrusted }: Exchange, isSecret: IsSecret): string => {
  if (!peerTrusted) return client.address
  const peer = (request.connection.peer ?? 'unknown').replace(/^::ffff:(?=\d+\.)/, '')
  const before = head.forwardedFor ?? ''
  return before === '' || isSecret?.(before) === true ? peer : `${before}, ${peer}`
}

/**
 * Whether the Authorization field is the token that was checked. An upgrade may carry that one elsewhere, and then the field is
 * not a bearer token, because two of them would have been refused. Access tokens are never forwarded.
 */
const holdsCheckedToken = ({ identity, head }: Exchange): boolean =>
  identity?.kind !== 'personal' && bearerToken(head.authorization) !== undefined

/** The Cookie field without ours, and without those that contain a token of ours; undefined if nothing is left. */
const foreignCookies = (cookie: string | undefined, ownCookies: OwnCookies, isSecret: IsSecret): string | undefined => {
  const kept = cookie
    ?.split(';')
    .filter(pair => !ownCookies.has((pair.split('=', 1)[0] ?? '').trim()) && isSecret?.(pair) !== true)
  return kept === undefined || kept.length === 0 ? undefined : kept.join(';').trim()
}

/** `Field: value` lines for the body as the client framed it; the length is rewritten. */
const framingLines = (head: RequestHead): string => {
  if (head.transferEncoding !== undefined) return 'transfer-encoding: chunked\r\n'
  return head.contentLength === undefined ? '' : `content-length: ${Number(head.contentLength)}\r\n`
}

/** The same server that the backend is asked as: some accept no path alone, and none another server (RFC 4918 §10.3). */
const destinationLine = ({ upstream }: Route, destination: string, authority: string): string =>
  `destination: ${upstream?.targets[0]?.tls ? 'https' : 'http'}://${authority}${destination}\r\n`

/** Fields that pass as the client sent them, in the same order and spelling. */
const passedLines = ({ exchange, route, authority, ownCookies, isSecret, rules, without }: Choice): string => {
  const { identity, head, trace } = exchange
  const raw = exchange.request.fields
  const passesAuthorization =
    identity === undefined || route.ownAuthorization || (route.forwardToken && holdsCheckedToken(exchange))
  const named = connectionNames(head.connection)
  const left = forwardsLeft(exchange.request.method, head)
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
      (kind === 'authorization' && passesAuthorization) ||
      (kind === 'max-forwards' && left === undefined)
    if (!passes || named?.has(name.toLowerCase()) || without?.has(name.toLowerCase())) continue
    if (rules?.removes(name)) continue
    if (trace !== undefined && isReplaced(name.toLowerCase(), trace)) continue
    const value = raw[i + 1] ?? ''
    if (isSecret?.(value)) continue
    // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
    lines += name + ': ' + value + '\r\n'
  }
  if (exchange.destination !== '' && !rules?.removes('destination'))
    lines += destinationLine(route, exchange.destination, authority)
  if (left !== undefined && !rules?.removes('max-forwards')) lines += `max-forwards: ${left - 1}\r\n`
  if (trace !== undefined && !rules?.removes('traceparent')) lines += `traceparent: ${trace.traceparent}\r\n`
  const cookie = foreignCookies(head.cookie, ownCookies, isSecret)
  if (cookie !== undefined && !named?.has('cookie') && !rules?.removes('cookie')) lines += `cookie: ${cookie}\r\n`
  return lines
}

const PASSED_HERE = ownText(`\r\n${LOOP_FIELD}: ${GATEWAY_NAME}\r\n`)

/** The end of a line, and one that appends this gateway to those that the request has passed; long invented lists are not passed on. */
const passedLine = ({ passed: before }: RequestHead, isSecret: IsSecret): string =>
  before === undefined || before.length > 200 || isSecret?.(before) === true
    ? PASSED_HERE
    : `\r\n${LOOP_FIELD}: ${before}, ${GATEWAY_NAME}\r\n`

/** After `close` a backend reads no other request, not even from a body that it left unread (RFC 9112 §9.6): some know it only alone. */
const connectionLines = (head: RequestHead, closes: boolean): string => {
  if (closes) return 'connection: close\r\n'
  const wantsTrailers = head.te !== undefined && /(?:^|,)\s*trailers\s*(?:,|$)/i.test(head.te)
  return wantsTrailers ? 'te: trailers\r\nconnection: te\r\n' : ''
}

export const createUpstreamHeads = ({ tokens, ownCookies, assertions }: UpstreamHeadOptions) => {
  // On public routes and the HTTP side of Socket.IO, a backend's own credentials pass; a Portaria token only if configured.
  const holdsOurs = (value: string): boolean => holdsOwnToken(value, tokens.isOurs)

  /**
   * The head of an upgrade before its own fields and the empty line; Latin-1. The client's fields come last, because some backends
   * drop those beyond a number (Node before 24: 1000), and a client can send as many.
   * @param without further fields (lower case) to remove
   * @param framing field lines that frame the body
   */
  const start = (
    exchange: Exchange,
    route: Route,
    address: string,
    without?: ReadonlySet<string>,
    framing = ''
  ): string => {
    const { request, identity, scheme, client, head, query, host } = exchange
    const { upstream, stripPrefix } = route
    const isSecret = identity === undefined ? holdsOurs : undefined
    const path = forwardedPath(route, exchange.path) + (isSecret ? withoutOwnTokens(query, tokens.isOurs) : query)
    const authority = upstream?.preserveHost ? host : address
    const rules = upstream && requestRulesOf(upstream)
    const prefix = stripPrefix === undefined ? '' : `\r\nx-forwarded-prefix: ${stripPrefix}`
    const assertion = upstream?.assertion && identity !== undefined ? assertions.lineFor(identity, upstream.name) : ''
    // Few pieces, because V8 walks all of them when the text is written.
    return (
      `${request.method} ${path} HTTP/1.1\r\nhost: ${authority}\r\n${framing}x-forwarded-for: ${forwardedFor(exchange, isSecret)}` +
      `\r\nx-forwarded-proto: ${scheme}\r\nx-forwarded-host: ${host}${prefix}` +
      `\r\nx-real-ip: ${client.address}\r\nx-request-id: ${exchange.requestId}${passedLine(head, isSecret)}` +
      `${identity === undefined ? '' : identityHeaderBlock(identity.user)}${assertion}` +
      (rules === undefined ? '' : rules.lines + rules.identityLines(identity)) +
      passedLines({ exchange, route, authority, ownCookies, isSecret, rules, without })
    )
  }

  return {
    start,
    /** The complete head of an HTTP request, with the body framed as the client framed it. @param closes no other request follows */
    whole: (exchange: Exchange, route: Route, address: string, closes: boolean): string =>
      `${start(exchange, route, address, undefined, framingLines(exchange.head) + connectionLines(exchange.head, closes))}\r\n`
  }
}
