// Registers WebSocket, Socket.IO and event streams in one place, so that each ends with the right that it was opened by.
import { Forbidden, GatewayError, Unassigned, Unauthenticated, Unavailable } from './errors.ts'
import { createOpenStreams, type FreshAccess, type OpenStream } from './forward/open-streams.ts'
import type { StreamShares } from './forward/stream-places.ts'
import { type AnswerOptions, addedHeaders, asGatewayError, ownHeaders } from './http/answer.ts'
import { crossOriginFields } from './http/cross-origin.ts'
import type { Exchange, SocketToken } from './http/exchange.ts'
import type { User } from './identity.ts'
import type { RedisStore } from './redis/redis.ts'
import { decide } from './routes/decide.ts'
import type { Route, RouteTable, Upstream } from './routes/route.ts'
import { createForwardSocketIo } from './socketio/forward.ts'
import { streamRoute } from './socketio/namespaces.ts'
import { createMemorySidStore } from './socketio/sid-store.ts'
import { createRedisSidStore } from './socketio/sid-store-redis.ts'
import type { AccessTokens } from './tokens/access-token.ts'
import { holdsOwnToken } from './tokens/own-tokens.ts'
import type { Revocations } from './tokens/revocations.ts'
import { isFromElsewhere } from './tokens/token-addresses.ts'
import type { VerifiedTokens } from './tokens/verified-tokens.ts'
import type { ResponseContextOf } from './upstream/headers/client-head.ts'
import { upstreamHeadStart } from './upstream/headers/upstream-head.ts'
import type { createUpstreamRequest } from './upstream/headers/upstream-request.ts'
import type { Upstreams } from './upstream/upstreams.ts'
import { ownText } from './values/own-text.ts'
import { createForwardWebSocket, type SocketLog } from './websocket/forward.ts'
import { createRelays } from './websocket/relay.ts'

interface SocketParts {
  routes: () => RouteTable
  revocations: Revocations
  verifiedTokens: VerifiedTokens
  tokens: Pick<AccessTokens, 'isOurs'>
  revocationsTrusted: () => boolean
  freshAccess: FreshAccess
  /** What of an upstream's streams one person and one address may hold. */
  streamShares: StreamShares
  cloudUnassignedMayPass: boolean
  redis: RedisStore | undefined
  upstreams: Upstreams
  upstreamRequest: ReturnType<typeof createUpstreamRequest>
  responseContext: ResponseContextOf
  answers: AnswerOptions
  refuse: (exchange: Exchange, error: GatewayError) => void
  log: SocketLog
  /** An upgrade has been answered: told once, where no response will tell. */
  onSwitched: (exchange: Exchange) => void
}

interface RefusedEvents {
  readonly route: string
  readonly namespace: string
  readonly count: number
}

/** A token of ours among the subprotocols, without `bearer` before it, reaches no backend of a public route. */
const withoutTokens = (offer: SocketToken, { isOurs }: Pick<AccessTokens, 'isOurs'>): SocketToken => ({
  ...offer,
  subprotocols: offer.subprotocols.filter(protocol => !holdsOwnToken(protocol, isOurs))
})

export type Sockets = ReturnType<typeof createSockets>

export const createSockets = (parts: SocketParts) => {
  const { cloudUnassignedMayPass, revocations, routes } = parts

  const judge = (route: Route, user: User): GatewayError | undefined => {
    const { decision, code, reason } = decide({ route, path: route.path }, { user }, { cloudUnassignedMayPass })
    if (decision === 'allow') return undefined
    return code === Unassigned.code ? new Unassigned({ reason }) : new Forbidden({ reason })
  }
  const mayPass = (route: Route, user: User) => judge(route, user) === undefined

  /** What governs an open stream after the route files have changed. */
  const rejudge = ({ path, namespace, identity }: OpenStream): Route | undefined => {
    const { route } = routes().match('GET', path)
    const governing = route === undefined ? undefined : streamRoute(route, namespace)
    if (governing === undefined) return undefined
    if (identity === undefined) return governing.public ? governing : undefined
    return mayPass(governing, identity.user) ? governing : undefined
  }

  const streams = createOpenStreams({
    shares: parts.streamShares,
    revocations,
    freshAccess: parts.freshAccess,
    mayPass,
    rejudge
  })
  revocations.onChange(() => streams.onRevocationsChanged())
  const relays = createRelays()
  const forwarding = {
    relays,
    streams,
    headStart: (exchange: Exchange, route: Route, authority: string, without: ReadonlySet<string>) =>
      upstreamHeadStart({ ...parts.upstreamRequest(exchange, route, authority, exchange.query), without }),
    addedHeaders,
    responseContext: parts.responseContext,
    refuse: parts.refuse,
    log: parts.log,
    onSwitched(exchange: Exchange) {
      exchange.upgraded = true
      parts.onSwitched(exchange)
    }
  }
  /** By route and namespace as the route files name them: as many keys as the files have. */
  const refusedEvents = new Map<string, number>()
  const forwardWebSocket = createForwardWebSocket(forwarding)
  const socketio = createForwardSocketIo({
    ...forwarding,
    upstreams: parts.upstreams,
    pollHeaders: (exchange, passed) => [
      ...addedHeaders(exchange),
      ...crossOriginFields(exchange, passed, parts.answers.origins)
    ],
    sidStore: parts.redis === undefined ? createMemorySidStore() : createRedisSidStore(parts.redis),
    identify(token, ip) {
      if (!parts.revocationsTrusted()) throw new Unavailable({ reason: 'revocations-too-old' })
      const identity = parts.verifiedTokens.identify(token)
      if (isFromElsewhere(identity, ip)) throw new Unauthenticated({ reason: 'foreign-address' })
      return identity
    },
    judge,
    countRefusedEvent(route, namespace) {
      const key = JSON.stringify([route, namespace])
      refusedEvents.set(key, (refusedEvents.get(key) ?? 0) + 1)
    },
    ownHeaders: exchange => ownHeaders(exchange, parts.answers),
    now: Date.now
  })

  const registerEventStream = (
    exchange: Exchange,
    upstream: Upstream,
    end: () => void
  ): (() => void) | GatewayError => {
    const { route, path, identity, requestId, client } = exchange
    if (route === undefined) return () => undefined
    const leave = streams.admit({ upstream, userId: identity?.user.id, ip: client.key })
    if (leave instanceof GatewayError) return leave
    const info = {
      kind: 'sse' as const,
      identity,
      route,
      path: ownText(path),
      requestId: ownText(requestId),
      ip: client.address
    }
    try {
      const { close } = streams.register(info, { end, destroy: end })
      return () => {
        close()
        leave()
      }
    } catch (error) {
      leave()
      return asGatewayError(error)
    }
  }

  const forwardUpgrade = (exchange: Exchange, route: Route, upstream: Upstream, offer: SocketToken) => {
    if (route.socketio !== undefined) return socketio.onUpgrade(exchange, route, upstream)
    forwardWebSocket(
      exchange,
      route,
      upstream,
      exchange.identity === undefined ? withoutTokens(offer, parts.tokens) : offer
    )
  }

  return {
    streams,
    /** Socket.IO events refused, by route and namespace. */
    refusedEvents: (): RefusedEvents[] =>
      Array.from(refusedEvents, ([key, count]) => {
        const [route, namespace] = JSON.parse(key) as [string, string]
        return { route, namespace, count }
      }),
    forwardUpgrade,
    forwardPolling: socketio.onRequest,
    registerEventStream,
    onTableSwapped: () => streams.onTableSwapped(),
    /** Closes everything with 1012, spread over the time given. */
    async drain(timeoutMs: number) {
      await streams.drain(timeoutMs)
      socketio.close()
      relays.close()
      streams.close()
    }
  }
}
