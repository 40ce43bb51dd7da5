// Checks each packet of a Socket.IO session, which passes only in a namespace whose CONNECT was accepted.

import { Forbidden, type GatewayError } from '../../errors.ts'
import type { Route } from '../../routes/route.ts'
import { eventRoute } from '../../routes/socketio-rules.ts'
import { burstBytes, type EnginePacket, textOf } from '../protocol/engineio.ts'
import {
  ACK,
  ackIdOf,
  ackPacket,
  BINARY_ACK,
  BINARY_EVENT,
  CONNECT,
  CONNECT_ERROR,
  DISCONNECT,
  EVENT,
  eventName,
  readSocketIoPacket,
  type SocketIoPacket
} from '../protocol/packets.ts'
import { bindRecovery, checkConnect } from './connect.ts'
import { type GateParts, type GateState, leaveNamespace, type NamespaceState, owesClient } from './gate-state.ts'
import { DROPPED, PASSED, type PacketVerdict, violation } from './packet-verdict.ts'

/** The gateway's own packets, which must not come between a packet and its attachments. */
const createWaitingAnswers = (state: GateState) => {
  let waiting: string[] = []
  return {
    answer(verdict: PacketVerdict): PacketVerdict {
      if (verdict.verdict !== 'answer' || !owesClient(state)) return verdict
      waiting.push(verdict.text)
      return DROPPED
    },
    /** Adds the packets that had to wait for an attachment. */
    withWaiting(verdict: PacketVerdict): PacketVerdict {
      if (waiting.length === 0 || verdict.verdict !== 'pass' || owesClient(state)) return verdict
      const released = [...(verdict.released ?? []), ...waiting]
      waiting = []
      return { ...verdict, released }
    }
  }
}

export const createPacketGate = (parts: GateParts) => {
  const { answer, withWaiting } = createWaitingAnswers(parts.state)
  return {
    fromClient: createClientPackets(parts, answer),
    fromUpstream: createUpstreamPackets(parts, withWaiting),
    /** The access to a namespace has ended; returns in which phase it was. */
    end(namespace: string): NamespaceState['phase'] | undefined {
      const { namespaces } = parts.state
      const known = namespaces.get(namespace)
      if (known?.phase === 'asked') namespaces.set(namespace, { phase: 'ended', identity: known.identity })
      else namespaces.delete(namespace)
      return known?.phase
    }
  }
}

export type PacketGate = ReturnType<typeof createPacketGate>

const MAX_REFUSED_CONNECTS = 20
const MAX_CONNECTS_PER_MINUTE = 120

/** @param answer sends one of the gateway's own packets back, at once or later */
const createClientPackets = (parts: GateParts, answer: (verdict: PacketVerdict) => PacketVerdict) => {
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

/** @param withWaiting adds the gateway's own packets that had to wait for an attachment */
export const createUpstreamPackets = (parts: GateParts, withWaiting: (verdict: PacketVerdict) => PacketVerdict) => {
  const { state } = parts
  const { namespaces } = state
  const maxHeldBytes = burstBytes(parts.route.socketio?.maxMessageBytes ?? 1_000_000)

  const answerToConnect = (packet: SocketIoPacket, known: NamespaceState): PacketVerdict => {
    if (known.phase === 'open') return violation('upstream-connected-twice')
    if (known.phase === 'ended') {
      namespaces.delete(packet.namespace)
      parts.onLateConfirm(packet.namespace)
      return DROPPED
    }
    const { identity, held: { packets: held } = { packets: [] } } = known
    bindRecovery(parts, packet, identity)
    namespaces.set(packet.namespace, { identity, phase: 'open' })
    parts.onOpen(packet.namespace)
    // It may have received a DISCONNECT before its CONNECT was confirmed.
    if (held.some(text => readSocketIoPacket(text.slice(1))?.type === DISCONNECT))
      leaveNamespace(parts, packet.namespace)
    return held.length === 0 ? PASSED : { verdict: 'pass', released: held }
  }

  /** python-socketio sends a connect handler's events before the confirmation, and clients would deliver them. */
  const hold = (namespace: string, packet: EnginePacket): PacketVerdict => {
    const known = namespaces.get(namespace)
    if (known?.phase !== 'asked') return DROPPED
    const { held = { packets: [], bytes: 0 } } = known
    const text = textOf(packet)
    held.packets.push(text)
    held.bytes += text.length
    if (held.bytes > maxHeldBytes) return violation('upstream-too-much-before-connect')
    if (known.held === undefined) namespaces.set(namespace, { ...known, held })
    return DROPPED
  }

  const message = (whole: EnginePacket): PacketVerdict => {
    const { due } = state
    if (due.upstream > 0) return violation('upstream-attachment-due')
    const packet = readSocketIoPacket(whole.text.slice(1))
    if (packet === undefined) return violation('upstream-malformed-packet')
    const { type, namespace, attachments } = packet
    const known = namespaces.get(namespace)
    due.upstream = attachments
    due.upstreamFate = known === undefined ? 'drop' : 'pass'
    if (known === undefined) return DROPPED
    if (type === CONNECT) return answerToConnect(packet, known)
    if (known.phase === 'ended') {
      if (type === CONNECT_ERROR) namespaces.delete(namespace)
      due.upstreamFate = 'drop'
      return DROPPED
    }
    if (type === CONNECT_ERROR) leaveNamespace(parts, namespace)
    else if (known.phase === 'asked') {
      due.upstreamFate = 'hold'
      due.heldFor = namespace
      return hold(namespace, whole)
    } else if (type === DISCONNECT) leaveNamespace(parts, namespace)
    return PASSED
  }

  const binary = (packet: EnginePacket): PacketVerdict => {
    const { due } = state
    if (due.upstream === 0) return violation('upstream-attachment-undue')
    due.upstream--
    if (due.upstreamFate === 'hold') return hold(due.heldFor ?? '', packet)
    return due.upstreamFate === 'drop' ? DROPPED : PASSED
  }

  return (packet: EnginePacket): PacketVerdict => {
    if (packet.type === '4') return withWaiting(message(packet))
    if (packet.type === 'b') return withWaiting(binary(packet))
    return packet.type === '5' ? violation('upstream-unexpected-packet') : PASSED
  }
}
