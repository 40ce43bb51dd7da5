// Checks the packets that the upstream of a Socket.IO session sends: which pass, and which wait until a CONNECT is confirmed.
import { burstBytes, type EnginePacket, textOf } from '../protocol/engineio.ts'
import { CONNECT, CONNECT_ERROR, DISCONNECT, readSocketIoPacket, type SocketIoPacket } from '../protocol/packets.ts'
import { bindRecovery } from './connect.ts'
import { type GateParts, leaveNamespace, type NamespaceState } from './gate-state.ts'
import { DROPPED, PASSED, type PacketVerdict, violation } from './packet-verdict.ts'

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
