// Forwards well-formed Engine.IO requests of a Socket.IO route, in sessions that must prove themselves in time.
import type { Exchange } from '../http/exchange.ts'
import { asGatewayError } from '../http/own-responses.ts'
import type { SocketIoRoute } from '../routes/route.ts'
import type { Upstream } from '../routes/upstream.ts'
import { contain, every } from '../values/contain.ts'
import type { SocketIoForwarding } from './engine-session.ts'
import { createEngineSessions } from './engine-sessions.ts'
import { createOwners } from './polling/owners.ts'
import { createPollingRequests } from './polling/requests.ts'
import { createSocketIoUpgrades } from './upgrades.ts'

/** Interval at which unproven sessions are ended, and sessions that are no longer polled are dropped. */
const SWEEP_MS = 1000

export const createForwardSocketIo = (forwarding: SocketIoForwarding) => {
  const engineSessions = createEngineSessions(forwarding)
  const owners = createOwners(forwarding.instances, engineSessions)
  const polling = createPollingRequests(forwarding, engineSessions, owners)
  const upgrade = createSocketIoUpgrades(forwarding, engineSessions, owners)
  const stop = every(SWEEP_MS, engineSessions.sweep)

  const attempt = async (exchange: Exchange, begin: () => void | Promise<void>) => {
    try {
      await begin()
    } catch (error) {
      exchange.underway = undefined
      contain(exchange, () => forwarding.refuse(exchange, asGatewayError(error, 'socketio')))
    }
  }

  return {
    onRequest: (exchange: Exchange, route: SocketIoRoute, upstream: Upstream) =>
      attempt(exchange, () => polling.onRequest(exchange, route, upstream)),
    onUpgrade: (exchange: Exchange, route: SocketIoRoute, upstream: Upstream) =>
      attempt(exchange, () => upgrade(exchange, route, upstream)),
    drain: polling.drain,
    close() {
      stop()
      engineSessions.close()
    }
  }
}
