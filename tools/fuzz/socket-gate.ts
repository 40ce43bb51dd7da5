// A gate of the gateway's own without transports, and the rules that it is to keep, written down a second time.
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

export const PEOPLE: readonly User[] = [
  person({ id: 7, username: 'good', profiles: ['Agente'] }),
  person({ id: 8, username: 'admin', profiles: ['Admin'] })
]

/** Those for which the models have handlers. */
export const NAMESPACES = ['/', '/admin-room', '/ruled', '/open', '/x']

export const mayConnect = ({ profiles }: User, namespace: string): boolean =>
  namespace !== '/admin-room' || profiles.includes('Admin')

const RESERVED = ['connect', 'connect_error', 'disconnect', 'disconnecting', 'newListener', 'removeListener', '*']

export const maySend = (username: string, namespace: string, event: string): boolean => {
  if (RESERVED.includes(event)) return false
  if (namespace !== '/ruled') return true
  return event === 'send' || (event === 'ban' && username === 'admin')
}

const SOCKETIO = {
  maxMessageBytes: 1_000_000,
  messagesPerSecond: 1000,
  namespaces: [
    { name: '/admin-room', pattern: undefined, roles: ['Admin'], events: undefined },
    {
      name: '/ruled',
      pattern: undefined,
      roles: undefined,
      events: [
        { name: 'send', pattern: undefined, roles: undefined },
        { name: 'ban', pattern: undefined, roles: ['Admin'] }
      ]
    },
    { name: '/\\/.*/', pattern: /^(?:\/.*)$/u, roles: undefined, events: undefined }
  ]
}
const ROUTE = routeAt('/socket.io/*', upstreamAt(1), { socketio: SOCKETIO })
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
