// Handles WebSocket upgrades of a Socket.IO route: a new session, or one that moves over from polling, here or in another process.
import { BadRequest, orThrow, Unavailable } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { SocketIoRoute } from '../routes/route.ts'
import { engineFault } from '../routes/socketio-rules.ts'
import type { Upstream } from '../routes/upstream.ts'
import { task } from '../values/contain.ts'
import { checkClientHandshake } from '../websocket/handshake.ts'
import type { Relay } from '../websocket/relay.ts'
import {
  faultLog,
  type OpenUpstream,
  openUpstream,
  passBytes,
  switchClient,
  type UpgradeRequest
} from '../websocket/upgrade.ts'
import { type EngineSession, type HandedSession, type SocketIoForwarding, sourceOf } from './engine-session.ts'
import type { EngineSessions } from './engine-sessions.ts'
import type { Owners } from './polling/owners.ts'
import { readEngineQuery } from './protocol/engineio-handshake.ts'
import { createWebSocketTransport } from './websocket.ts'

type SocketIoUpgrade = UpgradeRequest & { readonly route: SocketIoRoute }

/** A session carried by polling, for which a WebSocket is tried. */
interface Polled {
  readonly takeOver: () => Promise<HandedSession & { packets: string[] }>
  readonly settle: (outcome: 'taken' | 'broken') => void
  /** The session is not to come back. */
  readonly ended: Promise<void>
}

/** Throws a refusal, or rejects with one. */
export const createSocketIoUpgrades = (
  forwarding: SocketIoForwarding,
  engineSessions: EngineSessions,
  owners: Owners
) => {
  /** @param leave gives back what was reserved */
  const join = (
    engineSession: EngineSession,
    { request, open, leave }: { request: UpgradeRequest; open: OpenUpstream; leave: () => void },
    polled: Polled | undefined
  ) => {
    const { socketio } = engineSession.source.route
    let relay: Relay | undefined
    let isClosed = false
    const takeOver = async (from: Polled) => {
      const { packets, ...other } = await from.takeOver()
      return () => {
        from.settle('taken')
        if (isClosed || engineSession.isOver) return
        begin()
        engineSession.adopt(other)
        if (!engineSession.isOver) transport.carrier.toClient(packets)
      }
    }
    const transport = createWebSocketTransport({
      engineSession,
      relay: () => relay,
      onUpgrade: polled && (() => takeOver(polled))
    })
    const begin = () => {
      engineSessions.enter(engineSession)
      engineSession.carryBy('websocket', transport.carrier)
    }
    if (polled === undefined) begin()
    const logFault = faultLog(forwarding, engineSession.source)
    const client = switchClient(forwarding, request, open)
    relay = forwarding.relays.join({
      client: client.socket,
      upstream: open.socket,
      requestId: engineSession.source.requestId,
      maxMessageBytes: socketio.maxMessageBytes,
      messagesPerSecond: socketio.messagesPerSecond,
      idleTimeoutMs: 0,
      mayTake: transport.mayTake,
      reader: { onMessage: transport.onMessage, holder: engineSession.state.holder },
      onFault(from, ending) {
        logFault(from, ending)
        // Before the upgrade is complete, only the new transport is affected.
        if (engineSession.phase === 'websocket') engineSession.endBeforeClose(from === 'client' ? ending.code : 1011)
      },
      onBreak() {
        if (polled === undefined || !transport.isConfirmed || engineSession.phase !== 'opening') return false
        polled.settle('broken')
        return transport.isExpected
      },
      onClosed() {
        isClosed = true
        leave()
        engineSession.leave()
      }
    })
    polled?.ended.then(task(() => relay.end({ code: 1008, reason: '' })))
    passBytes(relay, client, open)
  }

  const admit = ({ exchange, upstream }: UpgradeRequest) =>
    orThrow(forwarding.streams.admit({ upstream, userId: undefined, ip: exchange.client.key }))

  const begin = (request: SocketIoUpgrade, leave: () => void, polled: Polled | undefined, onJoined = () => {}) => {
    const { exchange, route, upstream } = request
    openUpstream(
      forwarding,
      request,
      (open, target) => {
        join(engineSessions.create(sourceOf(exchange, route, upstream, target)), { request, open, leave }, polled)
        onJoined()
      },
      leave
    )
  }

  /** @param given the session that is to move over; undefined: a new one */
  const upgrade = async (request: SocketIoUpgrade, given: string | undefined) => {
    const { exchange, route, upstream } = request
    const reserved: (() => void)[] = []
    const leave = () => {
      for (const release of reserved.splice(0)) release()
    }
    try {
      if (given === undefined) {
        const leaveUnproven = engineSessions.enterUnproven(exchange.client.key)
        reserved.push(leaveUnproven)
        reserved.push(admit(request))
        return begin(request, leave, undefined, leaveUnproven)
      }
      const { ask, ...named } = owners.read(exchange, route, given)
      reserved.push(admit(request))
      const trial = await owners.tryWebSocket(ask, named)
      reserved.push(() => trial.settle('given-up'))
      const target = forwarding.upstreams.poolOf(upstream).targetAt(trial.target)
      if (target === undefined) throw new Unavailable({ reason: 'no-target' })
      if (exchange.response.isGone) return leave()
      begin({ ...request, target }, leave, { ...trial, takeOver: () => ask('takeOver', { sid: named.sid }) })
    } catch (error) {
      leave()
      throw error
    }
  }

  return (exchange: Exchange, route: SocketIoRoute, upstream: Upstream): Promise<void> => {
    const wrong = checkClientHandshake(exchange)
    if (wrong !== undefined) throw wrong
    const fault = engineFault(route, exchange.method, exchange.path)
    if (fault !== undefined) throw new BadRequest({ reason: fault })
    const asked = readEngineQuery(exchange.query)
    if (asked?.transport !== 'websocket') throw new BadRequest({ reason: 'engineio-query' })
    const offer = { subprotocols: [], bearerOffered: false }
    return upgrade({ exchange, route, upstream, offer }, asked.sid)
  }
}
