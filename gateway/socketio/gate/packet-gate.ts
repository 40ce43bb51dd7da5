// Checks each packet of a Socket.IO session, which passes only in a namespace whose CONNECT was accepted.
import { Forbidden, type GatewayError } from '../../errors.ts'
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
import { checkConnect, signedConfirmation } from './connect.ts'
import {
  countHeldPackets,
  DROPPED,
  type GateParts,
  type Namespace,
  NO_ROOM,
  owesClient,
  PASSED,
  type PacketVerdict,
  type Right,
  violation
} from './gate-state.ts'

export type PacketGate = ReturnType<typeof createPacketGate>

/** A client that reads nothing keeps the attachments of its upstream from arriving. */
const MAX_WAITING_LENGTH = 1_000_000

export const createPacketGate = (parts: GateParts) => {
  const { namespaces, waiting, holder } = parts.state
  const fromClient = createClientPackets(parts, text => {
    if (!owesClient(parts.state)) return { verdict: 'answer', text }
    waiting.packets.push(text)
    waiting.length += text.length
    countHeldPackets(parts.state)
    if (waiting.length > MAX_WAITING_LENGTH) return violation('answers-unread')
    return holder.isTooMuch(waiting.length) ? violation(NO_ROOM) : DROPPED
  })
  const fromUpstream = createUpstreamPackets(parts)
  return {
    fromClient,
    fromUpstream(packet: EnginePacket): PacketVerdict {
      const verdict = fromUpstream(packet)
      const isDue = waiting.length > 0 && verdict.verdict === 'pass' && !owesClient(parts.state)
      const due = isDue ? waiting.packets.splice(0) : []
      if (isDue) waiting.length = 0
      if (parts.state.holding.bytes > 0) countHeldPackets(parts.state)
      return isDue ? { ...verdict, released: [...(verdict.released ?? []), ...due] } : verdict
    },
    /** The access to a namespace has ended; returns in which phase it was. */
    end(name: string): Namespace['phase'] | undefined {
      const known = namespaces.get(name)
      const phase = known?.phase
      if (known?.phase === 'asked') known.phase = 'ended'
      else closeNamespace(parts, name)
      return phase
    }
  }
}

const leaveNamespace = ({ state, onLeft }: GateParts, name: string): void => {
  state.namespaces.get(name)?.stream.close()
  if (state.namespaces.delete(name)) onLeft()
}

/** Where a route has patterns, clients choose the names. */
const MAX_LEFT = 50

/** The gateway or the upstream has ended it. */
const closeNamespace = (parts: GateParts, name: string): void => {
  const { namespaces, left } = parts.state
  if (namespaces.get(name)?.phase === 'open') {
    if (left.size >= MAX_LEFT) left.clear()
    left.add(name)
  }
  leaveNamespace(parts, name)
}

const MAX_REFUSED_CONNECTS = 20
const MAX_CONNECTS_PER_MINUTE = 120

/** @param answer sends one of the gateway's own packets back, at once or later */
const createClientPackets = (parts: GateParts, answer: (text: string) => PacketVerdict) => {
  const { state } = parts
  const { namespaces, left, due } = state
  let refused = 0
  let connects = 0
  let minute = 0

  const connect = (packet: SocketIoPacket): PacketVerdict => {
    if (namespaces.has(packet.namespace)) return violation('connected-already')
    const now = Math.floor(parts.now() / 60_000)
    connects = now === minute ? connects + 1 : 1
    minute = now
    if (connects > MAX_CONNECTS_PER_MINUTE) return violation('too-many-connects')
    const verdict = checkConnect(parts, packet)
    if (verdict.verdict !== 'answer') {
      left.delete(packet.namespace)
      return verdict
    }
    return ++refused > MAX_REFUSED_CONNECTS ? violation('too-many-connects') : answer(verdict.text)
  }

  const event = (packet: SocketIoPacket, { phase, right }: Namespace): PacketVerdict => {
    const name = eventName(packet.rest)
    if (name === undefined) return violation('malformed-event')
    const by = phase === 'ended' ? 'not-connected' : eventRoute(right.route, name)
    if (by === 'reserved-event') return violation(by)
    if (typeof by === 'string') return refuseEvent(packet, name, new Forbidden({ reason: by }), right)
    // Being in the namespace is enough for events without roles of their own.
    const refusal = by === right.route ? undefined : parts.check(by, right.user)
    return refusal === undefined ? decide(packet, PASSED) : refuseEvent(packet, name, refusal, right)
  }

  const refuseEvent = (packet: SocketIoPacket, event: string, refusal: GatewayError, right: Right): PacketVerdict => {
    const { namespace, rest } = packet
    decide(packet, DROPPED)
    parts.onRefusedEvent(namespace, event, refusal, right)
    const id = ackIdOf(rest)
    return id === '' ? DROPPED : answer(ackPacket(namespace, id, refusal.bodyText(parts.requestId)))
  }

  /** What becomes of a packet, and of its attachments when they come. */
  const decide = ({ attachments }: SocketIoPacket, verdict: PacketVerdict): PacketVerdict => {
    due.client = attachments
    due.clientDropped = verdict === DROPPED
    return verdict
  }

  const message = (text: string): PacketVerdict => {
    if (due.client > 0) return violation('attachment-due')
    const packet = readSocketIoPacket(text)
    if (packet === undefined) return violation('malformed-packet')
    const { type, namespace } = packet
    if (type === CONNECT) return connect(packet)
    if (type === CONNECT_ERROR) return violation('connect-error-from-client')
    const known = namespaces.get(namespace)
    const isAck = type === ACK || type === BINARY_ACK
    if (known === undefined) {
      // A stock client also acknowledges what it received before it left, which must not end its other namespaces.
      const isLate = left.has(namespace) || (isAck && namespaces.size > 0)
      return isLate ? decide(packet, DROPPED) : violation('not-connected')
    }
    if (type === EVENT || type === BINARY_EVENT) return event(packet, known)
    if (isAck) return decide(packet, known.phase === 'open' ? PASSED : DROPPED)
    if (packet.rest !== '') return violation('malformed-packet')
    leaveNamespace(parts, namespace)
    return PASSED
  }

  return ({ type, text }: EnginePacket): PacketVerdict => {
    if (type === '4') return message(text.slice(1))
    if (type === 'b') {
      if (due.client === 0) return violation('attachment-undue')
      due.client--
      return due.clientDropped ? DROPPED : PASSED
    }
    return type === '1' || type === '6' || text === '3' ? PASSED : violation('unexpected-packet')
  }
}

const createUpstreamPackets = (parts: GateParts) => {
  const { state } = parts
  const { namespaces, due } = state
  const maxHeldLength = burstBytes(parts.route.socketio.maxMessageBytes)

  const confirm = (packet: SocketIoPacket, known: Namespace): PacketVerdict => {
    if (known.phase === 'open') return violation('upstream-connected-twice')
    if (known.phase === 'ended') {
      namespaces.delete(packet.namespace)
      parts.onLateConfirm(packet.namespace)
      return DROPPED
    }
    known.phase = 'open'
    state.isProven = true
    const released = known.held.packets.splice(0)
    known.held.length = 0
    // It may have received a DISCONNECT before its CONNECT was confirmed.
    if (released.some(text => text.startsWith('4') && readSocketIoPacket(text.slice(1))?.type === DISCONNECT))
      closeNamespace(parts, packet.namespace)
    const text = signedConfirmation(parts, packet, known.identity)
    return { verdict: 'pass', ...(text === undefined ? {} : { text }), ...(released.length === 0 ? {} : { released }) }
  }

  /** python-socketio sends a connect handler's events before the confirmation, and clients would deliver them. */
  const hold = (name: string, packet: EnginePacket): PacketVerdict => {
    const known = namespaces.get(name)
    if (known?.phase !== 'asked') return DROPPED
    const text = textOf(packet)
    known.held.packets.push(text)
    known.held.length += text.length
    countHeldPackets(state)
    return known.held.length > maxHeldLength || state.holding.isTooMuch()
      ? violation('upstream-too-much-before-connect')
      : DROPPED
  }

  const message = (whole: EnginePacket): PacketVerdict => {
    if (due.upstream > 0) return violation('upstream-attachment-due')
    const packet = readSocketIoPacket(whole.text.slice(1))
    if (packet === undefined) return violation('upstream-malformed-packet')
    const { type, namespace, attachments } = packet
    const known = namespaces.get(namespace)
    due.upstream = attachments
    due.upstreamFate = known === undefined ? 'drop' : 'pass'
    if (known === undefined) return DROPPED
    if (type === CONNECT) return confirm(packet, known)
    if (known.phase === 'ended') {
      if (type === CONNECT_ERROR) namespaces.delete(namespace)
      due.upstreamFate = 'drop'
      return DROPPED
    }
    if (type === CONNECT_ERROR || (type === DISCONNECT && known.phase === 'open')) closeNamespace(parts, namespace)
    else if (known.phase === 'asked') {
      due.upstreamFate = 'hold'
      due.heldFor = namespace
      return hold(namespace, whole)
    }
    return PASSED
  }

  return (packet: EnginePacket): PacketVerdict => {
    if (packet.type === '4') return message(packet)
    if (packet.type !== 'b') return packet.type === '5' ? violation('upstream-unexpected-packet') : PASSED
    if (due.upstream === 0) return violation('upstream-attachment-undue')
    due.upstream--
    if (due.upstreamFate === 'hold') return hold(due.heldFor ?? '', packet)
    return due.upstreamFate === 'drop' ? DROPPED : PASSED
  }
}
