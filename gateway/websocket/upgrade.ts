// Carries out an upgrade that is allowed: dials the upstream, passes its refusal on, and switches the client's connection.
import { BadUpstreamResponse, GatewayError, Internal, Unavailable } from '../errors.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import type { StreamInfo } from '../forward/stream.ts'
import type { Exchange, SocketToken } from '../http/exchange.ts'
import { addedHeaders } from '../http/own-responses.ts'
import type { Takeover } from '../http/request.ts'
import type { Route } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { EXHAUSTED, upstreamRefusal } from '../upstream/faults.ts'
import { clientHeadFields, type ResponseContextOf } from '../upstream/headers/client-head.ts'
import { privateAnswersOf } from '../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { Log } from '../values/log.ts'
import { dialWebSocket, type OpenUpstream } from './dial.ts'
import { clientSwitch, fieldsWithout, HANDSHAKE_FIELDS, WRITTEN_ANEW } from './handshake.ts'
import type { Ending, Side } from './leg.ts'
import type { Relay, Relays } from './relay.ts'

export interface SocketForwarding {
  readonly upstreams: Upstreams
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
  readonly responseContext: ResponseContextOf
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** The 101 has been sent: the exchange is over, and the stream has begun. */
  readonly onSwitched: (exchange: Exchange) => void
  readonly log: Log
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
  readonly targets: readonly Target[]
  /** The upstream gets the subprotocols; with `bearerOffered`, `bearer` is the response if it selects none. */
  readonly offer: Pick<SocketToken, 'subprotocols' | 'bearerOffered'>
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
  const pool = forwarding.upstreams.poolOf(upstream)
  const next = () => {
    const target = targets[attempt++]
    if (target === undefined) return giveUp(new Unavailable({ reason: 'upstream-connections-exhausted' }))
    const dialled = pool.enterSocket(target)
    if (dialled === undefined) return next()
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
          dialled.answered(101)
          open.socket.once('close', dialled.leave)
          try {
            onOpen(open, target)
          } catch (error) {
            open.socket.destroy()
            giveUp(error instanceof GatewayError ? error : new Internal({ cause: error, reason: 'upgrade-failed' }))
          }
        },
        onRefused(head) {
          exchange.underway = undefined
          dialled.answered(head.status)
          dialled.leave()
          onGivenUp()
          passRefusal(forwarding, request, head)
        },
        onThrown: error => exchange.onThrown(error),
        onFault(fault, cause, nothingSent) {
          dialled.failed(fault, nothingSent)
          dialled.leave()
          if (nothingSent && fault !== EXHAUSTED && attempt < targets.length) next()
          else giveUp(upstreamRefusal(fault, cause))
        }
      }
    )
    exchange.underway = {
      abort() {
        abort()
        dialled.leave()
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
  const headers = fieldsWithout(clientHeadFields(head, context, privateAnswersOf(route)), WRITTEN_ANEW)
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
