// After this step the exchange knows its route, or the refusal it will meet once it has been counted.
import {
  BadHttpVersion,
  BadPath,
  BadRequest,
  type GatewayError,
  LoopDetected,
  NotImplementedCoding,
  UriTooLong
} from '../errors.ts'
import { type Exchange, GATEWAY_NAME } from '../http/exchange.ts'
import type { RouteTable } from '../routes/route.ts'

const MAX_TARGET_LENGTH = 8192

// host [":" port] of RFC 3986 §3.2.2: a registered name, an IPv4 address, or a bracketed IPv6 address; no user information.
const HOST = /^(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

const bad = (reason: string): GatewayError => new BadRequest({ reason })

/** What is wrong with a request's head before its path is looked at (RFC 9112 §2.3, §3.2, §6.1). */
const headFault = ({ req, head }: Exchange): GatewayError | undefined => {
  if (req.httpVersionMajor !== 1 || req.httpVersionMinor > 1) return new BadHttpVersion({ reason: 'http-version' })
  if (head.hosts !== 1 && !(head.hosts === 0 && req.httpVersionMinor === 0)) return bad('host-count')
  if (head.host !== undefined && !HOST.test(head.host)) return bad('host-malformed')
  if (head.authorizations > 1) return bad('two-authorizations')
  if (head.passed?.includes(GATEWAY_NAME)) return new LoopDetected({ reason: 'loop' })
  if (head.transferEncoding === undefined) return undefined
  if (req.httpVersionMinor === 0 || head.transferEncodings > 1) return bad('transfer-encoding')
  return head.transferEncoding.trim().toLowerCase() === 'chunked'
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

/** `OPTIONS` with an Origin and the method that a browser asks leave for (Fetch, CORS-preflight request). */
export const preflightMethod = ({ req, head }: Exchange): string | undefined => {
  if (req.method !== 'OPTIONS' || head.origin === undefined) return undefined
  const asked = req.headers['access-control-request-method']
  return asked !== undefined && /^[A-Za-z]{1,32}$/.test(asked) ? asked.toUpperCase() : undefined
}

/** Records route and canonical path, or the refusal; throws nothing, so that bad requests are counted first. */
export const createMatchRoute =
  (current: () => RouteTable) =>
  (exchange: Exchange): void => {
    exchange.refusal = headFault(exchange)
    if (exchange.refusal !== undefined) return
    const sent = exchange.req.url ?? ''
    if (sent.length > MAX_TARGET_LENGTH) {
      exchange.refusal = new UriTooLong({ reason: 'target-too-long' })
      return
    }
    const target = sent.startsWith('/') ? sent : originForm(sent, exchange.head.host)
    if (target === undefined || target.includes('#')) {
      exchange.refusal = new BadPath({ reason: target === undefined ? 'target-form' : 'fragment' })
      return
    }
    const question = target.indexOf('?')
    const rawPath = question === -1 ? target : target.slice(0, question)
    exchange.query = question === -1 ? '' : target.slice(question)
    const table = current()
    const method = preflightMethod(exchange) ?? exchange.req.method ?? ''
    const match = table.match(method, rawPath)
    exchange.match = match
    if (match.route !== undefined) {
      exchange.route = match.route
      exchange.path = match.path
    } else if (match.refusal === 'bad-path') exchange.refusal = new BadPath({ reason: match.reason })
  }
