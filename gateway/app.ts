// The way of a request through the gateway: match → count → authenticate → count by route → authorize → answer or forward.
import http, { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type Authentication, createAuthenticate } from './access/authenticate.ts'
import { createAuthorize, type RefusalText } from './access/authorize.ts'
import { createLimitRate, createLimitRoute } from './access/limit-rate.ts'
import { createMatchRoute, preflightMethod } from './access/match-route.ts'
import { originAllowed } from './access/origin.ts'
import { socketToken } from './access/socket-token.ts'
import { BadOrigin, ExpectationFailed, type GatewayError, Unauthenticated } from './errors.ts'
import { type AnswerOptions, answerPreflight, answerRefusal, asGatewayError, isClosing } from './http/answer.ts'
import type { ClientAddressOf } from './http/client-address.ts'
import { createExchange, type Exchange, type SocketToken } from './http/exchange.ts'
import { answerParserError } from './http/parser-errors.ts'
import { CLIENT_STALL_MS, cutStalledClients } from './http/stalled-clients.ts'
import { CLIENT_KEEP_ALIVE_MS } from './http/whole-answer.ts'
import type { Limiter } from './limits/limiter.ts'
import type { DecideOptions } from './routes/decide.ts'
import type { Route, RouteTable, Upstream } from './routes/route.ts'
import type { RateLimit } from './settings/settings.ts'

interface AppParts {
  clientAddress: ClientAddressOf
  routes: () => RouteTable
  limiter: Limiter
  rateLimit: RateLimit
  authentication: Authentication
  authorization: DecideOptions & RefusalText
  answers: AnswerOptions
  /** The gateway's own endpoints. */
  answerOwn: (exchange: Exchange) => void
  forwardHttp: (exchange: Exchange, route: Route, upstream: Upstream) => void
  /** Takes over an upgrade that may pass; whatever it refuses it answers through the exchange. */
  forwardUpgrade: (
    exchange: Exchange,
    route: Route,
    upstream: Upstream,
    socket: Duplex,
    head: Buffer,
    offer: SocketToken
  ) => void
  /** Origins whose pages may open sockets on any route (RFC 6455 §10.2). */
  socketOrigins: readonly string[]
  /** The HTTP side of a Socket.IO route. */
  forwardPolling: (exchange: Exchange, route: Route, upstream: Upstream) => void
  /** Told of each exchange before its first step. */
  onOpen?: ((exchange: Exchange) => void) | undefined
  /** Told once per exchange, when its answer has left or its client is gone. */
  observe: (exchange: Exchange) => void
  /** How long a client may take nothing of an answer; milliseconds. */
  clientStallMs?: number | undefined
}

interface App {
  readonly server: Server
  refuse(exchange: Exchange, error: GatewayError): void
}

const SERVER_OPTIONS: http.ServerOptions = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 15_000,
  // Bodies are timed where they are read: a large upload may well take longer than any one number.
  requestTimeout: 0,
  connectionsCheckingInterval: 2000,
  keepAliveTimeout: CLIENT_KEEP_ALIVE_MS,
  insecureHTTPParser: false,
  // Answered by match-route, in our own shape, and counted.
  requireHostHeader: false,
  // A request without a body has an ended stream from the start: no events, no ticks.
  optimizeEmptyRequests: true,
  noDelay: true
}

/** A refusal is returned rather than thrown: under a flood that is a good part of what it costs. */
type Refused = GatewayError | undefined
type Step = (exchange: Exchange) => Refused | Promise<Refused>

export const buildApp = (parts: AppParts): App => {
  const matchRoute = createMatchRoute(parts.routes)
  const limitRate = createLimitRate(parts.limiter, parts.rateLimit)
  const authenticate = createAuthenticate(parts.authentication)
  const limitRoute = createLimitRoute(parts.limiter)
  const authorize = createAuthorize(parts.authorization)

  const refuse = (exchange: Exchange, error: GatewayError) => answerRefusal(exchange, error, parts.answers)

  /** Bad paths and heads were recorded by match-route; they are refused only now, when they have been counted. */
  const refuseRecorded: Step = exchange => exchange.refusal

  /** CORS preflights to private routes are answered here, to public ones forwarded like any request. */
  const isPreflight = (exchange: Exchange): boolean => {
    if (preflightMethod(exchange) === undefined) return false
    const { route, head } = exchange
    if (route?.public === true && route.upstream !== undefined) return false
    if (route === undefined || head.origin !== parts.answers.corsOrigin)
      throw new Unauthenticated({ reason: 'preflight' })
    return true
  }

  /** Runs the steps in order, without a turn of the event loop unless one of them has to wait. */
  const STEPS: readonly Step[] = [limitRate, refuseRecorded]
  const AFTER_PREFLIGHT: readonly Step[] = [authenticate, limitRoute, authorize]

  const run = (steps: readonly Step[], exchange: Exchange, then: (exchange: Exchange) => void, from = 0): void => {
    try {
      for (let i = from; i < steps.length; i++) {
        const refused = steps[i]?.(exchange)
        if (refused === undefined) continue
        if (refused instanceof Promise) goOn(refused, steps, exchange, then, i + 1)
        else refuse(exchange, refused)
        return
      }
      then(exchange)
    } catch (error) {
      refuse(exchange, asGatewayError(error))
    }
  }

  const goOn = (
    waits: Promise<Refused>,
    steps: readonly Step[],
    exchange: Exchange,
    then: (exchange: Exchange) => void,
    from: number
  ) => {
    waits.then(
      refused => {
        if (refused === undefined) run(steps, exchange, then, from)
        else refuse(exchange, refused)
      },
      error => refuse(exchange, asGatewayError(error))
    )
  }

  const admit = (exchange: Exchange, pass: (exchange: Exchange) => void) => {
    matchRoute(exchange)
    run(STEPS, exchange, counted => {
      if (isPreflight(counted)) answerPreflight(counted, parts.answers)
      else run(AFTER_PREFLIGHT, counted, pass)
    })
  }

  /** An upgrade's token may stand in more places than Authorization, and its page must be one that may open sockets. */
  const readOffer: Step = exchange => {
    const { route, req, head } = exchange
    if (route === undefined) return undefined
    exchange.offer = socketToken(exchange, route)
    exchange.query = exchange.offer.query
    const allowed = [...parts.socketOrigins, ...(route.websocket?.origins ?? [])]
    const sent = req.headersDistinct.origin ?? []
    const isAllowed = originAllowed({ sent, allowed, byCookie: head.cookie !== undefined })
    return isAllowed ? undefined : new BadOrigin({ reason: 'origin' })
  }
  const UPGRADE_STEPS: readonly Step[] = [limitRate, refuseRecorded, readOffer, authenticate, limitRoute, authorize]

  const answerOrForward = (exchange: Exchange) => {
    const { route, res } = exchange
    // Gone while a step waited: nothing is to be asked of anybody.
    if (route === undefined || res.destroyed) return
    if (route.upstream === undefined) parts.answerOwn(exchange)
    else if (route.socketio === undefined) parts.forwardHttp(exchange, route, route.upstream)
    else parts.forwardPolling(exchange, route, route.upstream)
  }

  const open = (req: IncomingMessage, res: ServerResponse): Exchange => {
    const exchange = createExchange(req, res, parts.clientAddress)
    parts.onOpen?.(exchange)
    res.on('close', () => {
      exchange.underway?.abort()
      parts.observe(exchange)
    })
    return exchange
  }

  /** Behind the answers that leave at the end of this turn. */
  const closeSoon = (socket: Socket): void => void setImmediate(() => socket.destroy())

  const onRequest = (req: IncomingMessage, res: ServerResponse) => {
    if (isClosing(req.socket)) return closeSoon(req.socket)
    admit(open(req, res), answerOrForward)
  }

  const onContinue = (req: IncomingMessage, res: ServerResponse) => {
    if (isClosing(req.socket)) return closeSoon(req.socket)
    const exchange = open(req, res)
    exchange.awaitsContinue = true
    admit(exchange, answerOrForward)
  }

  const onExpectation = (req: IncomingMessage, res: ServerResponse) => {
    admit(open(req, res), exchange => refuse(exchange, new ExpectationFailed({ reason: 'expectation' })))
  }

  const onUpgrade = (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    const res = new ServerResponse(req)
    res.shouldKeepAlive = false
    res.assignSocket(socket as Socket)
    res.on('finish', () => socket.end())
    socket.on('error', () => socket.destroy())
    const exchange = open(req, res)
    matchRoute(exchange)
    run(UPGRADE_STEPS, exchange, ({ route, offer }) => {
      if (route?.upstream === undefined || offer === undefined || res.destroyed) socket.destroy()
      else parts.forwardUpgrade(exchange, route, route.upstream, socket, head, offer)
    })
  }

  /** Only what will be treated as an upgrade is one; h2c and the like go on as the HTTP/1.1 requests they are (RFC 9110 §7.8). */
  const shouldUpgrade = (req: IncomingMessage): boolean => {
    if (req.headers.upgrade?.toLowerCase() !== 'websocket' || req.method !== 'GET') return false
    // Behind an answer that is still due there is no socket to hand over: an ordinary request, like any pipelined one.
    if ('_httpMessage' in req.socket && req.socket._httpMessage !== null) return false
    const path = (req.url ?? '').split('?', 1)[0] ?? ''
    const { route } = parts.routes().match('GET', path)
    return route?.websocket !== undefined || route?.socketio !== undefined
  }

  const server = http.createServer({ ...SERVER_OPTIONS, shouldUpgradeCallback: shouldUpgrade })
  cutStalledClients(server, parts.clientStallMs ?? CLIENT_STALL_MS)
  server.on('request', onRequest)
  server.on('checkContinue', onContinue)
  server.on('checkExpectation', onExpectation)
  server.on('upgrade', onUpgrade)
  server.on('clientError', (error: Error, socket: Duplex) =>
    answerParserError(error, socket, parts.limiter, parts.rateLimit, parts.clientAddress, parts.answers)
  )
  return { server, refuse }
}
