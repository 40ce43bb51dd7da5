// Takes each request through the gateway: match → count → authenticate → count by route → authorize → respond or forward.
import { randomUUID } from 'node:crypto'
import { type Authentication, createAuthenticate } from './access/authenticate.ts'
import { checkAddress, checkCertificate, createAuthorize, type RefusalText } from './access/authorize.ts'
import { createLimitRate, createLimitRoute, overLimit } from './access/limit-rate.ts'
import { createMatchDestination, createMatchRoute } from './access/match-route.ts'
import type { RenewCookie } from './access/renew-cookie.ts'
import { originAllowed, socketToken } from './access/socket-token.ts'
import {
  BadOrigin,
  BadRequest,
  ExpectationFailed,
  type GatewayError,
  MethodNotAllowed,
  Unauthenticated
} from './errors.ts'
import { answerForwardAuth, beginForwardAuth, isForwardAuth, refuseForwardAuth } from './forward/forward-auth.ts'
import type { ClientAddressOf, RequestHost } from './http/client-address.ts'
import { PREFLIGHT_METHODS, preflightFields, preflightMethod } from './http/cross-origin.ts'
import { Exchange, type SocketToken } from './http/exchange.ts'
import {
  answerFault,
  answerHere,
  answerRefusal,
  asGatewayError,
  FAULTS,
  type ResponseOptions,
  type UnreadableRequest
} from './http/own-responses.ts'
import { connectionNames, fieldValues, forwardsLeft, type HttpRequest } from './http/request.ts'
import { createHttpServer, type HttpServer } from './http/server.ts'
import type { Limiter } from './limits/limiter.ts'
import type { DecideOptions } from './routes/decide.ts'
import { isSocketIo, type Route, type RouteTable, type SocketIoRoute } from './routes/route.ts'
import type { Upstream } from './routes/upstream.ts'
import type { RateLimit } from './settings/settings.ts'

interface AppParts {
  clientAddress: ClientAddressOf
  routes: () => RouteTable
  requestHost: RequestHost
  limiter: Limiter
  rateLimit: RateLimit
  authentication: Authentication
  /** undefined: BROWSER_SESSION is off. */
  renewCookie: RenewCookie | undefined
  authorization: DecideOptions & RefusalText
  answers: ResponseOptions
  /** The gateway's own endpoints. */
  answerOwn: (exchange: Exchange) => void
  forwardHttp: (exchange: Exchange, route: Route, upstream: Upstream) => void
  /** Takes over an upgrade that is allowed; refusals go through the exchange. */
  forwardUpgrade: (exchange: Exchange, route: Route, upstream: Upstream, offer: SocketToken) => void
  /** Origins whose pages may open sockets on any route of the request's host (RFC 6455 §10.2). */
  socketOrigins: (exchange: Exchange) => readonly string[]
  /** The HTTP side of a Socket.IO route. */
  forwardPolling: (exchange: Exchange, route: SocketIoRoute, upstream: Upstream) => void
  /** Called with each exchange before its first step. */
  onOpen?: ((exchange: Exchange) => void) | undefined
  /** Called once per exchange, when its response has been sent or its client is gone. */
  observe: (exchange: Exchange) => void
  /** Called with each message that cannot be read as a request. */
  observeFault: (fault: UnreadableRequest) => void
  /** How long a client may leave a response unread; milliseconds. */
  clientStallMs?: number | undefined
}

/** A refusal, which is returned rather than thrown, or the fact that the request has been answered. */
type Outcome = GatewayError | typeof ANSWERED | undefined
type Step = (exchange: Exchange) => Outcome | Promise<Outcome>

const ANSWERED = Symbol('answered')
const YES = true
const NO = false

/** Each column selects the steps for one kind of message: requests, upgrades, expectations, forward-auth subrequests. */
const column = (table: readonly (readonly [Step, ...boolean[]])[], which: number): readonly Step[] =>
  table.filter(row => row[which] === true).map(([step]) => step)

/**
 * Upgrades to h2c and similar protocols are treated as the HTTP/1.1 requests that they are, and so is what does not name
 * Upgrade in Connection (RFC 9110 §7.8, RFC 6455 §4.2.1).
 */
const asksUpgrade = ({ method, head }: HttpRequest): boolean =>
  head.upgrade !== undefined &&
  method === 'GET' &&
  head.upgrade.toLowerCase() === 'websocket' &&
  connectionNames(head.connection)?.has('upgrade') === true

/** Whether a request has an expectation other than 100-continue; HTTP/1.0 has none (RFC 9110 §10.1.1). */
const expectsMore = ({ versionMinor, head }: HttpRequest): boolean =>
  head.expect !== undefined && versionMinor > 0 && head.expect.toLowerCase() !== '100-continue'

/** The steps of each kind of message, in order; the last one sends the response. */
const createSteps = (parts: AppParts) => {
  const { matchPlain, matchUnusual } = createMatchRoute(parts.routes, parts.requestHost)
  const matchDestination = createMatchDestination(parts.routes)
  const limitRate = createLimitRate(parts.limiter, parts.rateLimit)
  const identify = createAuthenticate(parts.authentication)
  const { renewCookie } = parts
  const authenticate: Step =
    renewCookie === undefined ? identify : exchange => renewCookie(exchange, identify(exchange))
  const limitRoute = createLimitRoute(parts.limiter)
  const authorize = createAuthorize(parts.authorization)

  /** Replaces the exchange's own request with the one that the proxy describes. */
  const readNamed: Step = exchange => {
    exchange.refusal = beginForwardAuth(exchange)
    return undefined
  }

  const answerProxy: Step = exchange => {
    if (!exchange.response.isGone) answerForwardAuth(exchange, parts.answers)
    return ANSWERED
  }

  /** CORS preflights to private routes are answered here; those to public routes are forwarded like any other request. */
  const preflight: Step = exchange => {
    if (preflightMethod(exchange) === undefined) return undefined
    const { route, head } = exchange
    // The proxy that asks would forward it, and anything but 2xx fails it (Fetch, CORS-preflight fetch).
    if (exchange.forwardAuth !== undefined)
      return route?.public === true ? undefined : new Unauthenticated({ reason: 'preflight' })
    if (route?.public === true && route.upstream !== undefined) {
      // A preflight has no body (Fetch, CORS-preflight fetch), so whatever was sent as one is not forwarded.
      head.contentLength = undefined
      head.transferEncoding = undefined
      return undefined
    }
    if (route === undefined || head.origin === undefined || !parts.answers.origins.listed.has(head.origin))
      return new Unauthenticated({ reason: 'preflight' })
    answerHere(exchange, preflightFields(exchange), parts.answers)
    return ANSWERED
  }

  /** An upgrade may carry its token outside Authorization, and the origin of its page must be allowed to open sockets. */
  const readOffer: Step = exchange => {
    const { route, request, response, head } = exchange
    if (route?.upstream === undefined || (route.websocket ?? route.socketio) === undefined) return undefined
    // Whatever follows belongs to the other protocol.
    response.keepAlive = false
    exchange.offer = socketToken(exchange, route)
    exchange.query = exchange.offer.query
    const allowed = [...parts.socketOrigins(exchange), ...(route.websocket?.origins ?? [])]
    const sent = fieldValues(request.fields, 'origin')
    const isAllowed = originAllowed({ sent, allowed, byCookie: head.cookie !== undefined })
    return isAllowed ? undefined : new BadOrigin({ reason: 'origin' })
  }

  const refuseExpectation: Step = () => new ExpectationFailed({ reason: 'expectation' })

  const endForwards: Step = exchange => {
    const { request, head, route } = exchange
    if (route?.upstream === undefined || forwardsLeft(request.method, head) !== 0) return undefined
    if (request.method !== 'OPTIONS')
      return new MethodNotAllowed({ reason: 'max-forwards', headers: { allow: 'OPTIONS' } })
    // It is the recipient (RFC 9110 §7.6.2).
    answerHere(exchange, ['allow', PREFLIGHT_METHODS], parts.answers)
    return ANSWERED
  }

  const switchProtocols: Step = exchange => {
    const { route, response, offer } = exchange
    if (route?.upstream === undefined || offer === undefined || response.isGone) return undefined
    parts.forwardUpgrade(exchange, route, route.upstream, offer)
    return ANSWERED
  }

  const answerOrForward: Step = exchange => {
    const { route, response } = exchange
    // If the client left while a step was waiting, nothing is sent to the backend.
    if (route === undefined || response.isGone) return ANSWERED
    if (route.upstream === undefined) parts.answerOwn(exchange)
    else if (isSocketIo(route)) parts.forwardPolling(exchange, route, route.upstream)
    else parts.forwardHttp(exchange, route, route.upstream)
    return ANSWERED
  }

  // biome-ignore format: a table
  const table = [
    //                   request  upgrade  expectation  forward-auth
    [readNamed,          NO,      NO,      NO,          YES],
    [matchPlain,         YES,     YES,     YES,         YES],
    [limitRate,          YES,     YES,     YES,         YES],
    [matchUnusual,       YES,     YES,     YES,         YES],
    [checkCertificate,   YES,     YES,     YES,         YES],
    [matchDestination,   YES,     NO,      YES,         YES],
    [checkAddress,       YES,     YES,     YES,         YES],
    [preflight,          YES,     NO,      YES,         YES],
    [readOffer,          NO,      YES,     NO,          NO ],
    [authenticate,       YES,     YES,     YES,         YES],
    [limitRoute,         YES,     YES,     YES,         YES],
    [authorize,          YES,     YES,     YES,         YES],
    [refuseExpectation,  NO,      NO,      YES,         NO ],
    [endForwards,        YES,     NO,      NO,          NO ],
    [switchProtocols,    NO,      YES,     NO,          NO ],
    [answerOrForward,    YES,     YES,     NO,          NO ],
    [answerProxy,        NO,      NO,      NO,          YES]
  ] as const
  return {
    request: column(table, 1),
    upgrade: column(table, 2),
    expectation: column(table, 3),
    forwardAuth: column(table, 4)
  }
}

export const buildApp = (parts: AppParts): HttpServer => {
  const steps = createSteps(parts)
  const refuse = (exchange: Exchange, error: GatewayError) => {
    if (exchange.forwardAuth === undefined) answerRefusal(exchange, error, parts.answers)
    else refuseForwardAuth(exchange, error, parts.answers)
    if (exchange.limit?.allowed === false) exchange.response.endSoon()
  }

  /** Runs the steps in order, synchronously unless one of them has to wait. */
  const run = (steps: readonly Step[], exchange: Exchange, from: number): void => {
    try {
      for (let i = from; i < steps.length; i++) {
        const outcome = steps[i]?.(exchange)
        if (outcome === undefined) continue
        if (outcome instanceof Promise) goOn(outcome, steps, exchange, i + 1)
        else if (outcome !== ANSWERED) refuse(exchange, outcome)
        return
      }
    } catch (error) {
      exchange.onThrown(error)
    }
  }

  const goOn = (waits: Promise<Outcome>, steps: readonly Step[], exchange: Exchange, from: number) => {
    waits
      .then(outcome => {
        if (outcome === undefined) run(steps, exchange, from)
        else if (outcome !== ANSWERED) refuse(exchange, outcome)
      })
      .catch(error => exchange.onThrown(error))
  }

  const hooks = {
    onClosed: parts.observe,
    onThrown: (exchange: Exchange, error: unknown) => refuse(exchange, asGatewayError(error)),
    onBodyFault: (exchange: Exchange) => refuse(exchange, new BadRequest({ reason: 'malformed-body' }))
  }

  const onRequest = (request: HttpRequest) => {
    const exchange = new Exchange(request, parts.clientAddress, hooks)
    parts.onOpen?.(exchange)
    if (isForwardAuth(request)) return run(steps.forwardAuth, exchange, 0)
    if (expectsMore(request)) return run(steps.expectation, exchange, 0)
    exchange.awaitsContinue = request.head.expect !== undefined && request.versionMinor > 0
    run(asksUpgrade(request) ? steps.upgrade : steps.request, exchange, 0)
  }

  return createHttpServer({
    ...(parts.clientStallMs === undefined ? {} : { limits: { stallMs: parts.clientStallMs } }),
    handler: {
      onRequest,
      /** What is no request counts like any other, but never for a proxy, which may have passed it on for anyone. */
      onFault({ peer, isTls, isHttp2 }, fault, response) {
        const { clientAddress, limiter, rateLimit } = parts
        const { key, address } = clientAddress(peer, undefined)
        const verdict = clientAddress.trusted(peer)
          ? undefined
          : limiter.take('global', key, rateLimit.max, rateLimit.windowMs)
        const limit = verdict instanceof Promise ? undefined : verdict
        const error = limit?.allowed === false ? overLimit(limit) : new FAULTS[fault]({ reason: fault })
        const requestId = randomUUID()
        if (response !== undefined) answerFault(response, error, { limit, requestId }, isTls, parts.answers)
        if (limit?.allowed === false) response?.endSoon()
        parts.observeFault({
          error,
          requestId,
          status: response?.status,
          protocol: isHttp2 ? 'h2' : undefined,
          ip: address
        })
      }
    }
  })
}
