// Checks each packet of a Socket.IO session, which passes only in a namespace whose CONNECT was accepted.
import { createClientPackets } from './client-packets.ts'
import { type GateParts, type GateState, type NamespaceState, owesClient } from './gate-state.ts'
import { DROPPED, type PacketVerdict } from './packet-verdict.ts'
import { createUpstreamPackets } from './upstream-packets.ts'

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
