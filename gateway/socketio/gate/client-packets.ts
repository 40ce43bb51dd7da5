// Checks the packets that the client of a Socket.IO session sends: which pass, which are refused, which end the session.
import { Forbidden, type GatewayError } from '../../errors.ts'
import type { Route } from '../../routes/route.ts'
import { eventRoute } from '../../routes/socketio-rules.ts'
import type { EnginePacket } from '../protocol/engineio.ts'
import {
  ACK,
  ackIdOf,
  ackPacket,
  BINARY_ACK,
  BINARY_EVENT,
  CONNECT,
  CONNECT_ERROR,
  EVENT,
  eventName,
  readSocketIoPacket,
  type SocketIoPacket
} from '../protocol/packets.ts'
import { checkConnect } from './connect.ts'
import { type GateParts, leaveNamespace } from './gate-state.ts'
import { DROPPED, PASSED, type PacketVerdict, violation } from './packet-verdict.ts'

const MAX_REFUSED_CONNECTS = 20
const MAX_CONNECTS_PER_MINUTE = 120

/** @param answer sends one of the gateway's own packets back, at once or later */
export const createClientPackets = (parts: GateParts, answer: (verdict: PacketVerdict) => PacketVerdict) => {
  const { state } = parts
  const { namespaces } = state
  let refused = 0
  let connects = 0
  let minute = 0

  const connect = (packet: SocketIoPacket): PacketVerdict | Promise<PacketVerdict> => {
    if (namespaces.has(packet.namespace)) return violation('connected-already')
    const now = Math.floor(parts.now() / 60_000)
    connects = now === minute ? connects + 1 : 1
    minute = now
    if (connects > MAX_CONNECTS_PER_MINUTE) return violation('too-many-connects')
    const verdict = checkConnect(parts, packet)
    if (verdict instanceof Promise) return verdict
    if (verdict.verdict === 'answer' && ++refused > MAX_REFUSED_CONNECTS) return violation('too-many-connects')
    return answer(verdict)
  }

  const event = (packet: SocketIoPacket): PacketVerdict => {
    const name = eventName(packet.rest)
    if (name === undefined) return violation('malformed-event')
    const right = parts.rightOf(packet.namespace)
    const by = right === undefined ? 'not-connected' : eventRoute(right.route, name)
    if (by === 'reserved-event') return violation(by)
    const refusal = refusalOf(by, right)
    return refusal === undefined ? passAttached(packet) : refuseEvent(packet, name, refusal)
  }

  const refusalOf = (by: Route | string, right: ReturnType<typeof parts.rightOf>): GatewayError | undefined => {
    if (typeof by === 'string' || right === undefined) return new Forbidden({ reason: String(by) })
    // Being in the namespace is enough for events without roles of their own.
    return by === right.route ? undefined : parts.check(by, right.user)
  }

  const refuseEvent = (packet: SocketIoPacket, event: string, refusal: GatewayError): PacketVerdict => {
    const { namespace, rest, attachments } = packet
    state.due.client = attachments
    state.due.clientDropped = true
    parts.onRefusedEvent(namespace, event, refusal)
    const id = ackIdOf(rest)
    if (id === '') return DROPPED
    return answer({ verdict: 'answer', text: ackPacket(namespace, id, refusal.bodyText(parts.requestId)) })
  }

  const passAttached = ({ attachments }: SocketIoPacket): PacketVerdict => {
    state.due.client = attachments
    state.due.clientDropped = false
    return PASSED
  }

  const message = (text: string): PacketVerdict | Promise<PacketVerdict> => {
    if (state.due.client > 0) return violation('attachment-due')
    const packet = readSocketIoPacket(text)
    if (packet === undefined) return violation('malformed-packet')
    const { type, namespace } = packet
    if (type === CONNECT) return connect(packet)
    if (type === CONNECT_ERROR) return violation('connect-error-from-client')
    if (!namespaces.has(namespace)) return violation('not-connected')
    if (type === EVENT || type === BINARY_EVENT) return event(packet)
    if (type === ACK || type === BINARY_ACK) return passAttached(packet)
    if (packet.rest !== '') return violation('malformed-packet')
    leaveNamespace(parts, namespace)
    return PASSED
  }

  const binary = (): PacketVerdict => {
    if (state.due.client === 0) return violation('attachment-undue')
    state.due.client--
    return state.due.clientDropped ? DROPPED : PASSED
  }

  /** Only a CONNECT with a recovery id has to wait for a result. */
  return ({ type, text }: EnginePacket): PacketVerdict | Promise<PacketVerdict> => {
    if (type === '4') return message(text.slice(1))
    if (type === 'b') return binary()
    if (type === '1' || type === '6' || text === '3') return PASSED
    return violation('unexpected-packet')
  }
}
