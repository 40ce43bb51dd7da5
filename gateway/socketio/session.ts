// Holds the state of one Socket.IO session, on any transport, and ends each namespace when the access to it ends.
import type { GatewayError } from '../errors.ts'
import type { StreamEnd } from '../forward/open-streams.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import type { SocketLog } from '../websocket/forward.ts'
import { type GateState, NOTHING_DUE, owesClient, owesUpstream } from './gate/gate-state.ts'
import { createPacketGate, type PacketGate } from './gate/packet-gate.ts'
import { advance, begin, bytesLeft, joined, type Life, type Phase, provableFrom, proved, tookBytes } from './life.ts'
import { disconnectPacket } from './protocol/packets.ts'
import { createSessionRights, type SessionRightsParts } from './session-rights.ts'
import type { SessionSource } from './session-source.ts'
import type { SidRecord, SidStore } from './sid-store.ts'

/** What carries packets to both sides; packets are Engine.IO text packets. */
export interface Carrier {
  toClient(packets: readonly string[]): void
  toUpstream(packets: readonly string[]): void
  /** The session is over; `code` is that of a WebSocket close. Packets given before still go. */
  close(code: number): void
  bytes(): number
}

export interface SessionParts extends SessionRightsParts {
  readonly sidStore: SidStore
  /** Who a token that came from this address says is asking; throws 401. */
  readonly identify: (token: string, ip: string) => Identity
  readonly judge: (route: Route, user: User) => GatewayError | undefined
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

export interface Session {
  readonly source: SessionSource
  readonly gate: PacketGate
  readonly state: GateState
  /** Where it stands; changed here alone, by the steps below. */
  readonly life: Life
  readonly isOver: boolean
  /** The polling transport carries it. @param createdAt as the instance that opened it knows */
  poll(carrier: Carrier, createdAt: number): void
  /** A WebSocket carries it from the start. */
  openSocket(carrier: Carrier): void
  /** A WebSocket is tried while requests carry it; false: not now. */
  probe(): boolean
  abandonProbe(): void
  /** The WebSocket that was tried carries it from now on; false: it was not being tried any more. */
  upgrade(carrier: Carrier): boolean
  /** Counts what the client sent; false: too much before anything was proven. */
  takeBytes(bytes: number): boolean
  /** Ends everything: the upstream gets a DISCONNECT, so that nothing can be recovered. */
  end(code: number): void
  /** Ends it for a packet that must not pass, and says so in the log. */
  violate(reason: string): void
  /** The carrier is gone: nothing more can be told. */
  leave(): void
  /** Where instances share sessions: whether an ended namespace is ours to tell the upstream of; undefined: all are. */
  claimBy(claim: Claim | undefined): void
  /** Takes up what another instance has written; throws when a right in it has ended. */
  adopt(record: SidRecord): void
}

type Claim = (namespace: string) => Promise<boolean>

/** The same, as its owner changes it. */
type OwnSession = Omit<Session, 'life' | 'isOver'> & { life: Life; isOver: boolean }

export const createSession = (
  parts: SessionParts,
  source: SessionSource,
  onOver: (session: Session, from: Phase) => void
): Session => {
  let carrier: Carrier | undefined
  let claim: Claim | undefined
  const state: GateState = { namespaces: new Map(), due: { ...NOTHING_DUE } }

  /** undefined: there is no such step from where it stands; whether it was taken. */
  const become = (next: Life | undefined): boolean => {
    if (next === undefined) return false
    session.life = next
    session.isOver = next.phase === 'over'
    return true
  }

  const release = (namespace: string) => {
    if (!rights.release(namespace)) become(provableFrom(session.life, parts.now()))
  }

  const endNamespace = (namespace: string, code: StreamEnd) => {
    if (session.isOver || !gate.end(namespace)) return
    if (claim === undefined) return tellEnd(namespace, code)
    // Several instances may learn of it; a second DISCONNECT would cost the session its other namespaces.
    claim(namespace)
      .catch(() => true)
      .then(isOurs => isOurs && tellEnd(namespace, code))
  }

  const tellEnd = (namespace: string, code: StreamEnd) => {
    if (session.isOver) return
    // Neither side may take our word for an attachment that it waits for: then the whole session ends.
    const endsAlone = state.namespaces.size > 0 && !owesUpstream(state) && !owesClient(state)
    if (endsAlone) disconnect(carrier, state, [namespace])
    else close([namespace, ...state.namespaces.keys()], code)
  }

  const close = (namespaces: readonly string[], code: number) => {
    const last = carrier
    disconnect(last, state, namespaces)
    leave()
    last?.close(code)
  }

  const leave = () => {
    const from = session.life.phase
    if (!become(advance(session.life, 'end'))) return
    state.namespaces.clear()
    rights.close()
    carrier = undefined
    onOver(session, from)
  }

  /** Whether the step could be taken; `by` carries the session from then on. */
  const carryBy = (step: 'poll' | 'open-socket' | 'upgrade', by: Carrier): boolean => {
    if (!become(advance(session.life, step))) return false
    carrier = by
    return true
  }

  const rights = createSessionRights(parts, source, {
    end: endNamespace,
    destroy: () => session.end(1001),
    bytes: () => carrier?.bytes() ?? 0
  })

  const gate = createPacketGate({
    ...parts,
    ...source,
    state,
    identify: token => parts.identify(token, source.ip),
    pids: parts.sidStore,
    onAsked: rights.register,
    rightOf: rights.of,
    onRefusedEvent: rights.noteRefusedEvent,
    onOpen: () => void become(proved(session.life)),
    onLeft: release
  })

  // Plain properties, read for every message: accessors would cost more (docs/internals.md).
  const session: OwnSession = {
    source,
    gate,
    state,
    life: begin(parts.now()),
    isOver: false,
    poll(by, createdAt) {
      if (carryBy('poll', by)) become(provableFrom(session.life, createdAt))
    },
    openSocket: by => void carryBy('open-socket', by),
    probe: () => become(advance(session.life, 'probe')),
    abandonProbe: () => void become(advance(session.life, 'abandon-probe')),
    upgrade: by => carryBy('upgrade', by),
    takeBytes(bytes) {
      become(tookBytes(session.life, bytes))
      return bytesLeft(session.life) >= 0
    },
    claimBy(by) {
      claim = by
    },
    end(code) {
      if (!session.isOver) close([...state.namespaces.keys()], code)
    },
    violate(reason) {
      if (!session.isOver) logViolation(parts.log, source, reason)
      session.end(1008)
    },
    leave,
    adopt(record) {
      become(joined(session.life, record))
      state.due = { ...record.due }
      for (const name of [...state.namespaces.keys()]) {
        if (record.namespaces[name] === undefined && state.namespaces.delete(name)) release(name)
      }
      rights.adopt(state.namespaces, record.namespaces)
    }
  }
  return session
}

const logViolation = (log: SocketLog, { requestId, route, upstream }: SessionSource, reason: string) => {
  const fields = { requestId, route: route.id, upstream: upstream.name, reason }
  if (reason.startsWith('upstream-')) log.warn(fields, 'ended a Socket.IO session because of what its upstream sent')
  else log.info(fields, 'ended a Socket.IO session because of what its client sent')
}

/** Tells both sides, in order, that namespaces are over; a side that waits for an attachment would take it for that. */
const disconnect = (carrier: Carrier | undefined, state: GateState, namespaces: readonly string[]) => {
  const packets = namespaces.map(disconnectPacket)
  if (!owesUpstream(state)) carrier?.toUpstream(packets)
  if (!owesClient(state)) carrier?.toClient(packets)
}
