// Runs the gateway's own gate without transports, and decides by the model of decisions what it may pass.
import { Forbidden, type GatewayError, Unauthenticated } from '../../gateway/errors.ts'
import type { Identity, User } from '../../gateway/identity.ts'
import type { Route } from '../../gateway/routes/route.ts'
import { createGateState, newNamespace, owesUpstream } from '../../gateway/socketio/gate/gate-state.ts'
import { createPacketGate } from '../../gateway/socketio/gate/packet-gate.ts'
import {
  type EnginePacket,
  readEnginePacket,
  readEnginePayload,
  textOf
} from '../../gateway/socketio/protocol/engineio.ts'
import { disconnectPacket } from '../../gateway/socketio/protocol/packets.ts'
import { createRecoveryIds } from '../../gateway/socketio/recovery-ids.ts'
import { person, routeAt, upstreamAt } from '../../test/support/routes.ts'
import { decideEvent, type NamespaceSpec, type Person } from './decisions/model.ts'

export const PEOPLE: readonly User[] = [
  person({ id: 7, username: 'good', profiles: ['Agente'] }),
  person({ id: 8, username: 'admin', profiles: ['Admin'] })
]

/** Those for which the models have handlers. */
export const NAMESPACES = ['/', '/admin-room', '/ruled', '/open', '/x']

/** As a route file writes them. */
const RULES = {
  '/admin-room': { roles: ['Admin'] },
  '/ruled': { events: { send: {}, ban: { roles: ['Admin'] } } },
  '/\\/.*/': {}
}

export const maySend = ({ username, profiles }: User, namespace: string, event: string): boolean => {
  const who: Person = { who: username, profiles, isAssigned: true, kind: 'ldap' }
  return decideEvent({ path: '/socket.io/*', socketio: { namespaces: RULES } }, namespace, event, who) === 'allow'
}

/** Every namespace takes this event of those who may connect. */
export const mayConnect = (user: User, namespace: string): boolean => maySend(user, namespace, 'send')

/** The same as the gateway holds them. */
const SOCKETIO = {
  maxMessageBytes: 1_000_000,
  messagesPerSecond: 1000,
  namespaces: Object.entries<NamespaceSpec>(RULES).map(([name, { roles, events }]) => ({
    name,
    pattern: name.endsWith('/') ? /^(?:\/.*)$/u : undefined,
    roles,
    events: events && Object.entries(events).map(([name, { roles }]) => ({ name, pattern: undefined, roles }))
  }))
}
const ROUTE = { ...routeAt('/socket.io/*', upstreamAt(1)), socketio: SOCKETIO }
const RECOVERY_IDS = createRecoveryIds([])

export const createGateWorld = () => {
  const state = createGateState()
  let over = false
  const identify = (token: string): Identity => {
    const user = PEOPLE.find(({ username }) => username === token)
    if (user === undefined) throw new Unauthenticated()
    const life = { issuedAt: 0, expiresAt: 9e9, authenticatedAt: 0 }
    return { user, subject: String(user.id), tokenId: token, version: 0, kind: 'login', ...life }
  }
  const check = ({ roles }: Route, { profiles }: User): GatewayError | undefined =>
    roles === undefined || roles.some(role => profiles.includes(role)) ? undefined : new Forbidden()
  const gate = createPacketGate({
    route: ROUTE,
    routeNow: () => ROUTE,
    state,
    identify,
    check,
    recoveryIds: RECOVERY_IDS,
    register: (_, route, identity) => newNamespace(identity, route),
    onRefusedConnect: () => undefined,
    onRefusedEvent: () => undefined,
    requestId: 'fuzz',
    onLeft: () => undefined,
    onLateConfirm: () => undefined,
    now: () => 0
  })
  const pass = (packets: readonly EnginePacket[] | undefined): string[] => {
    const passed: string[] = []
    for (const packet of packets ?? []) {
      const verdict = gate.fromClient(packet)
      if (verdict.verdict === 'violation') {
        over = true
        // As a polling body: nothing of it is forwarded.
        return []
      }
      if (verdict.verdict === 'pass') passed.push(verdict.text ?? textOf(packet))
    }
    over ||= packets === undefined
    return passed
  }
  return {
    /** What passes of a text frame. */
    frame(text: string): string[] {
      const packet = readEnginePacket(text)
      return pass(packet && [packet])
    },
    /** What passes of a polling payload. */
    payload: (text: string) => pass(readEnginePayload(text)),
    /** The upstream confirms a CONNECT. */
    confirm: (namespace: string) => void gate.fromUpstream({ type: '4', text: `40${namespace},{"sid":"a"}` }),
    /** A right ends; `told` is what the upstream hears, undefined: its connection closes. */
    endOne(choice: number): { namespace: string; told: string | undefined } | undefined {
      const names = [...state.namespaces].flatMap(([name, { phase }]) => (phase === 'open' ? [name] : []))
      const namespace = names[Math.floor(choice * names.length)]
      if (namespace === undefined) return undefined
      gate.end(namespace)
      if (!owesUpstream(state) && state.namespaces.size > 0) return { namespace, told: disconnectPacket(namespace) }
      const told = owesUpstream(state) ? undefined : disconnectPacket(namespace)
      over = true
      return { namespace, told }
    },
    isOver: () => over
  }
}
