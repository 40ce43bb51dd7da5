// Holds the state of one Socket.IO session, on any transport, and ends each namespace when the access to it ends.
import { Forbidden, GatewayError, RequestTimeout, TokenRevoked } from '../errors.ts'
import type { StreamEnd } from '../forward/stream.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { type Contained, noteFault } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import {
  type AttachmentsDue,
  type GateState,
  type NamespaceState,
  NOTHING_DUE,
  owesClient,
  owesUpstream
} from './gate/gate-state.ts'
import { createPacketGate, type PacketGate } from './gate/packet-gate.ts'
import { connectErrorPacket, disconnectPacket } from './protocol/packets.ts'
import type { RecoveryIds } from './recovery-ids.ts'
import { createSessionRights, type SessionRightsParts } from './session-rights.ts'
import type { SessionSource } from './session-source.ts'

/** The transport to both sides; packets are Engine.IO text packets. */
interface Carrier {
  toClient(packets: readonly string[]): void
  toUpstream(packets: readonly string[]): void
  /** The session is over; `code` is a WebSocket close code. Packets passed earlier are still sent. */
  close(code: number): void
  bytes(): number
}

export interface SessionParts extends SessionRightsParts {
  readonly recoveryIds: RecoveryIds
  /** The identity behind a token that came from this address; throws 401. */
  readonly identify: (token: string, ip: string) => Identity
  readonly check: (route: Route, user: User) => GatewayError | undefined
  /** Milliseconds of the monotonic clock. */
  readonly now: () => number
}

/**
 * `opening`: no transport yet; a WebSocket that is tried for a polling session has a session in this phase. `polling`: carried by
 * requests. `probing`: the same, while a WebSocket is being tried. `websocket`: carried by a WebSocket. `over`: nothing more can be
 * sent here.
 */
type Phase = 'opening' | 'polling' | 'probing' | 'websocket' | 'over'

/** A session without an open namespace ends after this time. */
const PROVE_MS = 10_000
/** What a client may send before its first namespace is open. */
const UNPROVEN_BYTES = 100_000

/** What the session that continues another must know; plain data, because that may be in another process. */
export interface HandedSession {
  readonly isProven: boolean
  readonly unprovenBytes: number
  /** How long it still has for proving itself. */
  readonly proveMs: number
  readonly due: AttachmentsDue
  readonly namespaces: readonly (readonly [string, NamespaceState])[]
}

export interface Session extends Contained {
  readonly source: SessionSource
  readonly gate: PacketGate
  readonly state: GateState
  readonly phase: Phase
  readonly isOver: boolean
  /** When it ends unless a namespace is open by then; milliseconds of the monotonic clock. */
  readonly proveUntil: number
  /** Polling carries it. */
  poll(carrier: Carrier): void
  /** A WebSocket carries it from now on. */
  openSocket(carrier: Carrier): void
  /** A WebSocket is tried while requests carry it; false: not possible now. */
  probe(): boolean
  abandonProbe(): void
  /** The client's next packets come from this address. */
  comesFrom(ip: string): void
  /** How many bytes the client may still send before a namespace is open. */
  bytesLeft(): number
  /** Counts what the client sent; false: too much before anything was proven. */
  takeBytes(bytes: number): boolean
  /** Ends everything: the upstream receives a DISCONNECT, so that nothing can be recovered. */
  end(code: number): void
  /** Ends it because of a forbidden packet, and logs that. */
  violate(reason: string): void
  /** The transport is gone, so nothing more can be sent. */
  leave(): void
  /** It is over here, and another session continues it. */
  handOver(): HandedSession
  /** Continues another session; ends if one of its accesses has ended meanwhile. */
  adopt(other: HandedSession): void
}

/** The same, in a form that its owner can change. */
type OwnSession = { -readonly [K in keyof Session]: Session[K] }

/** @param onOver `isFinal`: its access ended, or it broke a rule; otherwise the client is to connect again */
export const createSession = (
  parts: SessionParts,
  source: SessionSource,
  onOver: (session: Session, isFinal: boolean) => void
): Session => {
  let carrier: Carrier | undefined
  let { ip } = source
  /** Whether a namespace has been open since the session began. */
  let isProven = false
  let unprovenBytes = 0
  const state: GateState = { namespaces: new Map(), due: { ...NOTHING_DUE } }

  const release = (namespace: string) => {
    // It was the last one: the time begins again.
    if (!rights.release(namespace)) session.proveUntil = parts.now() + PROVE_MS
  }

  const endNamespace = (namespace: string, code: StreamEnd) => {
    const phase = session.isOver ? undefined : gate.end(namespace)
    if (phase === undefined) return
    const isLast = [...state.namespaces.values()].every(other => other.phase === 'ended')
    // Neither side may mistake our packet for an attachment that it expects, so the whole session ends.
    if (!isFinal(code) || isLast || owesUpstream(state) || owesClient(state)) {
      close([...(phase === 'open' ? [namespace] : []), ...namespaceNames(state)], code)
    } else if (phase === 'open') disconnect(carrier, state, [namespace], code)
    else {
      const refusal = code === 4401 ? new TokenRevoked({ reason: 'revoked' }) : new Forbidden({ reason: 'no-longer' })
      carrier?.toClient([connectErrorPacket(namespace, refusal)])
    }
  }

  const close = (namespaces: readonly string[], code: number) => {
    const last = carrier
    disconnect(last, state, namespaces, code)
    leaveWith(isFinal(code))
    last?.close(code)
  }

  const leaveWith = (isFinal: boolean) => {
    if (session.isOver) return
    session.phase = 'over'
    session.isOver = true
    state.namespaces.clear()
    rights.close()
    carrier = undefined
    onOver(session, isFinal)
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
    identify: token => parts.identify(token, ip),
    onAsked: rights.register,
    rightOf: rights.of,
    onRefusedConnect: rights.noteRefusedConnect,
    onRefusedEvent: rights.noteRefusedEvent,
    onOpen() {
      isProven = true
    },
    onLeft: release,
    onLateConfirm(namespace) {
      if (owesUpstream(state)) session.end(1001)
      else carrier?.toUpstream([disconnectPacket(namespace)])
    }
  })

  // Plain properties, read for every message: accessors would cost more (docs/internals.md).
  const session: OwnSession = {
    source,
    gate,
    state,
    phase: 'opening',
    isOver: false,
    proveUntil: parts.now() + PROVE_MS,
    poll(by) {
      session.phase = 'polling'
      carrier = by
    },
    openSocket(by) {
      session.phase = 'websocket'
      carrier = by
    },
    probe() {
      if (session.phase !== 'polling') return false
      session.phase = 'probing'
      return true
    },
    abandonProbe() {
      if (session.phase === 'probing') session.phase = 'polling'
    },
    comesFrom(address) {
      ip = address
    },
    bytesLeft: () => (isProven ? Number.POSITIVE_INFINITY : UNPROVEN_BYTES - unprovenBytes),
    takeBytes(bytes) {
      unprovenBytes += bytes
      return session.bytesLeft() >= 0
    },
    end(code) {
      if (!session.isOver) close(namespaceNames(state), code)
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
    handOver() {
      const proof = { isProven, unprovenBytes, proveMs: session.proveUntil - parts.now() }
      const other = { ...proof, due: state.due, namespaces: [...state.namespaces] }
      leaveWith(false)
      return other
    },
    adopt({ due, namespaces, ...proof }) {
      isProven = proof.isProven
      unprovenBytes += proof.unprovenBytes
      session.proveUntil = parts.now() + proof.proveMs
      state.due = due
      for (const [name, namespace] of namespaces) state.namespaces.set(name, namespace)
      try {
        for (const [name, namespace] of namespaces) rights.adopt(name, namespace)
      } catch (error) {
        session.end(endingAfter(error, 4401))
      }
    }
  }
  return session
}

/** Those that the upstream has confirmed come first: at one that it does not know, the stock server closes everything. */
const namespaceNames = ({ namespaces }: GateState): string[] => {
  const names = (isOpen: boolean) =>
    [...namespaces].filter(([, { phase }]) => (phase === 'open') === isOpen).map(([name]) => name)
  return [...names(true), ...names(false)]
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

/** How to end a session whose request failed: with `code` if its client caused that; a slow or broken connection is no fault of its own. */
export const endingAfter = (error: unknown, code: 1008 | 4401): number => {
  const isRefusal = error instanceof GatewayError && error.statusCode < 500
  const isLost = isRefusal && (error.statusCode === RequestTimeout.statusCode || error.reason === 'client-gone')
  return isRefusal && !isLost ? code : 1001
}
