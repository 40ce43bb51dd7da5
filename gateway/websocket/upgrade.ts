// Carries out an upgrade that is allowed: dials the upstream, passes its refusal on, switches the client's connection, and joins the two.
import { BadUpstreamResponse, GatewayError, Unavailable } from '../errors.ts'
import type { createPassResponse } from '../forward/forward-http.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import { END_REASONS, type StreamControl, type StreamEnd, type StreamInfo, streamInfoOf } from '../forward/stream.ts'
import type { Exchange, SocketToken } from '../http/exchange.ts'
import { addedHeaders, asGatewayError } from '../http/own-responses.ts'
import type { Takeover } from '../http/request.ts'
import type { Route } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { mayTryAgain, upstreamRefusal } from '../upstream/faults.ts'
import { clientHeadFields, type ResponseContextOf } from '../upstream/headers/client-head.ts'
import { privateAnswersOf } from '../upstream/headers/private-answers.ts'
import type { createUpstreamHeads } from '../upstream/headers/upstream-head.ts'
import type { Requester, ResponseHead } from '../upstream/parser.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { Log } from '../values/log.ts'
import {
  checkClientHandshake,
  checkSwitch,
  clientSwitch,
  HANDSHAKE_FIELDS,
  newKey,
  passedFields,
  upgradeFields
} from './handshake.ts'
import type { Ending, Side } from './leg.ts'
import type { Relay, Relays } from './relay.ts'

export interface SocketForwarding {
  readonly upstreams: Upstreams
  readonly relays: Relays
  readonly streams: OpenStreams
  readonly headStart: ReturnType<typeof createUpstreamHeads>['start']
  readonly responseContext: ResponseContextOf
  readonly passResponse: ReturnType<typeof createPassResponse>
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** The 101 has been sent: the exchange is over, and the stream has begun. */
  readonly onSwitched: (exchange: Exchange) => void
  readonly log: Log
}

/** Extensions are not negotiated, because `permessage-deflate` would hide the size of a message from the gateway (RFC 7692 §8). */
export const createForwardWebSocket =
  (forwarding: SocketForwarding) => (exchange: Exchange, route: Route, upstream: Upstream, offer: SocketToken) => {
    const refusal = checkClientHandshake(exchange)
    if (refusal !== undefined) return forwarding.refuse(exchange, refusal)
    const leave = forwarding.streams.admit({ upstream, userId: exchange.identity?.user.id, ip: exchange.client.key })
    if (leave instanceof GatewayError) return forwarding.refuse(exchange, leave)
    const request: UpgradeRequest = { exchange, route, upstream, offer }
    openUpstream(
      forwarding,
      request,
      open => {
        const info = streamInfoOf(exchange, route, 'websocket', route.websocket?.maxLifetimeMs)
        startRelay(forwarding, info, { open, onSwitch: () => switchClient(forwarding, request, open), leave })
      },
      leave
    )
  }

/** Joins the two sockets; separate from the exchange, so that an open socket does not keep it in memory. */
const startRelay = (
  forwarding: SocketForwarding,
  info: StreamInfo,
  { open, onSwitch, leave }: { open: OpenUpstream; onSwitch: () => Takeover; leave: () => void }
): void => {
  const { websocket } = info.route
  const control = new RelayControl()
  const handle = forwarding.streams.register(info, control)
  const client = onSwitch()
  control.relay = forwarding.relays.join({
    client: client.socket,
    upstream: open.socket,
    requestId: info.requestId,
    maxMessageBytes: websocket?.maxMessageBytes ?? 1024 * 1024,
    messagesPerSecond: websocket?.messagesPerSecond ?? 0,
    idleTimeoutMs: websocket?.idleTimeoutMs ?? 0,
    onFault: faultLog(forwarding, info),
    onClosed() {
      handle.close()
      leave()
    }
  })
  passBytes(control.relay, client, open)
}

/** A class, for memory: there is one per open socket. */
class RelayControl implements StreamControl {
  relay: Relay | undefined

  end(code: StreamEnd) {
    this.relay?.end({ code, reason: END_REASONS[code] })
  }

  destroy() {
    this.relay?.destroy()
  }

  bytes(): number {
    return this.relay?.bytes ?? 0
  }
}

/** Logs why a connection that violated the protocol or a limit is being closed; at level warn if a backend did so. */
export const faultLog =
  ({ log }: SocketForwarding, { requestId, route }: Pick<StreamInfo, 'requestId' | 'route'>) =>
  (from: Side, { code, reason }: Ending) => {
    const maxMessage = code === 1009 ? (route.websocket ?? route.socketio)?.maxMessageBytes : undefined
    const fields = { requestId, route: route.id, upstream: route.upstream?.name, side: from, code, reason, maxMessage }
    if (from === 'upstream') log.warn(fields, 'closed a socket because of what its upstream sent')
    else log.info(fields, 'closed a socket because of what its client sent')
  }

export interface UpgradeRequest {
  readonly exchange: Exchange
  readonly route: Route
  readonly upstream: Upstream
  /** The only one that may be asked; undefined: any. */
  readonly target?: Target
  /** The upstream gets the subprotocols; with `bearerOffered`, `bearer` is the response if it selects none. */
  readonly offer: Pick<SocketToken, 'subprotocols' | 'bearerOffered'>
}

/** A connection to an upstream that has accepted the upgrade. */
export interface OpenUpstream extends Takeover {
  readonly head: ResponseHead
  readonly protocol: string | undefined
}

/**
 * Dials one target after the other until one can be reached, and passes on what it opened; refusals of either side are
 * answered here. `onOpen` may throw a refusal, because the client has received nothing yet; otherwise `onGivenUp` is called.
 */
export const openUpstream = (
  forwarding: SocketForwarding,
  request: UpgradeRequest,
  onOpen: (open: OpenUpstream, target: Target) => void,
  onGivenUp: () => void
) => {
  const { exchange, route, upstream, target: only, offer } = request
  const tried: Target[] = []
  const giveUp = (error: GatewayError) => {
    exchange.underway = undefined
    onGivenUp()
    forwarding.refuse(exchange, error)
  }
  const pool = forwarding.upstreams.poolOf(upstream)
  const next = () => {
    const connection = pool.dial({ not: tried, only })
    if (connection === undefined) return giveUp(new Unavailable({ reason: 'upstream-connections-exhausted' }))
    const { target } = connection
    tried.push(target)
    const key = newKey()
    /** A server may ignore Upgrade (RFC 9110 §7.8). */
    let ignoring: Requester | undefined
    const requester: Requester = {
      onSwitch(head, rest) {
        const protocol = checkSwitch(head, key, offer.subprotocols)
        exchange.underway = undefined
        exchange.noteAnswer(connection.waitedMs)
        const taken = connection.takeOver(rest)
        try {
          onOpen({ ...taken, head, protocol }, target)
        } catch (error) {
          taken.socket.destroy()
          giveUp(asGatewayError(error, 'upgrade-failed'))
        }
      },
      onHead(head, whole) {
        exchange.underway = undefined
        onGivenUp()
        if (head.status < 300 && route.socketio === undefined) {
          ignoring = forwarding.passResponse(exchange, route, upstream, connection, head, whole)
          return
        }
        connection.destroy()
        exchange.noteAnswer(connection.waitedMs)
        passRefusal(forwarding, request, head)
      },
      onFault(fault, cause, nothingSent) {
        if (ignoring !== undefined) return ignoring.onFault(fault, cause, nothingSent)
        const count = only === undefined ? pool.targetCount() : 1
        if (nothingSent && mayTryAgain(fault, tried.length, tried.length, count)) next()
        else giveUp(upstreamRefusal(fault, cause))
      },
      onThrown: error => exchange.onThrown(error),
      onBody: chunk => ignoring?.onBody?.(chunk),
      onEnd: trailers => ignoring?.onEnd?.(trailers)
    }
    const head = forwarding.headStart(exchange, route, target.authority, HANDSHAKE_FIELDS)
    const timeoutMs = route.timeoutMs ?? upstream.timeoutMs
    connection.send('GET', head + upgradeFields(key, offer.subprotocols), requester, timeoutMs, true)
    connection.finish()
    exchange.underway = {
      abort() {
        connection.destroy()
        onGivenUp()
      }
    }
  }
  next()
}

/** A backend's own refusal is passed on as a status. What is none is no valid response to an upgrade of Engine.IO. */
const passRefusal = (
  forwarding: SocketForwarding,
  { exchange, route, upstream }: UpgradeRequest,
  head: ResponseHead
) => {
  if (head.status < 300) {
    return forwarding.refuse(exchange, new BadUpstreamResponse({ reason: 'upstream-ignored-upgrade' }))
  }
  const context = forwarding.responseContext(route, upstream, exchange.host)
  const headers = passedFields(clientHeadFields(head, context, privateAnswersOf(route)))
  headers.push(...addedHeaders(exchange), 'content-length', '0')
  exchange.response.whole({ status: head.status, reason: head.reason, headers }, '')
}

export const switchClient = (
  forwarding: SocketForwarding,
  { exchange, route, upstream, offer }: UpgradeRequest,
  open: OpenUpstream
): Takeover => {
  const headers = clientHeadFields(open.head, forwarding.responseContext(route, upstream, exchange.host))
  const protocol = open.protocol ?? (offer.bearerOffered ? 'bearer' : undefined)
  const text = clientSwitch(exchange, protocol, headers, addedHeaders(exchange))
  const client = exchange.request.connection.takeOver()
  client.socket.write(text, 'latin1')
  forwarding.onSwitched(exchange)
  return client
}

/** Passes on what either side sends, beginning with what followed the handshakes. */
export const passBytes = (relay: Relay, client: Takeover, open: OpenUpstream): void => {
  open.read(bytes => relay.take('upstream', bytes))
  client.read(bytes => relay.take('client', bytes))
  if (client.rest.length > 0) relay.take('client', client.rest)
  if (open.rest.length > 0) relay.take('upstream', open.rest)
}
