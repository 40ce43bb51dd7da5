// Forwards allowed traffic to the backends: requests, event streams, WebSocket and Socket.IO; all open streams in one place.
import { createCheckAgain } from './access/authenticate.ts'
import type { Credentials } from './access/credentials.ts'
import { withoutPublicTokens } from './access/socket-token.ts'
import { orThrow, Unauthenticated, Unavailable } from './errors.ts'
import { createForwardHttp, createPassResponse } from './forward/forward-http.ts'
import { createOpenStreams } from './forward/open-streams.ts'
import { createStreamRights } from './forward/stream-rights.ts'
import { crossOriginFields } from './http/cross-origin.ts'
import type { Exchange, SocketToken } from './http/exchange.ts'
import { headerLines } from './http/http1/response.ts'
import { addedHeaders, forwardedLines } from './http/own-responses.ts'
import type { Observation } from './observe/observation.ts'
import type { LiveRoutes } from './route-files/live.ts'
import { isSocketIo, type Route, type RouteTable } from './routes/route.ts'
import type { Upstream } from './routes/upstream.ts'
import type { Settings } from './settings/settings.ts'
import { createForwardSocketIo } from './socketio/forward.ts'
import { createRefusedEvents } from './socketio/gate/refused-events.ts'
import { createRecoveryIds } from './socketio/recovery-ids.ts'
import type { TokenParts } from './start-tokens.ts'
import type { Stores } from './stores.ts'
import { createResponseContext } from './upstream/headers/client-head.ts'
import { createUpstreamHeads } from './upstream/headers/upstream-head.ts'
import type { Upstreams } from './upstream/upstreams.ts'
import { mayComeFrom } from './values/addresses.ts'
import type { Log } from './values/log.ts'
import { createRelays } from './websocket/relay.ts'
import { createForwardWebSocket } from './websocket/upgrade.ts'

export interface ForwardingParts {
  readonly settings: Settings
  readonly stores: Stores
  readonly tokenParts: TokenParts
  readonly credentials: Credentials
  readonly upstreams: Upstreams
  readonly routes: LiveRoutes
  readonly cloudUnassignedMayPass: boolean
  readonly observation: Observation
  readonly log: Log
}

export type Forwarding = ReturnType<typeof createForwarding>

export const createForwarding = (parts: ForwardingParts) => {
  const { settings, stores, tokenParts, upstreams, routes, cloudUnassignedMayPass, log } = parts
  const { ownCookies, answers, refuse } = parts.credentials
  const responseContext = createResponseContext(ownCookies)
  const heads = createUpstreamHeads({
    tokens: tokenParts.tokens,
    assertions: tokenParts.assertions,
    ownCookies
  })
  const rights = createStreamRights(routes.current, { cloudUnassignedMayPass })
  const streams = createOpenStreams({
    ...rights,
    instance: stores.instances.id,
    shares: settings.streamShares,
    revocations: tokenParts.revocations,
    isUnconfirmed: tokenParts.personalTokens.isUnconfirmed,
    ...(settings.jwt.sessionMaxMs > settings.jwt.expiresInMs && { renewedUntil: stores.liveLogins.liveUntil }),
    async freshAccess(ids) {
      const people = await stores.users.loadPeople(ids)
      return new Map(people.filter(({ disabled }) => !disabled).map(person => [person.user.id, person]))
    }
  })
  tokenParts.revocations.onChange(streams.onRevocationsChanged)
  const relays = createRelays()
  const http = {
    upstreams,
    headFor: heads.whole,
    linesFor: (exchange: Exchange, passed: string) => forwardedLines(exchange, passed, answers),
    responseContext,
    checkAgain: createCheckAgain({ ...tokenParts, check: rights.check }),
    refuse,
    streams,
    maxBodyBytes: settings.maxBodyBytes
  }
  const sockets = {
    upstreams,
    relays,
    streams,
    headStart: heads.start,
    responseContext,
    passResponse: createPassResponse(http),
    refuse,
    log,
    onSwitched(exchange: Exchange) {
      exchange.upgraded = true
      // An upgrade has been answered: reported once, because no response will report it.
      parts.observation.onClose(exchange)
    }
  }
  const forwardWebSocket = createForwardWebSocket(sockets)
  const refusedEvents = createRefusedEvents()
  const socketio = createForwardSocketIo({
    ...sockets,
    check: rights.check,
    countRefusedEvent: refusedEvents.count,
    countRefusal: parts.observation.onRefusal,
    pollHeaders: (exchange, passed) => [
      ...addedHeaders(exchange),
      ...crossOriginFields(exchange, headerLines(passed), answers.origins)
    ],
    recoveryIds: createRecoveryIds([settings.jwt.secret, ...settings.jwt.previousSecrets]),
    instances: stores.redis === undefined ? undefined : stores.instances,
    routeNow({ route, path, hostName }) {
      const now = routes.current().match('GET', path, hostName).route
      return now !== undefined && isSocketIo(now) ? now : route
    },
    identify(token, ip) {
      if (!tokenParts.revocationsTrusted()) throw new Unavailable({ reason: 'revocations-too-old' })
      const identity = orThrow(tokenParts.verifiedTokens.check(token))
      if (!mayComeFrom(identity.addresses, ip)) throw new Unauthenticated({ reason: 'foreign-address' })
      return identity
    },
    now: () => performance.now()
  })

  return {
    streams,
    /** A new route table is in use. */
    onTable(table: RouteTable) {
      streams.onTableSwapped()
      refusedEvents.retain(table)
    },
    /** Socket.IO events refused, by route and namespace. */
    refusedEvents: refusedEvents.list,
    forwardHttp: createForwardHttp(http),
    forwardUpgrade(exchange: Exchange, route: Route, upstream: Upstream, offer: SocketToken) {
      if (isSocketIo(route)) return socketio.onUpgrade(exchange, route, upstream)
      forwardWebSocket(exchange, route, upstream, withoutPublicTokens(offer, exchange, tokenParts.tokens.isOurs))
    },
    forwardPolling: socketio.onRequest,
    /** Closes everything with 1012, spread over the given time. */
    async drain(timeoutMs: number) {
      socketio.drain()
      await streams.drain(timeoutMs)
      socketio.close()
      relays.close()
      streams.close()
    }
  }
}
