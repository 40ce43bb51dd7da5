// Holds the state of one Socket.IO session, on any transport; each of its namespaces is an open stream and ends with its access.
import { Forbidden, GatewayError, orThrow, RequestTimeout, TokenRevoked } from '../errors.ts'
import type { OpenStreams } from '../forward/open-streams.ts'
import type { StreamEnd } from '../forward/stream.ts'
import type { Exchange } from '../http/exchange.ts'
import type { Identity, User } from '../identity.ts'
import type { Instances } from '../instances/instances.ts'
import type { Route, SocketIoRoute } from '../routes/route.ts'
import { namespaceName, namespaceRoute } from '../routes/socketio-rules.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { ownText } from '../values/bounded-map.ts'
import { type Contained, noteFault } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import type { SocketForwarding } from '../websocket/upgrade.ts'
import {
  countHeldPackets,
  createGateState,
  type GateParts,
  type GateState,
  type Namespace,
  NO_ROOM,
  newNamespace,
  owesClient,
  owesUpstream,
  UNDECIDED
} from './gate/gate-state.ts'
import { createPacketGate, type PacketGate } from './gate/packet-gate.ts'
import { connectErrorPacket, disconnectPacket } from './protocol/packets.ts'

export type EngineSessionSource = Readonly<ReturnType<typeof sourceOf>>

/** The client and the destination of a session. */
export const sourceOf = (exchange: Exchange, route: SocketIoRoute, upstream: Upstream, target: Target) => ({
  route,
  upstream,
  target,
  path: ownText(exchange.path),
  host: ownText(exchange.host),
  hostName: exchange.hostName,
  requestId: ownText(exchange.requestId),
  ip: exchange.client.address,
  /** The key that limits count by. */
  ipKey: exchange.client.key
})

/** The transport to both sides; packets are Engine.IO text packets. */
interface Carrier {
  toClient(packets: readonly string[]): void
  toUpstream(packets: readonly string[]): void
  /** The session is over; `code` is a WebSocket close code. Packets passed earlier are still sent. */
  close(code: number): void
  bytes(): number
}

interface EngineSessionParts extends Pick<GateParts, 'recoveryIds' | 'check'> {
  readonly streams: OpenStreams
  readonly log: Log
  /** The identity behind a token that came from this address; throws 401. */
  readonly identify: (token: string, ip: string) => Identity
  /** What the route files say now about the route of a session. */
  readonly routeNow: (source: EngineSessionSource) => SocketIoRoute
  /** Milliseconds of the monotonic clock. */
  readonly now: () => number
  /** @param namespace as written in the route file */
  readonly countRefusedEvent: (routeId: string, namespace: string) => void
  readonly countRefusal: (refusal: GatewayError) => void
}

export interface SocketIoForwarding extends SocketForwarding, EngineSessionParts {
  /** `[name, value, …]` to add to a response with the fields `passed`. */
  readonly pollHeaders: (exchange: Exchange, passed: readonly string[]) => readonly string[]
  /** The processes among which requests of a session may be spread; undefined: there is one, or its balancer is sticky. */
  readonly instances: Pick<Instances, 'id' | 'ask' | 'answer'> | undefined
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
/** Refused events and CONNECTs of one session; all are counted. */
const MAX_LOGGED = 10

/** What the session that continues another must know; plain data, because that may be in another process. */
export interface HandedSession extends Pick<GateState, 'isProven' | 'due'> {
  /** Processes of the release before do not send it, nor `waiting`. */
  readonly left?: readonly string[]
  readonly waiting?: GateState['waiting']
  readonly unprovenBytes: number
  /** How long it still has for proving itself. */
  readonly proveMs: number
  readonly namespaces: readonly (readonly [string, Pick<Namespace, 'phase' | 'identity' | 'current' | 'held'>])[]
}

export type EngineSession = Readonly<ReturnType<typeof createEngineSession>>

/** @param onOver `isFinal`: its access ended, or it broke a rule; otherwise the client is to connect again */
export const createEngineSession = (
  parts: EngineSessionParts,
  source: EngineSessionSource,
  onOver: (isFinal: boolean) => void
) => {
  const { route, path, hostName, requestId } = source
  const state = createGateState()
  const { namespaces } = state
  let carrier: Carrier | undefined
  let { ip } = source
  let unprovenBytes = 0
  let releaseStream: (() => void) | undefined

  /**
   * Notifies both sides, in order, that namespaces are over; a side that expects an attachment would mistake it for that. After a
   * DISCONNECT, a stock client does not connect again, but after the end of its transport it does.
   */
  const disconnect = (names: readonly string[], code: number) => {
    const packets = names.map(disconnectPacket)
    if (!owesUpstream(state)) carrier?.toUpstream(packets)
    if (isFinal(code) && !owesClient(state)) carrier?.toClient(packets)
  }

  const close = (names: readonly string[], code: number) => {
    const last = carrier
    disconnect(names, code)
    leaveWith(isFinal(code))
    last?.close(code)
  }

  const leaveWith = (isFinal: boolean) => {
    if (engineSession.isOver) return
    engineSession.phase = 'over'
    engineSession.isOver = true
    for (const { stream } of namespaces.values()) stream.close()
    namespaces.clear()
    state.holding.close()
    releaseStream?.()
    carrier = undefined
    onOver(isFinal)
  }

  const endNamespace = (namespace: string, code: StreamEnd) => {
    const phase = engineSession.isOver ? undefined : gate.end(namespace)
    if (phase === undefined) return
    const isLast = [...namespaces.values()].every(other => other.phase === 'ended')
    // Neither side may mistake our packet for an attachment that it expects, so the whole session ends.
    if (!isFinal(code) || isLast || owesUpstream(state) || owesClient(state)) {
      close([...(phase === 'open' ? [namespace] : []), ...namespaceNames(state)], code)
    } else if (phase === 'open') disconnect([namespace], code)
    else {
      const refusal = code === 4401 ? new TokenRevoked({ reason: 'revoked' }) : new Forbidden({ reason: 'no-longer' })
      carrier?.toClient([connectErrorPacket(namespace, refusal)])
    }
  }

  /** Throws if the access has ended in the meantime, or no place is left. */
  const register = (name: string, checkedBy: Route, identity: Identity): Namespace => {
    const userId = identity.user.id
    // A session belongs to one person: its place counts for them from the first namespace that they request.
    releaseStream ??= orThrow(parts.streams.admit({ upstream: source.upstream, userId, ip: undefined }))
    state.holder.belongsTo(userId)
    const asked = newNamespace(identity, checkedBy)
    asked.stream = parts.streams.register(
      { kind: 'socketio', identity, route: checkedBy, path, hostName, namespace: name, requestId, ip: source.ip },
      {
        end: code => endNamespace(name, code),
        destroy: () => engineSession.end(1001),
        bytes: () => carrier?.bytes() ?? 0,
        onChange(current) {
          asked.current = current.identity ?? identity
          asked.right = { route: current.route, user: asked.current.user }
        }
      }
    )
    return asked
  }

  const gate = createPacketGate({
    ...parts,
    ...source,
    ...createRefusalNotes(parts, source),
    state,
    identify: token => parts.identify(token, ip),
    routeNow: () => parts.routeNow(source),
    register,
    onLeft() {
      const hasOpen = [...namespaces.values()].some(({ phase }) => phase === 'open')
      // The time begins again, for one that has been asked for meanwhile too.
      if (!hasOpen) engineSession.proveUntil = parts.now() + PROVE_MS
    },
    onLateConfirm(namespace) {
      if (owesUpstream(state)) engineSession.end(1001)
      else carrier?.toUpstream([disconnectPacket(namespace)])
    }
  })

  // Plain properties, read for every message: accessors would cost more (docs/internals.md).
  const engineSession = {
    source,
    gate: gate as PacketGate,
    state,
    phase: 'opening' as Phase,
    isOver: false,
    /** When it ends unless a namespace is open by then; milliseconds of the monotonic clock. */
    proveUntil: parts.now() + PROVE_MS,
    carryBy(phase: 'polling' | 'websocket', by: Carrier) {
      engineSession.phase = phase
      carrier = by
    },
    /** A WebSocket is tried while requests carry it; false: not possible now. */
    probe(): boolean {
      if (engineSession.phase !== 'polling') return false
      engineSession.phase = 'probing'
      return true
    },
    abandonProbe() {
      if (engineSession.phase === 'probing') engineSession.phase = 'polling'
    },
    comesFrom(address: string) {
      ip = address
    },
    /** How many bytes the client may still send before a namespace is open. */
    bytesLeft: () => (state.isProven ? Number.POSITIVE_INFINITY : UNPROVEN_BYTES - unprovenBytes),
    /** Counts what the client sent; false: too much before anything was proven. */
    takeBytes(bytes: number): boolean {
      unprovenBytes += bytes
      return engineSession.bytesLeft() >= 0
    },
    /** Ends everything: the upstream receives a DISCONNECT, so that nothing can be recovered. */
    end(code: number) {
      if (!engineSession.isOver) close(namespaceNames(state), code)
    },
    /** The same, while its transport can still send, but is about to close by itself. */
    endBeforeClose(code: number) {
      if (engineSession.isOver) return
      disconnect(namespaceNames(state), code)
      leaveWith(isFinal(code))
    },
    /** Ends it because of a forbidden packet, and logs that. */
    violate(reason: string) {
      // A refused CONNECT has been logged.
      if (!engineSession.isOver && reason !== UNDECIDED) logViolation(parts.log, source, reason)
      engineSession.end(isOfUpstream(reason) ? 1011 : FORGIVABLE.has(reason) ? 1001 : 1008)
    },
    /** The transport is gone, so nothing more can be sent. */
    leave: () => leaveWith(false),
    onThrown(error: unknown) {
      noteFault('socketio', error, requestId)
      const last = carrier
      try {
        engineSession.end(1001)
      } catch (further) {
        noteFault('socketio', further, requestId)
        leaveWith(false)
        last?.close(1001)
      }
    },
    /** It is over here, and another session continues it. */
    handOver(): HandedSession {
      const handed = {
        isProven: state.isProven,
        due: state.due,
        left: [...state.left],
        waiting: state.waiting,
        unprovenBytes,
        proveMs: engineSession.proveUntil - parts.now(),
        namespaces: Array.from(
          namespaces,
          ([name, { phase, identity, current, held }]) => [name, { phase, identity, current, held }] as const
        )
      }
      leaveWith(false)
      return handed
    },
    /** Continues another session; ends if one of its accesses has ended meanwhile. */
    adopt(other: HandedSession) {
      state.isProven = other.isProven
      Object.assign(state.due, other.due)
      for (const name of other.left ?? []) state.left.add(name)
      Object.assign(state.waiting, other.waiting)
      unprovenBytes += other.unprovenBytes
      engineSession.proveUntil = parts.now() + other.proveMs
      // All of them are known first: whatever ends the session, the upstream gets a DISCONNECT for each.
      for (const [name, one] of other.namespaces) namespaces.set(name, { ...newNamespace(one.identity, route), ...one })
      countHeldPackets(state)
      try {
        for (const [name, one] of other.namespaces) {
          if (one.phase === 'ended') continue
          const checkedBy = namespaceRoute(route, name)
          if (checkedBy === undefined) throw new Forbidden({ reason: 'no-namespace' })
          namespaces.set(name, Object.assign(register(name, checkedBy, one.current ?? one.identity), one))
        }
      } catch (error) {
        engineSession.end(endingAfter(error, 4401))
      }
    }
  }
  return engineSession satisfies Contained
}

/** Counts the refusals of one session, and logs the first of them. */
const createRefusalNotes = (parts: EngineSessionParts, source: EngineSessionSource) => {
  const { route, requestId, ip } = source
  let refused = 0
  const note = (fields: object, { reason }: GatewayError, message: string) => {
    if (++refused <= MAX_LOGGED) parts.log.info({ requestId, route: route.id, ...fields, reason }, message)
  }
  return {
    onRefusedConnect(namespace: string, user: User | undefined, refusal: GatewayError) {
      parts.countRefusal(refusal)
      // What a client sent as a name is written only if a route file lists it.
      const named = namespaceRoute(parts.routeNow(source), namespace) === undefined ? {} : { namespace }
      const fields = { ...named, user: user?.username, code: refusal.code, ip }
      note(fields, refusal, 'refused a Socket.IO CONNECT')
    },
    onRefusedEvent(namespace: string, event: string, refusal: GatewayError, right: Namespace['right']) {
      parts.countRefusedEvent(route.id, namespaceName(right.route))
      note({ namespace, event, user: right.user.username }, refusal, 'refused a Socket.IO event')
    }
  }
}

/** Those that the upstream has confirmed come first: at one that it does not know, the stock server closes everything. */
const namespaceNames = ({ namespaces }: GateState): string[] => {
  const { open = [], other = [] } = Object.groupBy(namespaces, ([, { phase }]) => (phase === 'open' ? phase : 'other'))
  return [...open, ...other].map(([name]) => name)
}

const logViolation = (log: Log, { requestId, route, upstream }: EngineSessionSource, reason: string) => {
  const fields = { requestId, route: route.id, upstream: upstream.name, reason }
  if (isOfUpstream(reason)) log.warn(fields, 'ended a Socket.IO session because of what its upstream sent')
  else log.info(fields, 'ended a Socket.IO session because of what its client sent')
}

const isOfUpstream = (reason: string): boolean => reason.startsWith('upstream-')

/**
 * After these the client may connect again. A stock client that gives a CONNECT up before it is confirmed says nothing, and may send
 * another one (`connected-already`). Browsers and Node.js send a request again if its connection, kept from before, was reset, also
 * while the first one is handled (`overlapping-…`). Places for streams and memory become free again, and other processes may have some.
 */
const FORGIVABLE: ReadonlySet<string | undefined> = new Set([
  'client-gone',
  'connected-already',
  'overlapping-polls',
  'overlapping-posts',
  'too-many-streams',
  UNDECIDED,
  NO_ROOM
])

const isFinal = (code: number): boolean => code === 1008 || code === 4401 || code === 4403

/** How to end a session whose request failed: with `code` if its client caused that; a slow or broken connection is no fault of its own. */
export const endingAfter = (error: unknown, code: 1008 | 4401): number => {
  const isRefusal = error instanceof GatewayError && error.statusCode < 500
  const isLost = isRefusal && (error.statusCode === RequestTimeout.statusCode || FORGIVABLE.has(error.reason))
  return isRefusal && !isLost ? code : 1001
}
