// A small world for sockets: real tokens, revocations, streams and relays behind a bare listener, upstreams of the test's own.
import net, { type AddressInfo } from 'node:net'
import { originAllowed } from '../../gateway/access/origin.ts'
import { socketToken } from '../../gateway/access/socket-token.ts'
import {
  BadOrigin,
  BadRequest,
  Forbidden,
  GatewayError,
  Internal,
  NoRoute,
  Unauthenticated
} from '../../gateway/errors.ts'
import { createOpenStreams, type FreshAccess } from '../../gateway/forward/open-streams.ts'
import type { StreamShares } from '../../gateway/forward/stream-places.ts'
import { Exchange } from '../../gateway/http/exchange.ts'
import { createFloodMemory } from '../../gateway/http/flood-memory.ts'
import { fieldValues, type HttpRequest } from '../../gateway/http/server/request.ts'
import type { User } from '../../gateway/identity.ts'
import { decide } from '../../gateway/routes/decide.ts'
import type { Route } from '../../gateway/routes/route.ts'
import { createForwardSocketIo } from '../../gateway/socketio/forward.ts'
import { streamRoute } from '../../gateway/socketio/namespaces.ts'
import type { SocketIoForwarding } from '../../gateway/socketio/sessions.ts'
import { createMemorySidStore, type SidStore } from '../../gateway/socketio/sid-store.ts'
import { createAccessTokens } from '../../gateway/tokens/access-token.ts'
import { createPersonalTokens } from '../../gateway/tokens/personal-tokens.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { createVerifiedTokens } from '../../gateway/tokens/verified-tokens.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { upstreamHeadStart } from '../../gateway/upstream/headers/upstream-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { createForwardWebSocket, type SocketForwarding } from '../../gateway/websocket/forward.ts'
import { createRelays, type RelayTimes } from '../../gateway/websocket/relay.ts'
import { startListener } from './http-listener.ts'

import { person } from './routes.ts'

interface Teardown {
  teardown(fn: () => unknown): unknown
}

export const SECRET = 'a secret for socket tests, long enough'

export interface HarnessOptions {
  routes: Route[]
  times?: Partial<RelayTimes>
  shares?: StreamShares
  freshAccess?: FreshAccess
  sidStore?: SidStore
  now?: () => number
  monotonic?: () => number
  socketio?: Partial<SocketIoForwarding['limits']>
}

export const startHarness = async (t: Teardown, options: HarnessOptions) => {
  const now = options.now ?? Date.now
  let routes = options.routes
  const tokens = createAccessTokens({ secret: SECRET, previousSecrets: [], expiresInMs: 3_600_000, now })
  const revocations = createRevocations(now)
  const verified = createVerifiedTokens({
    tokens,
    revocations,
    personalTokens: createPersonalTokens({ revocations, confirmMs: 1e9 }),
    now
  })
  const mayPass = (route: Route, user: User) =>
    decide({ route, path: route.path }, { user }, { cloudUnassignedMayPass: false }).decision === 'allow'
  const routeFor = (path: string) => routes.find(route => path === route.path || path.startsWith(route.path))
  const streams = createOpenStreams({
    revocations,
    freshAccess: options.freshAccess ?? (async () => undefined),
    mayPass,
    now,
    shares: options.shares,
    rejudge(stream) {
      const route = routeFor(stream.path)
      const governed = route && streamRoute(route, stream.namespace)
      if (governed === undefined || stream.identity === undefined) return governed
      return mayPass(governed, stream.identity.user) ? governed : undefined
    }
  })
  revocations.onChange(() => streams.onRevocationsChanged())
  const relays = createRelays({
    ...(options.monotonic === undefined ? {} : { now: options.monotonic }),
    ...(options.times === undefined ? {} : { times: options.times })
  })
  const upstreams = createUpstreams()
  const refusals: GatewayError[] = []
  const refuse = (exchange: Exchange, error: GatewayError) => {
    refusals.push(error)
    const { response } = exchange
    if (response.hasBegun) return response.abort()
    const text = error.bodyText(exchange.requestId)
    const headers = [...Object.entries(error.headers).flat(), 'content-type', 'application/json']
    response.whole({ status: error.statusCode, headers: [...headers, 'content-length', String(text.length)] }, text)
  }
  const forwarding: SocketForwarding = {
    relays,
    streams,
    headStart: (exchange, _route, authority, without) =>
      upstreamHeadStart({
        exchange,
        fieldKinds: new Map(),
        target: exchange.path + exchange.query,
        authority,
        forwarded: { for: '127.0.0.1', proto: 'http', host: 'gateway.test', prefix: '' },
        passAuthorization: false,
        cookie: exchange.head.cookie,
        rules: undefined,
        assertion: '',
        without
      }),
    addedHeaders: exchange => ['x-request-id', exchange.requestId],
    responseContext: createResponseContext(new Set(), createFloodMemory()),
    refuse,
    onSwitched: () => undefined,
    log: { info: () => undefined, warn: () => undefined }
  }
  const forwardWebSocket = createForwardWebSocket(forwarding)
  const socketio = createForwardSocketIo({
    ...forwarding,
    upstreams,
    sidStore: options.sidStore ?? createMemorySidStore(now),
    identify: token => verified.identify(token),
    judge: (route, user) => {
      const decision = decide({ route, path: route.path }, { user }, { cloudUnassignedMayPass: false })
      return decision.decision === 'allow' ? undefined : new Forbidden({ reason: decision.reason })
    },
    countRefusedEvent: () => undefined,
    ownHeaders: exchange => ['x-request-id', exchange.requestId],
    pollHeaders: exchange => ['x-request-id', exchange.requestId],
    ...(options.socketio === undefined ? {} : { limits: options.socketio }),
    now
  })

  const hooks = { onClosed: () => undefined, onBodyFault: (exchange: Exchange) => refuse(exchange, new BadRequest()) }
  const open = (request: HttpRequest) => {
    const clientAddress = Object.assign(() => ({ address: '127.0.0.1', key: '127.0.0.1' }), { trusted: () => false })
    const exchange = new Exchange(request, clientAddress, hooks)
    const [path = '', ...query] = request.target.split('?')
    exchange.path = path
    exchange.query = query.length === 0 ? '' : `?${query.join('?')}`
    return exchange
  }
  const guarded = (exchange: Exchange, pass: () => void) => {
    try {
      pass()
    } catch (error) {
      refuse(exchange, error instanceof GatewayError ? error : new Internal({ cause: error }))
    }
  }
  const onUpgrade = (exchange: Exchange) => {
    exchange.response.keepAlive = false
    const route = routeFor(exchange.path)
    if (route?.upstream === undefined) throw new NoRoute()
    if (route.socketio !== undefined) return socketio.onUpgrade(exchange, route, route.upstream)
    const found = socketToken(exchange, route)
    exchange.query = found.query
    const allowed = ['http://gateway.test', ...(route.websocket?.origins ?? [])]
    const sent = fieldValues(exchange.request.fields, 'origin')
    if (!originAllowed({ sent, allowed, byCookie: false })) throw new BadOrigin()
    if (!route.public) {
      if (found.token === undefined) throw new Unauthenticated({ reason: 'no-token' })
      exchange.identity = verified.identify(found.token)
      if (!mayPass(route, exchange.identity.user)) throw new Forbidden()
    }
    forwardWebSocket(exchange, route, route.upstream, found)
  }
  const { port } = await startListener(t, request => {
    const exchange = open(request)
    guarded(exchange, () => {
      if (request.head.upgrade?.toLowerCase() === 'websocket') return onUpgrade(exchange)
      const route = routeFor(exchange.path)
      if (route?.upstream === undefined || route.socketio === undefined) throw new NoRoute()
      socketio.onRequest(exchange, route, route.upstream)
    })
  })
  t.teardown(() => {
    relays.close()
    socketio.close()
    streams.close()
    upstreams.close()
  })
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    ws: `ws://127.0.0.1:${port}`,
    tokens,
    revocations,
    verified,
    streams,
    relays,
    socketio,
    refusals,
    swapRoutes(next: Route[]) {
      routes = next
      streams.onTableSwapped()
    },
    tokenFor: (user: Partial<User> = {}, version = 0) => tokens.issue(person(user), version)
  }
}

export type Harness = Awaited<ReturnType<typeof startHarness>>

/** A server for raw upstream behaviour; every socket is tracked. */
export const startRawUpstream = async (t: Teardown, onConnection: (socket: net.Socket) => void) => {
  const sockets = new Set<net.Socket>()
  const server = net.createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    onConnection(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, sockets, server }
}

/** Resolves when the condition holds; fails loudly when it does not within the time given. */
export const until = async (condition: () => boolean, what: string, ms = 5000): Promise<void> => {
  const deadline = performance.now() + ms
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`never: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}
