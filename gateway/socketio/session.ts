// Holds the state of one Socket.IO session, on any transport, and ends each namespace when the access to it ends.
import { GatewayError, RequestTimeout } from '../errors.ts'
import type { StreamEnd } from '../forward/stream.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { type Contained, noteFault } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import { type GateState, NOTHING_DUE, owesClient, owesUpstream } from './gate/gate-state.ts'
import { createPacketGate, type PacketGate } from './gate/packet-gate.ts'
import { advance, begin, bytesLeft, joined, type Life, type Phase, provableFrom, proved, tookBytes } from './life.ts'
import { disconnectPacket } from './protocol/packets.ts'
import { createSessionRights, type SessionRightsParts } from './session-rights.ts'
import type { SessionSource } from './session-source.ts'
import type { SidRecord, SidStore } from './sid-store.ts'

/** The transport to both sides; packets are Engine.IO text packets. */
export interface Carrier {
  toClient(packets: readonly string[]): void
  toUpstream(packets: readonly string[]): void
  /** The session is over; `code` is a WebSocket close code. Packets passed earlier are still sent. */
  close(code: number): void
  bytes(): number
}

export interface SessionParts extends SessionRightsParts {
  readonly sidStore: SidStore
  /** The identity behind a token that came from this address; throws 401. */
  readonly identify: (token: string, ip: string) => Identity
  readonly judge: (route: Route, user: User) => GatewayError | undefined
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

/** How a session ended. */
export interface SessionEnd {
  readonly from: Phase
  /** Its access ended, or it broke a rule; otherwise the client is to connect again. */
  readonly isFinal: boolean
}

export interface Session extends Contained {
  readonly source: SessionSource
  readonly gate: PacketGate
  readonly state: GateState
  /** The current phase, changed only here by the steps below. */
  readonly life: Life
  readonly isOver: boolean
  /** Polling carries it. @param createdAt as recorded by the instance that opened it */
  poll(carrier: Carrier, createdAt: number): void
  /** A WebSocket carries it from the start. */
  openSocket(carrier: Carrier): void
  /** A WebSocket is tried while requests carry it; false: not possible now. */
  probe(): boolean
  abandonProbe(): void
  /** The WebSocket that was tried carries it from now on; false: it was no longer being tried. */
  upgrade(carrier: Carrier): boolean
  /** Counts what the client sent; false: too much before anything was proven. */
  takeBytes(bytes: number): boolean
  /** Ends everything: the upstream receives a DISCONNECT, so that nothing can be recovered. */
  end(code: number): void
  /** Ends it because of a forbidden packet, and logs that. */
  violate(reason: string): void
  /** The transport is gone, so nothing more can be sent. */
  leave(): void
  /** If instances share sessions: whether this one must tell the upstream about an ended namespace; undefined: always. */
  claimBy(claim: Claim | undefined): void
  /** Adopts what another instance has written; throws if one of its accesses has ended. */
  adopt(record: SidRecord): void
}

type Claim = (namespace: string) => Promise<boolean>

/** The same, in a form that its owner can change. */
type OwnSession = Omit<Session, 'life' | 'isOver'> & { life: Life; isOver: boolean }

export const createSession = (
  parts: SessionParts,
  source: SessionSource,
  onOver: (session: Session, end: SessionEnd) => void
): Session => {
  let carrier: Carrier | undefined
  let claim: Claim | undefined
  const state: GateState = { namespaces: new Map(), due: { ...NOTHING_DUE } }

  /** Adopts the next state; undefined: the current phase has no such transition. Returns whether it was adopted. */
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
    // Several instances may notice; a second DISCONNECT would cost the session its other namespaces.
    claim(namespace)
      .catch(() => true)
      .then(isOurs => isOurs && tellEnd(namespace, code))
  }

  const tellEnd = (namespace: string, code: StreamEnd) => {
    if (session.isOver) return
    // Neither side may mistake our packet for an attachment that it expects, so the whole session ends.
    const endsAlone = isFinal(code) && state.namespaces.size > 0 && !owesUpstream(state) && !owesClient(state)
    if (endsAlone) disconnect(carrier, state, [namespace], code)
    else close([namespace, ...state.namespaces.keys()], code)
  }

  const close = (namespaces: readonly string[], code: number) => {
    const last = carrier
    disconnect(last, state, namespaces, code)
    leaveWith(isFinal(code))
    last?.close(code)
  }

  const leaveWith = (isFinal: boolean) => {
    const from = session.life.phase
    if (!become(advance(session.life, 'end'))) return
    state.namespaces.clear()
    rights.close()
    carrier = undefined
    onOver(session, { from, isFinal })
  }

  /** Whether the transition could be performed; `by` carries the session from then on. */
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
    onRefusedConnect: rights.noteRefusedConnect,
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
      session.end(isOfUpstream(reason) ? 1011 : 1008)
    },
    leave: () => leaveWith(false),
    onThrown(error) {
      noteFault('socketio', error, source.requestId)
      const last = carrier
      try {
        session.end(1001)
      } catch (further) {
        noteFault('socketio', further, source.requestId)
        leaveWith(false)
        last?.close(1001)
      }
    },
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

const logViolation = (log: Log, { requestId, route, upstream }: SessionSource, reason: string) => {
  const fields = { requestId, route: route.id, upstream: upstream.name, reason }
  if (isOfUpstream(reason)) log.warn(fields, 'ended a Socket.IO session because of what its upstream sent')
  else log.info(fields, 'ended a Socket.IO session because of what its client sent')
}

const isOfUpstream = (reason: string): boolean => reason.startsWith('upstream-')

const isFinal = (code: number): boolean => code === 1008 || code === 4401 || code === 4403

/**
 * Notifies both sides, in order, that namespaces are over; a side that expects an attachment would mistake it for that. After a
 * DISCONNECT, a stock client does not connect again, but after the end of its transport it does.
 */
const disconnect = (carrier: Carrier | undefined, state: GateState, namespaces: readonly string[], code: number) => {
  const packets = namespaces.map(disconnectPacket)
  if (!owesUpstream(state)) carrier?.toUpstream(packets)
  if (isFinal(code) && !owesClient(state)) carrier?.toClient(packets)
}

/** Ends a session whose request failed, with `code` if its client caused that; a slow or broken connection is no fault of its own. */
export const endAfter = (session: Session, error: unknown, code: 1008 | 4401): void => {
  const isRefusal = error instanceof GatewayError && error.statusCode < 500
  const isLost = isRefusal && (error.statusCode === RequestTimeout.statusCode || error.reason === 'client-gone')
  session.end(isRefusal && !isLost ? code : 1001)
}
