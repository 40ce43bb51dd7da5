// Writes the gateway's own responses and refusals in one shape, and adds its fields to forwarded responses.
import { BadRequest, GatewayError, HeadersTooLarge, Internal, RequestTimeout } from '../errors.ts'
import type { Verdict } from '../limits/limiter.ts'
import { noteFault } from '../values/contain.ts'
import { type CrossOrigins, checkCredentials, crossOriginFields, EXPOSED, readableBy } from './cross-origin.ts'
import { askingRoute, type Exchange } from './exchange.ts'
import { headerLines } from './http1/response.ts'
import { accepts, fieldValue } from './request.ts'
import type { HttpResponse } from './response.ts'

export interface ResponseOptions {
  /** Origins whose scripts may read these responses. */
  origins: CrossOrigins
  /** Where to redirect a navigation that lacks a valid session; undefined: it is refused. */
  loginAddress?: (exchange: Exchange) => string | undefined
  page: RefusalPage
}

/** A refusal for readers. */
export interface RefusalPage {
  /** The Content-Security-Policy of all refusals. */
  readonly policy: string
  html(error: GatewayError, exchange: Exchange): string
}

type Added = Pick<Exchange, 'limit' | 'requestId'> & Partial<Pick<Exchange, 'setCookies'>>

/** `[name, value, …]` on every response to a client of this exchange, including forwarded ones. */
export const addedHeaders = ({ limit, requestId, setCookies }: Added): string[] => {
  const headers =
    limit === undefined
      ? []
      : ['x-ratelimit-limit', String(limit.limit), 'x-ratelimit-remaining', String(limit.remaining)]
  if (limit !== undefined) headers.push('x-ratelimit-reset', String(secondsLeft(limit)))
  headers.push('x-request-id', requestId)
  for (const field of setCookies?.() ?? []) headers.push('set-cookie', field)
  return headers
}

/** All lines of a forwarded response; `passed` are the backend's, of which those that are not allowed are removed. */
export const forwardedLines = (exchange: Exchange, passed: string, { origins }: ResponseOptions): string => {
  const crossOrigin = crossOriginFields(exchange, passed, origins)
  const lines = headerLines(addedHeaders(exchange)) + checkCredentials(exchange, passed, origins)
  return crossOrigin.length === 0 ? lines : lines + headerLines(crossOrigin)
}

/** Half a year. */
export const HSTS_SECONDS = 15_552_000
// RFC 6797 §7.2: over a secure transport only.
const HSTS = ['strict-transport-security', `max-age=${HSTS_SECONDS}`]

/** `[name, value, …]` on each of the gateway's own responses (Fetch, CORS protocol). */
const baseHeaders = (origin: string, overHttps: boolean): string[] => {
  const headers = ['access-control-allow-origin', origin, 'access-control-expose-headers', EXPOSED, 'vary', 'Origin']
  headers.push('x-content-type-options', 'nosniff', 'referrer-policy', 'no-referrer')
  return overHttps ? [...HSTS, ...headers] : headers
}

/** `[name, value, …]` on the gateway's own responses, including refusals. */
export const ownHeaders = (exchange: Exchange, { origins }: Pick<ResponseOptions, 'origins'>): string[] => [
  ...baseHeaders(readableBy(exchange, origins), exchange.scheme === 'https'),
  ...addedHeaders(exchange)
]

/** Answers in place of a backend, with these fields and no content. */
export const answerHere = (exchange: Exchange, fields: readonly string[], options: ResponseOptions): void =>
  exchange.response.whole({ status: 204, headers: [...ownHeaders(exchange, options), ...fields] }, '')

const JSON_TYPE = 'application/json; charset=utf-8'
const HTML_TYPE = 'text/html; charset=utf-8'

/** `[name, value, …]` of a document that must not be stored. */
export const documentHeaders = (length: number, type = JSON_TYPE): string[] => {
  return ['content-type', type, 'content-length', String(length), 'cache-control', 'no-store']
}

/**
 * Whether the request is a navigation, which gets a page instead of JSON. A service worker repeats one with the mode of the
 * original and an empty destination (Fetch Metadata); older browsers tell by Accept alone.
 */
export const wantsPage = ({ method, request, head }: Exchange): boolean => {
  const mode = fieldValue(request.fields, 'sec-fetch-mode')
  if (mode !== undefined) return mode === 'navigate'
  if (!accepts(head.accept, 'text/html')) return false
  return fieldValue(request.fields, 'sec-fetch-dest') === undefined && (method === 'GET' || method === 'HEAD')
}

/** If Basic is accepted, it replaces Bearer. On pages, a browser would show its own password dialog for it. */
export const challengeOf = (exchange: Exchange): string[] => {
  if (askingRoute(exchange)?.basic !== true) return ['www-authenticate', 'Bearer']
  return wantsPage(exchange) ? [] : ['www-authenticate', 'Basic realm="Portaria", charset="UTF-8"']
}

/** `[name, value, …]` of each refusal. */
const refusalHeaders = (type: string, length: number, error: GatewayError, { page }: ResponseOptions): string[] => {
  const headers = [...documentHeaders(length, type), 'content-security-policy', page.policy]
  for (const name in error.headers) headers.push(name, error.headers[name] ?? '')
  return headers
}

/**
 * A script that opened this in a pop-up cannot read its address (HTML, "Cross-origin opener policies"): it may have a code for a
 * session, refused before it was used, as over the rate limit or with more cookies than fit.
 */
const UNREADABLE = ['cross-origin-opener-policy', 'same-origin']

/** Records the refusal of an exchange. An internal error is a fault. */
export const setError = (exchange: Exchange, error: GatewayError): void => {
  // What follows from a refusal that was sent is not its reason.
  if (exchange.error === undefined || !exchange.response.hasBegun) exchange.error = error
  if (error.statusCode === 500) noteFault('request', error.cause ?? error, exchange.requestId)
}

/** Responds with a refusal. A response that has already begun is aborted instead, so that it does not look complete. */
export const answerRefusal = (exchange: Exchange, error: GatewayError, options: ResponseOptions): void => {
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
  // A short readable page for navigations, JSON for everything else.
  const isPage = wantsPage(exchange)
  const text = isPage ? options.page.html(error, exchange) : error.bodyText(exchange.requestId)
  const body = Buffer.from(text).toString('latin1')
  const headers = ownHeaders(exchange, options)
  if (error.statusCode === 401) headers.push(...challengeOf(exchange))
  if (exchange.target.startsWith('/auth/session?')) headers.push(...UNREADABLE)
  headers.push(...refusalHeaders(isPage ? HTML_TYPE : JSON_TYPE, body.length, error, options))
  response.whole({ status: error.statusCode, headers }, body)
}

/** What is known of a message that could not be read as a request; no status: it could not be answered. */
export interface UnreadableRequest {
  readonly error: GatewayError
  readonly requestId: string
  readonly status: number | undefined
  readonly protocol: 'h2' | undefined
  readonly ip: string
}

export const FAULTS = { malformed: BadRequest, 'too-large': HeadersTooLarge, 'too-slow': RequestTimeout } as const

/** Responds to something that could not be read as a request, before its connection ends. */
export const answerFault = (
  response: HttpResponse,
  error: GatewayError,
  added: Added,
  overHttps: boolean,
  options: ResponseOptions
): void => {
  const text = error.bodyText(added.requestId)
  const headers = [...baseHeaders(options.origins.frontend, overHttps), ...addedHeaders(added)]
  headers.push(...UNREADABLE, ...refusalHeaders(JSON_TYPE, Buffer.byteLength(text), error, options))
  response.whole({ status: error.statusCode, headers }, Buffer.from(text).toString('latin1'))
}

/** Turns anything thrown into a refusal. An error that is not one of ours is an internal error and discloses nothing. */
export const asGatewayError = (thrown: unknown, reason = 'internal-error'): GatewayError =>
  thrown instanceof GatewayError ? thrown : new Internal({ cause: thrown, reason })

/** Seconds until the window ends; at least 1. */
export const secondsLeft = ({ resetMs }: Verdict): number => Math.max(1, Math.ceil(resetMs / 1000))
