// The gateway's own answers and refusals reach the client in one shape, with the fields that all of them carry.
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { GatewayError, Internal, RateLimited } from '../errors.ts'
import type { Verdict } from '../limits/limiter.ts'
import { breakOff, type Exchange } from './exchange.ts'
import { hasBody } from './head.ts'
import { limitHeaders, sameLimitHeaders } from './limit-headers.ts'
import { REFUSAL_PAGE_POLICY, refusalPage, wantsPage } from './refusal-page.ts'
import { headerLines, sendWhole } from './whole-answer.ts'

export interface AnswerOptions {
  /** The one origin whose scripts may read these answers (FRONTEND_URL). */
  corsOrigin: string
  /** Where a navigation that lacks a valid session goes; undefined: nowhere, it is refused. */
  loginAddress?: (exchange: Exchange) => string | undefined
}

/** `[name, value, …]` on everything that goes to a client through this exchange, forwarded answers too. */
export const addedHeaders = (exchange: Exchange): string[] => {
  const limits = exchange.limit === undefined ? [] : limitHeaders(exchange.limit)
  limits.push('x-request-id', exchange.requestId)
  return limits
}

/** `[name, value, …]` on each of the gateway's own answers (Fetch, CORS protocol). */
const sharedHeaders = (corsOrigin: string): string[] => [
  'access-control-allow-origin',
  corsOrigin,
  'access-control-expose-headers',
  'retry-after, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-request-id',
  'vary',
  'Origin',
  'x-content-type-options',
  'nosniff',
  'referrer-policy',
  'no-referrer'
]

/** `[name, value, …]` on the gateway's own answers, refusals included. */
export const ownHeaders = (exchange: Exchange, { corsOrigin }: AnswerOptions): string[] => [
  ...sharedHeaders(corsOrigin),
  ...addedHeaders(exchange)
]

const PREFLIGHT_METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'

/** A CORS preflight from the frontend, answered here: nothing of it reaches a backend. */
export const answerPreflight = (exchange: Exchange, options: AnswerOptions): void => {
  const asked = exchange.req.headers['access-control-request-headers']
  const headers = ownHeaders(exchange, options)
  headers.push('access-control-allow-methods', PREFLIGHT_METHODS, 'access-control-max-age', '600')
  if (asked !== undefined && /^[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}$/.test(asked)) {
    headers.push('access-control-allow-headers', asked)
  }
  exchange.res.writeHead(204, headers).end()
}

/** A small readable page for somebody who navigated here, JSON for everything else. */
const body = (exchange: Exchange, error: GatewayError): [type: string, body: string] =>
  wantsPage(exchange)
    ? ['text/html; charset=utf-8', refusalPage(error, exchange.requestId)]
    : ['application/json; charset=utf-8', error.bodyText(exchange.requestId)]

const DRAIN_BYTES = 1024 * 1024
const DRAIN_MS = 2000
const DRAIN_CHECK_MS = 50

const closing = new WeakSet<Socket>()

/** Whether this connection ends after the answer under way: what else arrives on it is no request. */
export const isClosing = (socket: Socket): boolean => closing.has(socket)

/**
 * What the client is still sending is read and dropped for a moment before the connection closes, so that our answer is
 * not lost to a reset (RFC 9112 §9.6), and never read as another request.
 */
const closeGently = ({ req, res }: Exchange): void => {
  const socket = req.socket
  closing.add(socket)
  res.shouldKeepAlive = false
  socket.destroySoon = () => {
    const until = performance.now() + DRAIN_MS
    const most = socket.bytesRead + DRAIN_BYTES
    const timer = setInterval(() => {
      if (req.complete || performance.now() > until || socket.bytesRead > most) socket.destroy()
    }, DRAIN_CHECK_MS)
    socket.on('close', () => clearInterval(timer))
    socket.end()
    req.resume()
  }
}

interface CommonHeaders {
  readonly headers: readonly string[]
  /** The same, as lines of a head. */
  readonly lines: string
}

const commonHeaders = new WeakMap<AnswerOptions, Map<string, CommonHeaders>>()

/** What all refusals of this content type have in common; made once for each of the two. */
const refusalHeaders = (type: string, options: AnswerOptions): CommonHeaders => {
  const byType = commonHeaders.get(options) ?? new Map<string, CommonHeaders>()
  const known = byType.get(type)
  if (known !== undefined) return known
  const headers = sharedHeaders(options.corsOrigin)
  headers.push('content-type', type, 'cache-control', 'no-store', 'content-security-policy', REFUSAL_PAGE_POLICY)
  const made = { headers, lines: headerLines(headers) }
  commonHeaders.set(options, byType.set(type, made))
  return made
}

/** Where Basic works it takes the place of Bearer; in front of a page the browser would ask for a password of its own. */
const challengeOf = (exchange: Exchange): string | undefined => {
  if (exchange.route?.basic !== true) return 'Bearer'
  return wantsPage(exchange) ? undefined : 'Basic realm="Portaria", charset="UTF-8"'
}

/** `[name, value, …]` of a refusal that the next one of its kind need not have. */
const particularHeaders = (error: GatewayError, exchange: Exchange): string[] => {
  const headers = exchange.limit === undefined ? [] : limitHeaders(exchange.limit)
  const challenge = error.statusCode === 401 ? challengeOf(exchange) : undefined
  if (challenge !== undefined) headers.push('www-authenticate', challenge)
  for (const name in error.headers) headers.push(name, error.headers[name] ?? '')
  return headers
}

let flood: { error: GatewayError; common: CommonHeaders; limit: Verdict; lines: string } | undefined

/** All but the request's own fields as lines of a head; in a flood put together once for each second of it. */
const refusalLines = (error: GatewayError, common: CommonHeaders, exchange: Exchange): string => {
  const { limit } = exchange
  if (
    flood?.error === error &&
    flood.common === common &&
    limit !== undefined &&
    sameLimitHeaders(flood.limit, limit)
  ) {
    return flood.lines
  }
  const lines = common.lines + headerLines(particularHeaders(error, exchange))
  if (!(error instanceof RateLimited) || limit === undefined) return lines
  // In one piece: what is put together is put together again by everyone who writes it.
  flood = { error, common, limit, lines: Buffer.from(lines, 'latin1').toString('latin1') }
  return flood.lines
}

/** Answers with a refusal. An answer that has begun is broken off instead: it must not look complete. */
export const answerRefusal = (exchange: Exchange, error: GatewayError, options: AnswerOptions): void => {
  const { req, res } = exchange
  exchange.error = error
  if (res.headersSent) {
    breakOff(res, error)
    return
  }
  const login = error.statusCode === 401 ? options.loginAddress?.(exchange) : undefined
  if (login !== undefined) {
    res.writeHead(302, [...ownHeaders(exchange, options), 'location', login, 'cache-control', 'no-store']).end()
    return
  }
  const [type, text] = body(exchange, error)
  const length = Buffer.byteLength(text)
  const headers = ['x-request-id', exchange.requestId, 'content-length', String(length)]
  if (hasBody(exchange.head) && !req.complete) closeGently(exchange)
  const sent = req.method === 'HEAD' ? '' : text
  const latin1 = length === text.length ? sent : Buffer.from(sent).toString('latin1')
  const reason = STATUS_CODES[error.statusCode] ?? 'Error'
  const common = refusalHeaders(type, options)
  const lines = refusalLines(error, common, exchange)
  if (sendWhole(req, res, { status: error.statusCode, reason, lines, headers, body: latin1 })) return
  res.writeHead(error.statusCode, [...common.headers, ...particularHeaders(error, exchange), ...headers])
  res.end(sent)
}

/** Anything thrown, as a refusal: what is not one of ours is the gateway's own fault and says nothing. */
export const asGatewayError = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError ? thrown : new Internal({ cause: thrown, reason: 'internal-error' })
