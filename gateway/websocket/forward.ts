// Forwards an authorised upgrade as a WebSocket between client and upstream, or refuses it in plain HTTP before any 101.

import type { Duplex } from 'node:stream'
import { BadUpstreamResponse, GatewayError, Internal } from '../errors.ts'
import {
  END_REASONS,
  type OpenStreams,
  type StreamControl,
  type StreamEnd,
  type StreamInfo
} from '../forward/open-streams.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Takeover } from '../http/server/request.ts'
import type { Route, Target, Upstream } from '../routes/route.ts'
import { upstreamRefusal } from '../upstream/faults.ts'
import { clientHead, type ResponseContextOf } from '../upstream/headers/client-head.ts'
import { healthOf, healthyFirst } from '../upstream/health.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import { ownText } from '../values/own-text.ts'
import { dialWebSocket, type OpenUpstream } from './dial.ts'
import { clientSwitch, HANDSHAKE_FIELDS, judgeClientHandshake, refusedFields } from './handshake.ts'
import type { Ending, Side } from './leg.ts'
import type { Relay, RelayOptions, Relays } from './relay.ts'

export interface SocketForwarding {
  readonly relays: Relays
  readonly streams: OpenStreams
  /** Request line and fields for a target with this Host value, without the given names (lower case) and the empty line. */
  readonly headStart: (
    exchange: Exchange,
    route: Route,
    authority: string,
    without: ReadonlySet<string>,
    framing?: string
  ) => string
  /** `[name, value, …]` on every response. */
  readonly addedHeaders: (exchange: Exchange) => readonly string[]
  readonly responseContext: ResponseContextOf
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** The 101 has been sent: the exchange is over, and the stream has begun. */
  readonly onSwitched: (exchange: Exchange) => void
  readonly log: SocketLog
}

export interface SocketLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
}

/** Logs why a connection that violated the protocol or a limit is being closed; at level warn if a backend did so. */
export const faultLog =
  ({ log }: SocketForwarding, { requestId, route }: Pick<StreamInfo, 'requestId' | 'route'>) =>
  (from: Side, { code, reason }: Ending) => {
    const fields = { requestId, route: route.id, upstream: route.upstream?.name, side: from, code, reason }
    if (from === 'upstream') log.warn(fields, 'closed a socket because of what its upstream sent')
    else log.info(fields, 'closed a socket because of what its client sent')
  }

interface Offer {
  readonly subprotocols: readonly string[]
  /** Respond with `bearer` if the upstream selected none of the others. */
  readonly bearerOffered: boolean
}

const endingOf = (code: StreamEnd): Ending => ({ code, reason: END_REASONS[code] })

export interface UpgradeRequest {
  readonly exchange: Exchange
  readonly route: Route
  readonly upstream: Upstream
  readonly targets: readonly Target[]
  readonly offer: Offer
}

/**
 * Dials the targets one after the other until one can be reached, and passes on what it opened; refusals of either side are
 * answered here. `onOpen` may throw a refusal, because the client has received nothing yet; otherwise `onGivenUp` is called.
 */
export const openUpstream = (
  forwarding: SocketForwarding,
  request: UpgradeRequest,
  onOpen: (open: OpenUpstream, target: Target) => void,
  onGivenUp: () => void
) => {
  const { exchange, route, upstream, targets, offer } = request
  let attempt = 0
  const giveUp = (error: GatewayError) => {
    exchange.underway = undefined
    onGivenUp()
    forwarding.refuse(exchange, error)
  }
  const next = () => {
    const target = targets[attempt++]
    if (target === undefined) return giveUp(new Internal({ reason: 'no-target' }))
    const abort = dialWebSocket(
      {
        upstream,
        target,
        headStart: forwarding.headStart(exchange, route, target.authority, HANDSHAKE_FIELDS),
        subprotocols: offer.subprotocols,
        timeoutMs: route.timeoutMs ?? upstream.timeoutMs
      },
      {
        onOpen(open) {
          exchange.underway = undefined
          healthOf(target)?.answered(performance.now())
          try {
            onOpen(open, target)
          } catch (error) {
            open.socket.destroy()
            giveUp(error instanceof GatewayError ? error : new Internal({ cause: error, reason: 'upgrade-failed' }))
          }
        },
        onRefused(head) {
          exchange.underway = undefined
          onGivenUp()
          passRefusal(forwarding, request, head)
        },
        onFault(fault, cause, nothingSent) {
          healthOf(target)?.failed(fault, nothingSent)
          if (nothingSent && attempt < targets.length) next()
          else giveUp(upstreamRefusal(fault, cause))
        }
      }
    )
    exchange.underway = {
      abort() {
        abort()
        onGivenUp()
      }
    }
  }
  next()
}

/** A backend's own refusal is passed on as a status; anything that is not a refusal is no valid response to an upgrade. */
const passRefusal = (
  forwarding: SocketForwarding,
  { exchange, route, upstream }: UpgradeRequest,
  head: ResponseHead
) => {
  if (head.status < 300) {
    return forwarding.refuse(exchange, new BadUpstreamResponse({ reason: 'upstream-ignored-upgrade' }))
  }
  const context = forwarding.responseContext(route, upstream, exchange.host)
  const headers = refusedFields(clientHead(head, context).headers)
  headers.push(...forwarding.addedHeaders(exchange), 'content-length', '0')
  exchange.response.whole({ status: head.status, reason: head.reason, headers }, '')
}

/** Sends the 101, and returns the client's connection. */
export const switchClient = (
  forwarding: SocketForwarding,
  { exchange, route, upstream, offer }: UpgradeRequest,
  open: OpenUpstream
): Takeover => {
  const { headers } = clientHead(open.head, forwarding.responseContext(route, upstream, exchange.host))
  const protocol = open.protocol ?? (offer.bearerOffered ? 'bearer' : undefined)
  const text = clientSwitch(exchange, protocol, headers, forwarding.addedHeaders(exchange))
  const client = exchange.request.connection.takeOver()
  client.socket.write(text, 'latin1')
  forwarding.onSwitched(exchange)
  return client
}

/** Joins the two sockets; separate from the exchange, so that an open socket does not keep it in memory. */
export const joinSockets = (
  relays: Relays,
  options: RelayOptions,
  client: Takeover,
  open: OpenUpstream,
  onJoined: (relay: Relay) => void
): void => {
  const relay = relays.join(options)
  onJoined(relay)
  open.read(bytes => relay.take('upstream', bytes))
  client.read(bytes => relay.take('client', bytes))
  if (client.rest.length > 0) relay.take('client', client.rest)
  if (open.rest.length > 0) relay.take('upstream', open.rest)
}

const infoOf = ({ identity, path, requestId, client }: Exchange, route: Route): StreamInfo => ({
  kind: 'websocket',
  identity,
  route,
  path: ownText(path),
  requestId: ownText(requestId),
  ip: client.address,
  maxLifetimeMs: route.websocket?.maxLifetimeMs ?? 0
})

const turns = new WeakMap<Upstream, number>()

/** The upstream's targets in the order in which to try them: each is first in its turn, those out of service are last. */
export const targetsInTurn = (upstream: Upstream): readonly Target[] => {
  const { targets } = upstream
  if (targets.length === 1) return targets
  const turn = ((turns.get(upstream) ?? -1) + 1) % targets.length
  turns.set(upstream, turn)
  return healthyFirst([...targets.slice(turn), ...targets.slice(0, turn)])
}

const startRelay = (
  forwarding: SocketForwarding,
  info: StreamInfo,
  sockets: { open: OpenUpstream; onSwitch: () => Takeover; leave: () => void }
): void => {
  const { relays, streams } = forwarding
  const { open, onSwitch, leave } = sockets
  const control = new RelayControl()
  const handle = streams.register(info, control)
  const client = onSwitch()
  const onClosed = () => {
    handle.close()
    leave()
  }
  const options = { ...relayOptions(info.route, client.socket, open, onClosed), onFault: faultLog(forwarding, info) }
  joinSockets(relays, options, client, open, joined => {
    control.relay = joined
  })
}

/** A class, for memory: there is one per open socket. */
class RelayControl implements StreamControl {
  /** Known only once the sockets are joined. */
  relay: Relay | undefined

  end(code: StreamEnd) {
    this.relay?.end(endingOf(code))
  }

  destroy() {
    this.relay?.destroy()
  }

  bytes(): number {
    return this.relay?.bytes ?? 0
  }
}

const relayOptions = (route: Route, client: Duplex, open: OpenUpstream, onClosed: () => void): RelayOptions => ({
  client,
  upstream: open.socket,
  maxMessageBytes: route.websocket?.maxMessageBytes ?? 1024 * 1024,
  messagesPerSecond: route.websocket?.messagesPerSecond ?? 0,
  idleTimeoutMs: route.websocket?.idleTimeoutMs ?? 0,
  onClosed
})

/**
 * Forwards an authorised upgrade. The upstream is dialled first; its refusal reaches the client as a status,
 * a timeout as 504, everything else as 502. Extensions are not negotiated, because `permessage-deflate` would
 * hide the size of a message from the gateway (RFC 7692 §8).
 */
export const createForwardWebSocket =
  (forwarding: SocketForwarding) => (exchange: Exchange, route: Route, upstream: Upstream, offer: Offer) => {
    const refusal = judgeClientHandshake(exchange)
    if (refusal !== undefined) return forwarding.refuse(exchange, refusal)
    const leave = forwarding.streams.admit({ upstream, userId: exchange.identity?.user.id, ip: exchange.client.key })
    if (leave instanceof GatewayError) return forwarding.refuse(exchange, leave)
    const request: UpgradeRequest = { exchange, route, upstream, offer, targets: targetsInTurn(upstream) }
    openUpstream(
      forwarding,
      request,
      open => {
        const onSwitch = () => switchClient(forwarding, request, open)
        startRelay(forwarding, infoOf(exchange, route), { open, onSwitch, leave })
      },
      leave
    )
  }
