// Forwards an authorised upgrade as a WebSocket between client and upstream, or refuses it in plain HTTP before any 101.
import { GatewayError } from '../errors.ts'
import { END_REASONS, type StreamControl, type StreamEnd, type StreamInfo, streamInfoOf } from '../forward/stream.ts'
import type { Exchange, SocketToken } from '../http/exchange.ts'
import type { Takeover } from '../http/request.ts'
import type { Route } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import { checkClientHandshake } from './handshake.ts'
import type { Relay } from './relay.ts'
import {
  faultLog,
  type OpenUpstream,
  openUpstream,
  passBytes,
  type SocketForwarding,
  switchClient,
  type UpgradeRequest
} from './upgrade.ts'

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
        const onSwitch = () => switchClient(forwarding, request, open)
        startRelay(forwarding, streamInfoOf(exchange, route, 'websocket', route.websocket?.maxLifetimeMs), {
          open,
          onSwitch,
          leave
        })
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
