// Authorises a request for another proxy: reads which one its headers describe, and returns the identity or the refusal.
import { BadRequest, Forbidden, type GatewayError, MethodNotAllowed } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { misleads } from '../http/fields.ts'
import {
  answerRefusal,
  challengeOf,
  documentHeaders,
  ownHeaders,
  type ResponseOptions,
  setError
} from '../http/own-responses.ts'
import { fieldValues, type HttpRequest } from '../http/request.ts'
import { identityFields } from '../upstream/headers/identity-headers.ts'

const PATH = '/auth/forward'
// The methods that routes may name (RFC 9110 §9.1). Some servers, such as gunicorn, read `delete` as DELETE, which another route may have.
const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`|~-]{0,31}$/

/** Only this exact spelling; any other is an ordinary path. */
export const isForwardAuth = ({ target }: HttpRequest): boolean =>
  target.startsWith(PATH) && (target.length === PATH.length || target.charCodeAt(PATH.length) === 0x3f)

/** What the proxy names, in exactly one family of headers. `host`: with its port; '' if it names none. */
const readNamed = ({ fields }: HttpRequest) => {
  const forwarded = [fieldValues(fields, 'x-forwarded-method'), fieldValues(fields, 'x-forwarded-uri')]
  const original = [fieldValues(fields, 'x-original-method'), fieldValues(fields, 'x-original-url')]
  const isFor = (family: string[][], other: string[][]) =>
    family.every(values => values.length === 1) && other.every(values => values.length === 0)
  const family = isFor(forwarded, original) ? forwarded : isFor(original, forwarded) ? original : undefined
  const [[method = ''] = [], [written = ''] = []] = family ?? []
  const [, authority = '', path = written] = /^https?:\/\/([^/?#\\]+)(.*)$/i.exec(written) ?? []
  const target = authority === '' || path.startsWith('/') ? path : `/${path}`
  if (!METHOD.test(method) || !target.startsWith('/')) return undefined
  if (family !== forwarded) return { method, target, host: authority, family: 'original' } as const
  return { method, target, host: fieldValues(fields, 'x-forwarded-host').join(), family: 'forwarded' } as const
}

/** Caddy repeats the query of the request that it asks about, which must not be read as a mode. */
const isRepeated = (query: string, named: ReturnType<typeof readNamed>): boolean =>
  named?.family === 'forwarded' &&
  named.target.endsWith(query) &&
  named.target.indexOf('?') === named.target.length - query.length

/** From here on the exchange represents the named request. Only a proxy in TRUST_PROXY may name one. */
export const beginForwardAuth = (exchange: Exchange): GatewayError | undefined => {
  const { request } = exchange
  const asked = request.target.slice(PATH.length)
  const named = readNamed(request)
  const query = isRepeated(asked, named) ? '' : asked
  exchange.forwardAuth = query === '?mode=nginx' ? 'nginx' : 'plain'
  exchange.path = PATH
  if (!exchange.peerTrusted) return new Forbidden({ reason: 'forward-auth-peer' })
  // A 2xx response would make the proxy relay whatever follows unread (RFC 9110 §9.3.6).
  if (request.method === 'CONNECT') return new MethodNotAllowed({ reason: 'method', headers: { allow: 'GET' } })
  if (query !== '' && query !== '?' && query !== '?mode=nginx') return new BadRequest({ reason: 'forward-auth-mode' })
  if (named === undefined) return new BadRequest({ reason: 'forward-auth-headers' })
  // They cannot be removed here, and the proxy forwards them.
  const isMisled = request.fields.some((name, i) => i % 2 === 0 && misleads(name))
  if (isMisled) return new BadRequest({ reason: 'forward-auth-misleading' })
  exchange.path = ''
  exchange.method = named.method
  exchange.target = named.target
  exchange.namedHost = named.host
  return undefined
}

/** 200 with every identity header, empty if there is no value, so that proxies that copy them overwrite what a client sent. */
export const answerForwardAuth = (exchange: Exchange, options: ResponseOptions): void => {
  const identity = identityFields(exchange.identity?.user)
  const headers = [...ownHeaders(exchange, options), ...identity, 'cache-control', 'no-store', 'content-length', '0']
  exchange.response.whole({ status: 200, headers }, '')
}

/** nginx's auth_request accepts only 2xx, 401 and 403 and treats any other status as an error, so the rest goes into headers. */
export const refuseForwardAuth = (exchange: Exchange, error: GatewayError, options: ResponseOptions): void => {
  const login = error.statusCode === 401 ? options.loginAddress?.(exchange) : undefined
  const isKnown = login === undefined && (error.statusCode === 401 || error.statusCode === 403)
  if (exchange.forwardAuth !== 'nginx' || isKnown) {
    answerRefusal(exchange, error, options)
    return
  }
  setError(exchange, error)
  const text = error.bodyText(exchange.requestId)
  const details = login === undefined ? ['x-auth-status', String(error.statusCode)] : ['x-auth-location', login]
  const challenge = login === undefined ? [] : challengeOf(exchange)
  const more = [...Object.entries(error.headers).flat(), ...details, ...documentHeaders(Buffer.byteLength(text))]
  const headers = [...ownHeaders(exchange, options), ...challenge, ...more]
  exchange.response.whole({ status: login === undefined ? 403 : 401, headers }, Buffer.from(text).toString('latin1'))
}
