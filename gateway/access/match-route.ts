// Finds the route of a request, or records the refusal that it gets once it has been counted; and the routes of what it also writes to.
import {
  BadHttpVersion,
  BadPath,
  BadRequest,
  type GatewayError,
  LoopDetected,
  NotImplementedCoding,
  UriTooLong
} from '../errors.ts'
import { HOST, isHostSent, type RequestHost } from '../http/client-address.ts'
import { preflightMethod } from '../http/cross-origin.ts'
import { type Exchange, GATEWAY_NAME } from '../http/exchange.ts'
import { readLaxly } from '../http/fields.ts'
import { connectionNames, fieldValue } from '../http/request.ts'
import { isPlainPath } from '../routes/canonical-path.ts'
import { ELSEWHERE, forwardedPath, matchBeside, type RouteMatch, type RouteTable } from '../routes/route.ts'

const MAX_TARGET_LENGTH = 8192

const bad = (reason: string): GatewayError => new BadRequest({ reason })

/** What is wrong with a request's head before its path is looked at (RFC 9112 §2.3, §3.2, §6.1). */
const headFault = ({ request, head }: Exchange): GatewayError | undefined => {
  if (request.versionMajor !== 1 || request.versionMinor > 1) return new BadHttpVersion({ reason: 'http-version' })
  if (!isHostSent(request)) return bad('host-count')
  if (head.host !== undefined && !HOST.test(head.host)) return bad('host-malformed')
  if (head.authorizations > 1) return bad('two-authorizations')
  if (head.passed?.includes(GATEWAY_NAME)) return new LoopDetected({ reason: 'loop' })
  if (head.transferEncoding === undefined) return undefined
  if (request.versionMinor === 0 || head.transferEncodings > 1) return bad('transfer-encoding')
  return head.transferEncoding.toLowerCase() === 'chunked'
    ? undefined
    : new NotImplementedCoding({ reason: 'transfer-coding' })
}

/** `http://host/path` (RFC 9112 §3.2.2) → `/path`, when its authority is the Host that was sent. */
const originForm = (target: string, host: string | undefined): string | undefined => {
  const absolute = /^https?:\/\/([^/?#\\]*)(.*)$/i.exec(target)
  if (absolute === null || host === undefined || absolute[1]?.toLowerCase() !== host.toLowerCase()) return undefined
  const rest = absolute[2] ?? ''
  return rest.startsWith('/') ? rest : `/${rest}`
}

/** `http://host/path?query` or `/path?query` without what an origin-form leaves out; undefined: neither. */
const targetOf = ({ target, head }: Exchange): string | undefined =>
  target.startsWith('/') ? target : originForm(target, head.host)

const targetFault = (exchange: Exchange): GatewayError | undefined => {
  if (exchange.target.length > MAX_TARGET_LENGTH) return new UriTooLong({ reason: 'target-too-long' })
  const target = targetOf(exchange)
  if (target === undefined) return new BadPath({ reason: 'target-form' })
  return target.includes('#') ? new BadPath({ reason: 'fragment' }) : undefined
}

/** What the client asked for: only trusted proxies may say it in place of Host. '': one that asks names none. */
const hostSaid = ({ head, peerTrusted, forwardAuth, namedHost }: Exchange): string | undefined =>
  forwardAuth === undefined ? ((peerTrusted ? head.forwardedHost : undefined) ?? head.host) : namedHost

const NO_ROUTE: RouteMatch = { refusal: 'no-route' }

/** A preflight is matched by the method it requests. Another proxy forwards it as OPTIONS, for which there may be a public route. */
const find = (table: RouteTable, exchange: Exchange, rawPath: string): RouteMatch => {
  const requested = preflightMethod(exchange)
  const host = table.hosts.length === 0 ? '' : exchange.hostName
  const found = table.match(requested ?? exchange.method, rawPath, host)
  if (requested === undefined || exchange.forwardAuth === undefined || found.route?.public === true) return found
  const forwarded = table.match(exchange.method, rawPath, host)
  return forwarded.route?.public === true ? forwarded : found
}

/** Routes checked for another proxy are never forwarded, and forwarded routes are never checked for one: neither exists there. */
export const onlyOf = (found: RouteMatch, isExternal: boolean): RouteMatch => {
  if (found.route !== undefined) return found.route.external === isExternal ? found : NO_ROUTE
  if (found.refusal !== 'method') return found
  const routes = found.routes.filter(({ external }) => external === isExternal)
  if (routes.length === 0) return NO_ROUTE
  return { ...found, routes, public: routes.every(route => route.public) }
}

/** In two steps, because some paths are expensive to read, and the limiter must run before that. */
export const createMatchRoute = (current: () => RouteTable, requestHost: RequestHost) => {
  /** Records what routes, backends, cookies and redirects take for the host of the request. */
  const hostFault = (exchange: Exchange, table: RouteTable): GatewayError | undefined => {
    const said = hostSaid(exchange)
    // The Host of a proxy's own request is only the gateway's.
    if (said === '' && exchange.forwardAuth !== undefined && table.hosts.length > 0) return bad('forward-auth-host')
    const host = requestHost(said, table)
    if (host === undefined) return bad('host-malformed')
    exchange.host = host
    return undefined
  }
  const match = (exchange: Exchange, rawPath: string, table = current()) => {
    const match = onlyOf(find(table, exchange, rawPath), exchange.forwardAuth !== undefined)
    exchange.match = match
    if (match.route !== undefined) {
      exchange.route = match.route
      exchange.path = match.path
    } else if (match.refusal === 'bad-path' && match.public) exchange.refusal = new BadPath({ reason: match.reason })
  }
  return {
    /** Records a fault in the head, or the host and the route of a plain path. Anything more expensive is left to `matchUnusual`. */
    matchPlain(exchange: Exchange): undefined {
      exchange.refusal ??= headFault(exchange) ?? targetFault(exchange)
      if (exchange.refusal !== undefined) return
      const table = current()
      exchange.refusal = hostFault(exchange, table)
      if (exchange.refusal !== undefined) return
      const target = targetOf(exchange) ?? ''
      const question = target.indexOf('?')
      const rawPath = question === -1 ? target : target.slice(0, question)
      exchange.query = question === -1 ? '' : target.slice(question)
      if (isPlainPath(rawPath)) match(exchange, rawPath, table)
    },
    /** Records the route of any other path, or the reason for refusing it. */
    matchUnusual(exchange: Exchange): GatewayError | undefined {
      if (exchange.refusal !== undefined || exchange.match !== undefined) return exchange.refusal
      match(exchange, targetOf(exchange)?.split('?', 1)[0] ?? '')
      return exchange.refusal
    }
  }
}

/**
 * The Destination of a COPY or MOVE (RFC 4918 §9.8, §9.9, §10.3) must lead to routes of the same upstream which admit this
 * method and PUT, and also DELETE where what is there may be overwritten (§9.8.4, §9.9.3). MOVE deletes its source, which is
 * checked even if there is no Destination. The Destination is forwarded under the name and path by which the backend is asked.
 */
export const createMatchDestination =
  (current: () => RouteTable) =>
  (exchange: Exchange): undefined => {
    const { head, method } = exchange
    if (method !== 'COPY' && method !== 'MOVE') return
    const { match, route, hostName } = exchange
    if (match?.route === undefined || route === undefined) return
    const target = pathAndQuery(exchange, head.destination ?? '')
    const path = target?.split('?', 1)[0] ?? ''
    const find = (each: string, at: string) => matchBeside(current(), route, each, at, hostName)
    const there = methodsThere(exchange).map(each => (target === undefined ? ELSEWHERE : find(each, path)))
    const alsoWrites = method === 'MOVE' ? [...there, find('DELETE', match.path)] : there
    exchange.match = { ...match, alsoWrites }
    const [first] = there
    if (first?.route === undefined || target === undefined) return
    exchange.destination = forwardedPath(first.route, first.path) + target.slice(path.length)
  }

/** What must be allowed at the Destination. */
const methodsThere = (exchange: Exchange): string[] => {
  if (exchange.head.destination === undefined) return []
  return mayOverwrite(exchange) ? [exchange.method, 'PUT', 'DELETE'] : [exchange.method, 'PUT']
}

/** Unless the client says otherwise to the backend, in exactly the way that every server understands (RFC 4918 §10.6). */
const mayOverwrite = ({ request, head, route }: Exchange): boolean => {
  const { set = [], remove = [] } = route?.upstream?.requestHeaders ?? {}
  const isLost =
    connectionNames(head.connection)?.has('overwrite') === true ||
    [...set.map(([name]) => name), ...remove].some(name => readLaxly(name) === 'overwrite')
  return isLost || fieldValue(request.fields, 'overwrite') !== 'F'
}

/** Of a Simple-ref (RFC 4918 §8.3) whose authority, if there is one, is that of the request. */
const pathAndQuery = (exchange: Exchange, reference: string): string | undefined => {
  if (/[^\x21-\x7e]|#/.test(reference)) return undefined
  if (reference.startsWith('/')) return reference
  const said = hostSaid(exchange)
  return originForm(reference, exchange.head.host) ?? originForm(reference, said === '' ? exchange.host : said)
}
