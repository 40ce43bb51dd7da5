// Writes the gateway's own responses and refusals in one shape, with the fields that all of them carry.
import { GatewayError, Internal } from '../errors.ts'
import type { Verdict } from '../limits/limiter.ts'
import { noteFault } from '../values/contain.ts'
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

const { STATUS_CODES } = process.getBuiltinModule('node:http')

export interface AnswerOptions {
  /** Origins whose scripts may read these responses. */
  origins: CrossOrigins
  /** Where to redirect a navigation that lacks a valid session; undefined: it is refused. */
  loginAddress?: (exchange: Exchange) => string | undefined
  memory: FloodMemory
  /** What error pages say, and where they link to. */
  page: RefusalPageOptions
}

/** `[name, value, …]` on every response to a client of this exchange, including forwarded ones. */
export const addedHeaders = (exchange: Exchange): string[] => {
  const limits = exchange.limit === undefined ? [] : limitHeaders(exchange.limit)
  limits.push('x-request-id', exchange.requestId)
  return limits
}

/** The same as lines of a head. */
const addedLines = ({ limit, requestId }: Exchange): string => {
  if (limit === undefined) return `x-request-id: ${requestId}\r\n`
  const left = `\r\nx-ratelimit-remaining: ${limit.remaining}\r\nx-ratelimit-reset: ${secondsLeft(limit)}`
  return `x-ratelimit-limit: ${limit.limit}${left}\r\nx-request-id: ${requestId}\r\n`
}

/** All lines of a forwarded response; `passed` are the backend's, of which those that are not allowed are removed. */
export const forwardedLines = (exchange: Exchange, passed: string, { origins }: AnswerOptions): string => {
  const crossOrigin = crossOriginFields(exchange, passed, origins)
  const lines = addedLines(exchange) + judgeCredentials(exchange, passed, origins)
  return crossOrigin.length === 0 ? lines : lines + headerLines(crossOrigin)
}

// RFC 6797 §7.2: over a secure transport only. Half a year.
const HSTS = ['strict-transport-security', 'max-age=15552000']

/** `[name, value, …]` on each of the gateway's own responses (Fetch, CORS protocol). */
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

/** `[name, value, …]` on the gateway's own responses, including refusals. */
export const ownHeaders = (exchange: Exchange, { origins }: Pick<AnswerOptions, 'origins'>): string[] => [
  ...sharedHeaders(readableBy(exchange, origins), exchange.scheme === 'https'),
  ...addedHeaders(exchange)
]

/** Answers a CORS preflight from a page of a listed origin; nothing reaches a backend. */
export const answerPreflight = (exchange: Exchange, options: AnswerOptions): void => {
  const headers = [...ownHeaders(exchange, options), ...preflightFields(exchange)]
  exchange.response.whole({ status: 204, headers }, '')
}

/** Answers a request that may not be forwarded (RFC 9110 §7.6.2), which makes the gateway its recipient. */
export const answerAsRecipient = (exchange: Exchange, options: AnswerOptions): void => {
  const headers = [...ownHeaders(exchange, options), 'allow', PREFLIGHT_METHODS]
  exchange.response.whole({ status: 204, headers }, '')
}

const JSON_TYPE = 'application/json; charset=utf-8'

/** Answers 200 with a document that must not be stored. */
export const answerJson = (exchange: Exchange, document: object, options: Pick<AnswerOptions, 'origins'>): void => {
  const body = Buffer.from(JSON.stringify(document)).toString('latin1')
  const more = ['cache-control', 'no-store', 'content-type', JSON_TYPE, 'content-length', String(body.length)]
  exchange.response.whole({ status: 200, headers: [...ownHeaders(exchange, options), ...more] }, body)
}

/** A short readable page for navigations, JSON for everything else. */
const body = (exchange: Exchange, error: GatewayError, { page }: AnswerOptions): [type: string, body: string] =>
  wantsPage(exchange)
    ? ['text/html; charset=utf-8', refusalPage(error, exchange, page)]
    : [JSON_TYPE, error.bodyText(exchange.requestId)]

/** Field lines common to all refusals of this content type to this origin; built once for each of the few. */
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

/** If Basic is accepted, it replaces Bearer. On pages, a browser would show its own password dialog for it. */
const challengeOf = (exchange: Exchange): string | undefined => {
  if (exchange.route?.basic !== true) return 'Bearer'
  return wantsPage(exchange) ? undefined : 'Basic realm="Portaria", charset="UTF-8"'
}

/** `[name, value, …]` of a refusal that not all of its content type have. */
const particularHeaders = (error: GatewayError, exchange: Exchange): string[] => {
  const headers = exchange.limit === undefined ? [] : limitHeaders(exchange.limit)
  const challenge = error.statusCode === 401 ? challengeOf(exchange) : undefined
  if (challenge !== undefined) headers.push('www-authenticate', challenge)
  for (const name in error.headers) headers.push(name, error.headers[name] ?? '')
  return headers
}

/** Records the refusal of an exchange. An internal error is a fault. */
export const setError = (exchange: Exchange, error: GatewayError): void => {
  exchange.error = error
  if (error.statusCode === 500) noteFault('request', error.cause ?? error, exchange.requestId)
}

/** Responds with a refusal. A response that has already begun is aborted instead, so that it does not look complete. */
export const answerRefusal = (exchange: Exchange, error: GatewayError, options: AnswerOptions): void => {
  const { response } = exchange
  setError(exchange, error)
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
  const common = commonLinesOf(type, origin, exchange.scheme === 'https', options)
  const lines = common + headerLines(particularHeaders(error, exchange))
  const headers = ['x-request-id', exchange.requestId, 'content-length', String(length)]
  response.whole({ status: error.statusCode, lines, headers }, latin1)
}

/** The complete response to something that is not a request; it is the last on its connection. */
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

/** Turns anything thrown into a refusal. An error that is not one of ours is an internal error and discloses nothing. */
export const asGatewayError = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError ? thrown : new Internal({ cause: thrown, reason: 'internal-error' })

/** Seconds until the window ends; at least 1. */
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
