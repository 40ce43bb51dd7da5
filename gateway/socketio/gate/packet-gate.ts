// Judges each packet of one Socket.IO session: it passes only in a namespace whose CONNECT was proved and accepted.
import { Forbidden, type GatewayError } from '../../errors.ts'
import type { User } from '../../identity.ts'
import type { Route } from '../../routes/route.ts'
import { isReservedEvent } from '../../routes/socketio-rules.ts'
import { eventRoute } from '../namespaces.ts'
import { type EnginePacket, textOf } from '../protocol/engineio.ts'
import { ackIdOf, eventName } from '../protocol/events.ts'
import {
  ACK,
  ackPacket,
  BINARY_ACK,
  BINARY_EVENT,
  CONNECT,
  CONNECT_ERROR,
  DISCONNECT,
  EVENT,
  readSocketIoPacket,
  type SocketIoPacket
} from '../protocol/packets.ts'
import type { AttachmentsDue, NamespaceState } from '../sid-store.ts'
import { bindRecovery, type ConnectParts, judgeConnect } from './connect.ts'
import { DROPPED, PASSED, type PacketVerdict, violation } from './packet-verdict.ts'

export interface GateState {
  readonly namespaces: Map<string, NamespaceState>
  /** Binary messages still due. */
  due: AttachmentsDue
}

interface GateParts extends Omit<ConnectParts, 'namespaces'> {
  readonly state: GateState
  /** Today's access to a namespace. */
  readonly rightOf: (namespace: string) => Right | undefined
  readonly onRefusedEvent: (namespace: string, event: string, refusal: GatewayError) => void
  /** For what is refused inside of the session. */
  readonly requestId: string
  readonly onOpen: (namespace: string) => void
  readonly onLeft: (namespace: string) => void
}

export interface Right {
  /** As `namespaceRoute` gives it. */
  readonly route: Route
  readonly user: User
}

const MAX_REFUSED_CONNECTS = 20
const MAX_CONNECTS_PER_MINUTE = 120
/** What a backend may say before it confirms a CONNECT. */
const MAX_HELD_PACKETS = 1000

export const NOTHING_DUE: Readonly<AttachmentsDue> = {
  client: 0,
  clientDropped: false,
  upstream: 0,
  upstreamFate: 'pass'
}

/** Whether bytes of the gateway's own would be taken for an attachment that is still due, by the upstream or by the client. */
export const owesUpstream = ({ due }: GateState): boolean => due.client > 0 && !due.clientDropped
export const owesClient = ({ due }: GateState): boolean => due.upstream > 0 && due.upstreamFate === 'pass'

export const createPacketGate = (parts: GateParts) => {
  const { state } = parts
  const { namespaces } = state
  const maxHeldBytes = parts.route.socketio?.maxMessageBytes ?? 1_000_000
  const connecting: ConnectParts = { ...parts, namespaces }
  let refused = 0
  let connects = 0
  let minute = 0
  /** Answers of the gateway's own that must not come between a packet and its attachments. */
  let waiting: string[] = []

  const leave = (namespace: string) => {
    if (namespaces.delete(namespace)) parts.onLeft(namespace)
  }

  const answer = (verdict: PacketVerdict): PacketVerdict => {
    if (verdict.verdict !== 'answer' || !owesClient(state)) return verdict
    waiting.push(verdict.text)
    return DROPPED
  }

  const connect = (packet: SocketIoPacket): PacketVerdict | Promise<PacketVerdict> => {
    if (namespaces.has(packet.namespace)) return violation('connected-already')
    const now = Math.floor(parts.now() / 60_000)
    connects = now === minute ? connects + 1 : 1
    minute = now
    if (connects > MAX_CONNECTS_PER_MINUTE) return violation('too-many-connects')
    const verdict = judgeConnect(connecting, packet)
    if (verdict instanceof Promise) return verdict
    if (verdict.verdict === 'answer' && ++refused > MAX_REFUSED_CONNECTS) return violation('too-many-connects')
    return answer(verdict)
  }

  const eventFromClient = (packet: SocketIoPacket): PacketVerdict => {
    const name = eventName(packet.rest)
    if (name === undefined) return violation('malformed-event')
    if (isReservedEvent(name)) return violation('reserved-event')
    const refusal = judgeEvent(packet.namespace, name)
    return refusal === undefined ? passAttached(packet) : refuseEvent(packet, name, refusal)
  }

  const judgeEvent = (namespace: string, event: string): GatewayError | undefined => {
    const right = parts.rightOf(namespace)
    if (right === undefined) return new Forbidden({ reason: 'not-connected' })
    const by = eventRoute(right.route, event)
    if (by === undefined) return new Forbidden({ reason: 'event-not-listed' })
    // To be in the namespace is enough for what has no roles of its own.
    return by === right.route ? undefined : parts.judge(by, right.user)
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

  const messageFromClient = (text: string): PacketVerdict | Promise<PacketVerdict> => {
    if (state.due.client > 0) return violation('attachment-due')
    const packet = readSocketIoPacket(text)
    if (packet === undefined) return violation('malformed-packet')
    const { type, namespace } = packet
    if (type === CONNECT) return connect(packet)
    if (type === CONNECT_ERROR) return violation('connect-error-from-client')
    if (!namespaces.has(namespace)) return violation('not-connected')
    if (type === EVENT || type === BINARY_EVENT) return eventFromClient(packet)
    if (type === ACK || type === BINARY_ACK) return passAttached(packet)
    if (packet.rest !== '') return violation('malformed-packet')
    leave(namespace)
    return PASSED
  }

  const binaryFromClient = (): PacketVerdict => {
    if (state.due.client === 0) return violation('attachment-undue')
    state.due.client--
    return state.due.clientDropped ? DROPPED : PASSED
  }

  const answerToConnect = (packet: SocketIoPacket, known: NamespaceState): PacketVerdict => {
    if (known.phase !== 'asked') return violation('upstream-connected-twice')
    const { identity, held = [] } = known
    bindRecovery(connecting, packet, identity)
    namespaces.set(packet.namespace, { identity, phase: 'open' })
    parts.onOpen(packet.namespace)
    // It may have been told to go before it was told that it is in.
    if (held.some(text => readSocketIoPacket(text.slice(1))?.type === DISCONNECT)) leave(packet.namespace)
    return held.length === 0 ? PASSED : { verdict: 'pass', released: held }
  }

  /** python-socketio sends what a connect handler emits before the confirmation; clients would deliver it. */
  const hold = (namespace: string, packet: EnginePacket): PacketVerdict => {
    const known = namespaces.get(namespace)
    if (known === undefined) return DROPPED
    const held = [...(known.held ?? []), textOf(packet)]
    const bytes = held.reduce((sum, { length }) => sum + length, 0)
    if (held.length > MAX_HELD_PACKETS || bytes > maxHeldBytes) return violation('upstream-too-much-before-connect')
    namespaces.set(namespace, { ...known, held })
    return DROPPED
  }

  const messageFromUpstream = (whole: EnginePacket): PacketVerdict => {
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
    if (type === CONNECT_ERROR) leave(namespace)
    else if (known.phase === 'asked') {
      due.upstreamFate = 'hold'
      due.heldFor = namespace
      return hold(namespace, whole)
    } else if (type === DISCONNECT) leave(namespace)
    return PASSED
  }

  const binaryFromUpstream = (packet: EnginePacket): PacketVerdict => {
    const { due } = state
    if (due.upstream === 0) return violation('upstream-attachment-undue')
    due.upstream--
    if (due.upstreamFate === 'hold') return hold(due.heldFor ?? '', packet)
    return due.upstreamFate === 'drop' ? DROPPED : PASSED
  }

  /** Adds the answers that had to wait for an attachment. */
  const withWaiting = (verdict: PacketVerdict): PacketVerdict => {
    if (waiting.length === 0 || verdict.verdict !== 'pass' || owesClient(state)) return verdict
    const released = [...(verdict.released ?? []), ...waiting]
    waiting = []
    return { ...verdict, released }
  }

  return {
    /** Only CONNECT with a recovery id has to wait for an answer. */
    fromClient({ type, text }: EnginePacket): PacketVerdict | Promise<PacketVerdict> {
      if (type === '4') return messageFromClient(text.slice(1))
      if (type === 'b') return binaryFromClient()
      if (type === '1' || type === '6' || text === '3') return PASSED
      return violation('unexpected-packet')
    },
    fromUpstream(packet: EnginePacket): PacketVerdict {
      if (packet.type === '4') return withWaiting(messageFromUpstream(packet))
      if (packet.type === 'b') return withWaiting(binaryFromUpstream(packet))
      return packet.type === '5' ? violation('upstream-unexpected-packet') : PASSED
    },
    /** The right to a namespace has ended: whether it was connected. */
    end(namespace: string): boolean {
      return namespaces.delete(namespace)
    }
  }
}

export type PacketGate = ReturnType<typeof createPacketGate>
