// Handles WebSocket upgrades of a Socket.IO route: a new session, or one that moves over from polling.
import { BadRequest, GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Route } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import type { OpenUpstream } from '../websocket/dial.ts'
import { judgeClientHandshake } from '../websocket/handshake.ts'
import type { Relay } from '../websocket/relay.ts'
import { faultLog, openUpstream, passBytes, switchClient, type UpgradeRequest } from '../websocket/upgrade.ts'
import type { SocketIoForwarding } from './polling/polling-parts.ts'
import type { PollingSession } from './polling/polling-session.ts'
import { isEnginePath, readEngineQuery } from './protocol/engineio-handshake.ts'
import type { Carrier, Session } from './session.ts'
import { sourceOf } from './session-source.ts'
import { type SocketIoSessions, unknownSid } from './sessions.ts'
import { createWebSocketTransport } from './websocket.ts'

/** Throws a refusal, or rejects with one. */
export const createSocketIoUpgrades = (forwarding: SocketIoForwarding, sessions: SocketIoSessions) => {
  const join = (
    session: Session,
    sockets: { request: UpgradeRequest; open: OpenUpstream; leave: () => void },
    taken: PollingSession | undefined
  ) => {
    const { request, open, leave } = sockets
    let relay: Relay | undefined
    const transport = createWebSocketTransport({
      session,
      relay: () => relay,
      beforeUpgrade: taken?.polling.beforeUpgrade,
      onUpgraded: taken && (() => takeOver(session, taken, transport.carrier))
    })
    if (taken === undefined) session.openSocket(transport.carrier)
    const client = switchClient(forwarding, request, open)
    relay = forwarding.relays.join({
      client: client.socket,
      upstream: open.socket,
      requestId: session.source.requestId,
      maxMessageBytes: request.route.socketio?.maxMessageBytes ?? 1_000_000,
      messagesPerSecond: request.route.socketio?.messagesPerSecond ?? 0,
      idleTimeoutMs: 0,
      onMessage: transport.onMessage,
      onFault: faultLog(forwarding, session.source),
      onBreak() {
        if (!transport.isConfirmed || session.life.phase !== 'probing') return false
        breakOff(session, taken)
        return transport.isExpected
      },
      onClosed() {
        leave()
        if (session.life.phase === 'websocket') session.leave()
        else session.abandonProbe()
      }
    })
    if (taken !== undefined) taken.endProbe = isFinal => endProbe(relay, !isFinal && transport.isExpected)
    passBytes(relay, client, open)
  }

  const takeOver = (session: Session, taken: PollingSession, carrier: Carrier) => {
    if (!session.upgrade(carrier)) return taken.endProbe(true)
    taken.polling.divertTo(packets => carrier.toClient(packets))
  }

  const upgradeKnown = async (request: UpgradeRequest, sid: string) => {
    const taken = await sessions.known(request.exchange, request.route, request.upstream, sid)
    if (request.exchange.response.isGone) return
    const { session } = taken
    if (session.isOver) throw unknownSid()
    if (!session.probe()) throw new BadRequest({ reason: 'upgrading-already' })
    const sticky = { ...request, targets: [session.source.target] }
    openUpstream(
      forwarding,
      sticky,
      open => {
        if (session.isOver) throw unknownSid()
        join(session, { request: sticky, open, leave: () => undefined }, taken)
      },
      session.abandonProbe
    )
  }

  const upgradeNew = (request: UpgradeRequest) => {
    const { exchange, route, upstream } = request
    const leaveUnproven = sessions.enterUnproven(exchange.client.key)
    const place = forwarding.streams.admit({ upstream, userId: undefined, ip: exchange.client.key })
    if (place instanceof GatewayError) {
      leaveUnproven()
      throw place
    }
    const leave = () => {
      leaveUnproven()
      place()
    }
    openUpstream(
      forwarding,
      request,
      (open, target) => {
        const session = sessions.start(sourceOf(exchange, route, upstream, target), () => undefined)
        leaveUnproven()
        join(session, { request, open, leave }, undefined)
      },
      leave
    )
  }

  return (exchange: Exchange, route: Route, upstream: Upstream): void | Promise<void> => {
    const wrong = judgeClientHandshake(exchange)
    if (wrong !== undefined) throw wrong
    if (!isEnginePath(route, exchange.path)) throw new BadRequest({ reason: 'engineio-path' })
    const asked = readEngineQuery(exchange.query)
    if (asked?.transport !== 'websocket') throw new BadRequest({ reason: 'engineio-query' })
    const offer = { subprotocols: [], bearerOffered: false }
    const targets = asked.sid === undefined ? forwarding.upstreams.poolOf(upstream).inTurn() : []
    const request: UpgradeRequest = { exchange, route, upstream, offer, targets }
    return asked.sid === undefined ? upgradeNew(request) : upgradeKnown(request, asked.sid)
  }
}

/**
 * The WebSocket broke after the client had begun to move to it. Once its requests have succeeded, a stock client neither
 * polls nor sends any more until its ping times out; if one fails, it connects again at once. If all have been answered, it is
 * about to complete the upgrade, and must find its side of the WebSocket open.
 */
const breakOff = (session: Session, taken: PollingSession | undefined): void => {
  taken?.polling.failPosts()
  session.end(1001)
}

/** The session ended while a WebSocket was being tried. */
const endProbe = (relay: Relay | undefined, mayComplete: boolean): void => {
  if (mayComplete) relay?.retire()
  else relay?.end({ code: 1008, reason: '' })
}
