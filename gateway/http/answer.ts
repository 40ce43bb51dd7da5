// Writes the gateway's own responses and refusals in one shape, with the fields that all of them carry.
import { STATUS_CODES } from 'node:http'
import { GatewayError, Internal, RateLimited } from '../errors.ts'
import type { Verdict } from '../limits/limiter.ts'
import {
  type CrossOrigins,
  crossOriginFields,
  EXPOSED,
  judgeCredentials,
  PREFLIGHT_METHODS,
  preflightFields,
  readableBy
} from './cross-origin.ts'
import type { Exchange } from './exchange.ts'
import type { FloodMemory } from './flood-memory.ts'
import { REFUSAL_PAGE_POLICY, type RefusalPageOptions, refusalPage, wantsPage } from './refusal-page.ts'
import { dateLine, headerLines } from './server/response-head.ts'

export interface AnswerOptions {
  /** Origins whose scripts may read these answers. */
  origins: CrossOrigins
  /** Where a navigation that lacks a valid session goes; undefined: nowhere, it is refused. */
  loginAddress?: (exchange: Exchange) => string | undefined
  memory: FloodMemory
  /** What pages of refusals say, and where they lead. */
  page?: RefusalPageOptions
}

/** `[name, value, …]` on everything that goes to a client through this exchange, forwarded answers too. */
export const addedHeaders = (exchange: Exchange): string[] => {
  const limits = exchange.limit === undefined ? [] : limitHeaders(exchange.limit)
  limits.push('x-request-id', exchange.requestId)
  return limits
}

/** The same as lines of a head. */
const addedLines = ({ limit, requestId }: Exchange): string => {
  const id = `x-request-id: ${requestId}\r\n`
  if (limit === undefined) return id
  const left = `x-ratelimit-remaining: ${limit.remaining}\r\nx-ratelimit-reset: ${secondsLeft(limit)}\r\n`
  return `x-ratelimit-limit: ${limit.limit}\r\n${left}${id}`
}

/** The lines to add to a forwarded answer; the fields `passed` of the backend's own lose what they must not allow. */
export const forwardedLines = (exchange: Exchange, passed: string[], { origins }: AnswerOptions): string => {
  judgeCredentials(exchange, passed, origins)
  const crossOrigin = crossOriginFields(exchange, passed, origins)
  return crossOrigin.length === 0 ? addedLines(exchange) : addedLines(exchange) + headerLines(crossOrigin)
}

// RFC 6797 §7.2: over a secure transport only. Half a year.
const HSTS = ['strict-transport-security', 'max-age=15552000']

/** Whether the client speaks TLS, to us or to a trusted proxy that says so. */
const isHttps = ({ request, peerTrusted, head }: Exchange): boolean =>
  request.connection.isTls || (peerTrusted && head.forwardedProto?.toLowerCase() === 'https')

/** `[name, value, …]` on each of the gateway's own answers (Fetch, CORS protocol). */
const sharedHeaders = (origin: string, overHttps: boolean): string[] => [
  ...(overHttps ? HSTS : []),
  'access-control-allow-origin',
  origin,
  'access-control-expose-headers',
  EXPOSED,
  'vary',
  'Origin',
  'x-content-type-options',
  'nosniff',
  'referrer-policy',
  'no-referrer'
]

/** `[name, value, …]` on the gateway's own answers, refusals included. */
export const ownHeaders = (exchange: Exchange, { origins }: Pick<AnswerOptions, 'origins'>): string[] => [
  ...sharedHeaders(readableBy(exchange, origins), isHttps(exchange)),
  ...addedHeaders(exchange)
]

/** A CORS preflight from a page of a listed origin, answered here: nothing of it reaches a backend. */
export const answerPreflight = (exchange: Exchange, options: AnswerOptions): void => {
  const headers = [...ownHeaders(exchange, options), ...preflightFields(exchange)]
  exchange.response.whole({ status: 204, headers }, '')
}

/** What a request asked that may not be passed on (RFC 9110 §7.6.2): the gateway is then who it is for. */
export const answerAsRecipient = (exchange: Exchange, options: AnswerOptions): void => {
  const headers = [...ownHeaders(exchange, options), 'allow', PREFLIGHT_METHODS]
  exchange.response.whole({ status: 204, headers }, '')
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** A small readable page for somebody who navigated here, JSON for everything else. */
const body = (exchange: Exchange, error: GatewayError, { page }: AnswerOptions): [type: string, body: string] =>
  wantsPage(exchange)
    ? ['text/html; charset=utf-8', refusalPage(error, exchange, page)]
    : [JSON_TYPE, error.bodyText(exchange.requestId)]

/** Field lines that all refusals of this content type to this origin have in common; made once for each of the few. */
const commonLinesOf = (type: string, origin: string, overHttps: boolean, options: AnswerOptions): string => {
  const known = options.memory.refusalLines
  const kind = overHttps ? `${type} https` : type
  const key = origin === options.origins.frontend ? kind : `${kind} ${origin}`
  const lines = known.get(key)
  if (lines !== undefined) return lines
  const headers = sharedHeaders(origin, overHttps)
  headers.push('content-type', type, 'cache-control', 'no-store', 'content-security-policy', REFUSAL_PAGE_POLICY)
  const made = headerLines(headers)
  known.set(key, made)
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

/** All but the request's own fields as lines of a head; in a flood put together once for each second of it. */
const refusalLines = (error: GatewayError, common: string, exchange: Exchange, memory: FloodMemory): string => {
  const { limit } = exchange
  const last = memory.lastRefusal
  if (last?.error === error && last.common === common && limit !== undefined && sameLimitHeaders(last.limit, limit)) {
    return last.lines
  }
  const lines = common + headerLines(particularHeaders(error, exchange))
  if (!(error instanceof RateLimited) || limit === undefined) return lines
  // In one piece: what is put together is put together again by everyone who writes it.
  const whole = Buffer.from(lines, 'latin1').toString('latin1')
  memory.lastRefusal = { error, common, limit, lines: whole }
  return whole
}

/** Answers with a refusal. An answer that has begun is broken off instead: it must not look complete. */
export const answerRefusal = (exchange: Exchange, error: GatewayError, options: AnswerOptions): void => {
  const { response } = exchange
  exchange.error = error
  if (response.hasBegun) {
    response.abort()
    return
  }
  const login = error.statusCode === 401 ? options.loginAddress?.(exchange) : undefined
  if (login !== undefined) {
    const more = ['location', login, 'cache-control', 'no-store', 'content-length', '0']
    response.whole({ status: 302, headers: [...ownHeaders(exchange, options), ...more] }, '')
    return
  }
  const [type, text] = body(exchange, error, options)
  const length = Buffer.byteLength(text)
  const latin1 = length === text.length ? text : Buffer.from(text).toString('latin1')
  const origin = readableBy(exchange, options.origins)
  const lines = refusalLines(error, commonLinesOf(type, origin, isHttps(exchange), options), exchange, options.memory)
  const headers = ['x-request-id', exchange.requestId, 'content-length', String(length)]
  response.whole({ status: error.statusCode, lines, headers }, latin1)
}

/** The whole text that refuses what is no request, and is the last on its connection. */
export const refusalText = (
  error: GatewayError,
  requestId: string,
  options: AnswerOptions,
  overHttps: boolean
): string => {
  const text = error.bodyText(requestId)
  const common = commonLinesOf(JSON_TYPE, options.origins.frontend, overHttps, options)
  const lines = common + headerLines(Object.entries(error.headers).flat())
  const more = ['x-request-id', requestId, 'content-length', String(Buffer.byteLength(text)), 'connection', 'close']
  const reason = STATUS_CODES[error.statusCode] ?? 'Error'
  return `HTTP/1.1 ${error.statusCode} ${reason}\r\n${lines}${headerLines(more)}${dateLine()}\r\n${text}`
}

/** Anything thrown, as a refusal: what is not one of ours is the gateway's own fault and says nothing. */
export const asGatewayError = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError ? thrown : new Internal({ cause: thrown, reason: 'internal-error' })

/** Until the window ends; at least 1. */
export const secondsLeft = ({ resetMs }: Verdict): number => Math.max(1, Math.ceil(resetMs / 1000))

/** `[name, value, …]` */
const limitHeaders = (verdict: Verdict): string[] => [
  'x-ratelimit-limit',
  String(verdict.limit),
  'x-ratelimit-remaining',
  String(verdict.remaining),
  'x-ratelimit-reset',
  String(secondsLeft(verdict))
]

/** Whether both give the same fields. */
const sameLimitHeaders = (one: Verdict, other: Verdict): boolean =>
  one.limit === other.limit && one.remaining === other.remaining && secondsLeft(one) === secondsLeft(other)
