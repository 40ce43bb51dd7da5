// Holds the state of one Socket.IO session, whichever transport carries it, and ends each namespace when its right does.
import { GatewayError } from '../errors.ts'
import type { OpenStreams, StreamEnd, StreamHandle } from '../forward/open-streams.ts'
import type { Identity, User } from '../identity.ts'
import type { Route, Target, Upstream } from '../routes/route.ts'
import type { SocketLog } from '../websocket/forward.ts'
import {
  createPacketGate,
  type GateState,
  NOTHING_DUE,
  owesClient,
  owesUpstream,
  type PacketGate,
  type Right
} from './gate/packet-gate.ts'
import { advance, begin, bytesLeft, joined, type Life, type Phase, provableFrom, proved, tookBytes } from './life.ts'
import { namespaceName, namespaceRoute } from './namespaces.ts'
import { disconnectPacket } from './protocol/packets.ts'
import type { SidRecord, SidStore } from './sid-store.ts'

/** What carries packets to both sides; packets are Engine.IO text packets. */
export interface Carrier {
  toClient(packets: readonly string[]): void
  toUpstream(packets: readonly string[]): void
  /** The session is over; `code` is that of a WebSocket close. Packets given before still go. */
  close(code: number): void
  bytes(): number
}

export interface SessionParts {
  readonly streams: OpenStreams
  readonly sidStore: SidStore
  /** Who a token that came from this address says is asking; throws 401. */
  readonly identify: (token: string, ip: string) => Identity
  readonly judge: (route: Route, user: User) => GatewayError | undefined
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly log: SocketLog
  /** @param namespace as the route file names it */
  readonly countRefusedEvent: (routeId: string, namespace: string) => void
}

export interface SessionSource {
  readonly route: Route
  readonly upstream: Upstream
  readonly target: Target
  readonly path: string
  readonly requestId: string
  readonly ip: string
  /** What limits count by. */
  readonly ipKey: string
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

/** Of one session; all are counted. */
const MAX_LOGGED_EVENTS = 10

/** The same, as its owner changes it. */
type OwnSession = Omit<Session, 'life' | 'isOver'> & { life: Life; isOver: boolean }

export const createSession = (
  parts: SessionParts,
  source: SessionSource,
  onOver: (session: Session, from: Phase) => void
): Session => {
  const { route, path, requestId, ip } = source
  const handles = new Map<string, StreamHandle>()
  const rights = new Map<string, Right>()
  let refusedEvents = 0
  let leavePlace: (() => void) | undefined
  let life = begin(parts.now())
  let carrier: Carrier | undefined
  let claim: Claim | undefined
  const state: GateState = { namespaces: new Map(), due: { ...NOTHING_DUE } }

  const become = (next: Life) => {
    life = next
    session.life = next
    session.isOver = next.phase === 'over'
  }

  /** A session is one person's: its place counts for them from the first namespace that they ask for. */
  const takePlace = (userId: number) => {
    const taken = parts.streams.admit({ upstream: source.upstream, userId, ip: undefined })
    if (taken instanceof GatewayError) throw taken
    leavePlace = taken
  }

  const register = (namespace: string, judgedBy: Route, identity: Identity) => {
    if (leavePlace === undefined) takePlace(identity.user.id)
    rights.set(namespace, { route: judgedBy, user: identity.user })
    const handle = parts.streams.register(
      { kind: 'socketio', identity, route: judgedBy, path, namespace, requestId, ip },
      {
        end: code => endNamespace(namespace, code),
        destroy: () => session.end(1001),
        bytes: () => carrier?.bytes() ?? 0,
        onChange: stream => rights.set(namespace, { route: stream.route, user: stream.identity?.user ?? identity.user })
      }
    )
    handles.set(namespace, handle)
  }

  const release = (namespace: string) => {
    handles.get(namespace)?.close()
    handles.delete(namespace)
    rights.delete(namespace)
    if (handles.size === 0) become(provableFrom(life, parts.now()))
  }

  const endNamespace = (namespace: string, code: StreamEnd) => {
    handles.delete(namespace)
    rights.delete(namespace)
    if (session.isOver || !gate.end(namespace)) return
    if (claim === undefined) return tellEnd(namespace, code)
    // Several instances may learn of it; a second DISCONNECT would cost the session its other namespaces.
    claim(namespace).then(
      isOurs => (isOurs ? tellEnd(namespace, code) : undefined),
      () => tellEnd(namespace, code)
    )
  }

  const tellEnd = (namespace: string, code: StreamEnd) => {
    if (session.isOver) return
    // Neither side may take our word for an attachment that it waits for: then the whole session ends.
    if (state.namespaces.size === 0 || owesUpstream(state) || owesClient(state)) {
      return close([namespace, ...state.namespaces.keys()], code)
    }
    carrier?.toUpstream([disconnectPacket(namespace)])
    carrier?.toClient([disconnectPacket(namespace)])
  }

  const close = (namespaces: readonly string[], code: number) => {
    const packets = namespaces.map(disconnectPacket)
    const last = carrier
    if (!owesUpstream(state)) last?.toUpstream(packets)
    if (!owesClient(state)) last?.toClient(packets)
    leave()
    last?.close(code)
  }

  const leave = () => {
    const ended = advance(life, 'end')
    if (ended === undefined) return
    const from = life.phase
    become(ended)
    leavePlace?.()
    for (const handle of handles.values()) handle.close()
    handles.clear()
    state.namespaces.clear()
    rights.clear()
    carrier = undefined
    onOver(session, from)
  }

  /** Whether the step could be taken; `by` carries the session from then on. */
  const carryBy = (step: 'poll' | 'open-socket' | 'upgrade', by: Carrier): boolean => {
    const next = advance(life, step)
    if (next === undefined) return false
    become(next)
    carrier = by
    return true
  }

  const onRefusedEvent = (namespace: string, event: string, { reason }: GatewayError) => {
    const right = rights.get(namespace)
    parts.countRefusedEvent(route.id, right === undefined ? '' : namespaceName(right.route))
    if (++refusedEvents > MAX_LOGGED_EVENTS) return
    const user = right?.user.username
    parts.log.info({ requestId, route: route.id, namespace, event, user, reason }, 'refused a Socket.IO event')
  }

  const gate = createPacketGate({
    route,
    state,
    identify: token => parts.identify(token, ip),
    judge: parts.judge,
    pids: parts.sidStore,
    now: parts.now,
    onAsked: register,
    requestId,
    rightOf: namespace => rights.get(namespace),
    onRefusedEvent,
    onOpen() {
      become(proved(life))
    },
    onLeft: release
  })

  // Plain properties, read for every message: accessors would cost more (docs/internals.md).
  const session: OwnSession = {
    source,
    gate,
    state,
    life,
    isOver: false,
    poll(by, createdAt) {
      if (carryBy('poll', by)) become(provableFrom(life, createdAt))
    },
    openSocket: by => void carryBy('open-socket', by),
    probe() {
      const next = advance(life, 'probe')
      become(next ?? life)
      return next !== undefined
    },
    abandonProbe() {
      become(advance(life, 'abandon-probe') ?? life)
    },
    upgrade: by => carryBy('upgrade', by),
    takeBytes(bytes) {
      become(tookBytes(life, bytes))
      return bytesLeft(life) >= 0
    },
    claimBy(by) {
      claim = by
    },
    end(code) {
      if (!session.isOver) close([...state.namespaces.keys()], code)
    },
    violate(reason) {
      if (session.isOver) return
      const fields = { requestId, route: route.id, upstream: source.upstream.name, reason }
      if (reason.startsWith('upstream-'))
        parts.log.warn(fields, 'ended a Socket.IO session because of what its upstream sent')
      else parts.log.info(fields, 'ended a Socket.IO session because of what its client sent')
      session.end(1008)
    },
    leave,
    adopt(record) {
      become(joined(life, record))
      state.due = { ...record.due }
      for (const name of [...state.namespaces.keys()]) {
        if (record.namespaces[name] !== undefined) continue
        state.namespaces.delete(name)
        release(name)
      }
      for (const [name, namespace] of Object.entries(record.namespaces)) {
        const judgedBy = namespaceRoute(route, name)
        if (judgedBy === undefined) continue
        state.namespaces.set(name, namespace)
        if (!handles.has(name)) register(name, judgedBy, namespace.identity)
      }
    }
  }
  return session
}

/** Whether any namespace is open or about to be. */
export const isProving = ({ state }: Session): boolean => {
  for (const { phase } of state.namespaces.values()) if (phase === 'open') return false
  return true
}
