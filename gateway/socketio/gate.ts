// Each packet of one Socket.IO session passes only in a namespace whose CONNECT was proved and accepted.
import { BadRequest, Forbidden, GatewayError, Internal, NoRoute, Unauthenticated } from '../errors.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import type { EnginePacket } from './engineio.ts'
import { namespaceRoute } from './namespaces.ts'
import {
  BINARY_ACK,
  CONNECT,
  CONNECT_ERROR,
  connectErrorPacket,
  connectPacket,
  DISCONNECT,
  readAuth,
  readSocketIoPacket,
  type SocketIoPacket
} from './packets.ts'
import type { AttachmentsDue, NamespaceState, PidOwner, SidStore } from './sid-store.ts'

/** `pass`: as it came, or as `text` says. `answer`: `text` goes back instead. `violation`: the session must end. */
export type PacketVerdict =
  | { readonly verdict: 'pass'; readonly text?: string }
  | { readonly verdict: 'answer'; readonly text: string }
  | { readonly verdict: 'drop' }
  | { readonly verdict: 'violation'; readonly reason: string }

export interface GateState {
  readonly namespaces: Map<string, NamespaceState>
  /** Binary messages still due. */
  due: AttachmentsDue
}

interface GateParts {
  readonly route: Route
  readonly state: GateState
  /** Who a token says is asking; throws 401. */
  readonly identify: (token: string) => Identity
  /** Why somebody may not have a route; undefined: they may. */
  readonly judge: (route: Route, user: User) => GatewayError | undefined
  readonly pids: Pick<SidStore, 'bindPid' | 'pidOwner'>
  /** Called before CONNECT is let through; throws a refusal. */
  readonly onAsked: (namespace: string, judgedBy: Route, identity: Identity) => void
  readonly onOpen: (namespace: string) => void
  readonly onLeft: (namespace: string) => void
  readonly now: () => number
}

const PASS: PacketVerdict = { verdict: 'pass' }
const DROP: PacketVerdict = { verdict: 'drop' }
const MAX_REFUSED_CONNECTS = 20
const MAX_NAMESPACES = 50
const MAX_ID = 256
/** Recovery is a matter of minutes after a connection broke; until then its id must be known. */
const PID_GRACE_MS = 10 * 60_000

const violation = (reason: string): PacketVerdict => ({ verdict: 'violation', reason })

export const createGate = (parts: GateParts) => {
  const { route, state } = parts
  const { namespaces } = state
  let refused = 0

  const leave = (namespace: string) => {
    if (namespaces.delete(namespace)) parts.onLeft(namespace)
  }

  /** Whether the auth payload's recovery id may be used: same person, same access version, same namespace. */
  const mayRecover = async (pid: string, namespace: string, { user, version }: Identity): Promise<boolean> => {
    const owner = pid.length > MAX_ID ? undefined : await parts.pids.pidOwner(pid).catch(() => undefined)
    return (
      owner !== undefined &&
      owner.userId === user.id &&
      owner.version === version &&
      owner.namespace === namespace &&
      owner.routeId === route.id
    )
  }

  /** Throws why this CONNECT is refused. */
  const prove = (namespace: string, auth: Record<string, unknown> | undefined): { identity: Identity; by: Route } => {
    if (auth === undefined) throw new BadRequest({ reason: 'connect-payload' })
    if (typeof auth.token !== 'string') throw new Unauthenticated({ reason: 'no-token' })
    const identity = parts.identify(auth.token)
    const by = namespaceRoute(route, namespace)
    if (by === undefined) throw new NoRoute({ reason: 'no-namespace' })
    const refusal = parts.judge(by, identity.user)
    if (refusal !== undefined) throw refusal
    // A session belongs to one person: its id must not carry one person's rights to another.
    for (const other of namespaces.values()) {
      if (other.identity.user.id !== identity.user.id) throw new Forbidden({ reason: 'session-of-another' })
    }
    if (namespaces.size >= MAX_NAMESPACES) throw new Forbidden({ reason: 'too-many-namespaces' })
    return { identity, by }
  }

  const refuse = (namespace: string, error: unknown): PacketVerdict => {
    if (++refused > MAX_REFUSED_CONNECTS) return violation('too-many-connects')
    const known = error instanceof GatewayError ? error : new Internal()
    return { verdict: 'answer', text: connectErrorPacket(namespace, known) }
  }

  const connect = ({ namespace, rest }: SocketIoPacket): PacketVerdict | Promise<PacketVerdict> => {
    if (namespaces.has(namespace)) return violation('connected-already')
    const auth = readAuth(rest)
    try {
      const { identity, by } = prove(namespace, auth)
      parts.onAsked(namespace, by, identity)
      namespaces.set(namespace, { phase: 'asked', identity })
      const { token, user: _user, __proto__: _proto, pid, offset, ...own } = auth ?? {}
      const trusted = { ...own, user: identity.user, ...(route.forwardToken ? { token } : {}) }
      const plain = () => ({ verdict: 'pass', text: connectPacket(namespace, trusted) }) as const
      if (typeof pid !== 'string') return plain()
      return mayRecover(pid, namespace, identity).then(may => {
        // Its right may have ended while we looked.
        if (!namespaces.has(namespace)) return DROP
        return may ? { verdict: 'pass', text: connectPacket(namespace, { ...trusted, pid, offset }) } : plain()
      })
    } catch (error) {
      return refuse(namespace, error)
    }
  }

  const messageFromClient = (text: string): PacketVerdict | Promise<PacketVerdict> => {
    if (state.due.client > 0) return violation('attachment-due')
    const packet = readSocketIoPacket(text)
    if (packet === undefined) return violation('malformed-packet')
    if (packet.type === CONNECT) return connect(packet)
    if (packet.type === CONNECT_ERROR) return violation('connect-error-from-client')
    if (!namespaces.has(packet.namespace)) return violation('not-connected')
    if (packet.type === DISCONNECT) {
      if (packet.rest !== '') return violation('malformed-packet')
      leave(packet.namespace)
      return PASS
    }
    state.due.client = packet.attachments
    return PASS
  }

  const binaryFromClient = (): PacketVerdict => {
    if (state.due.client === 0) return violation('attachment-undue')
    state.due.client--
    return PASS
  }

  const answerToConnect = (packet: SocketIoPacket, { identity, phase }: NamespaceState): PacketVerdict => {
    if (phase !== 'asked') return violation('upstream-connected-twice')
    const { pid } = readAuth(packet.rest) ?? {}
    if (typeof pid === 'string' && pid.length <= MAX_ID) {
      const { user, version, expiresAt } = identity
      const owner: PidOwner = { userId: user.id, version, namespace: packet.namespace, routeId: route.id }
      // Without the record the id is worth nothing: a failure only costs a recovery.
      parts.pids.bindPid(pid, owner, expiresAt * 1000 - parts.now() + PID_GRACE_MS).catch(() => undefined)
    }
    namespaces.set(packet.namespace, { identity, phase: 'open' })
    parts.onOpen(packet.namespace)
    return PASS
  }

  const messageFromUpstream = (text: string): PacketVerdict => {
    if (state.due.upstream > 0) return violation('upstream-attachment-due')
    const packet = readSocketIoPacket(text)
    if (packet === undefined) return violation('upstream-malformed-packet')
    const known = namespaces.get(packet.namespace)
    const passes =
      known !== undefined && (known.phase === 'open' || packet.type === CONNECT || packet.type === CONNECT_ERROR)
    state.due.upstream = packet.attachments
    state.due.dropped = !passes
    if (!passes || packet.type > BINARY_ACK) return DROP
    if (packet.type === CONNECT) return answerToConnect(packet, known)
    if (packet.type === CONNECT_ERROR || packet.type === DISCONNECT) leave(packet.namespace)
    return PASS
  }

  const binaryFromUpstream = (): PacketVerdict => {
    if (state.due.upstream === 0) return violation('upstream-attachment-undue')
    state.due.upstream--
    return state.due.dropped ? DROP : PASS
  }

  return {
    /** Only CONNECT with a recovery id has to wait for an answer. */
    fromClient({ type, text }: EnginePacket): PacketVerdict | Promise<PacketVerdict> {
      if (type === '4') return messageFromClient(text.slice(1))
      if (type === 'b') return binaryFromClient()
      if (type === '1' || type === '6' || text === '3') return PASS
      return violation('unexpected-packet')
    },
    fromUpstream({ type, text }: EnginePacket): PacketVerdict {
      if (type === '4') return messageFromUpstream(text.slice(1))
      if (type === 'b') return binaryFromUpstream()
      return type === '5' ? violation('upstream-unexpected-packet') : PASS
    },
    /** The right to a namespace has ended: whether it was connected. */
    end(namespace: string): boolean {
      return namespaces.delete(namespace)
    }
  }
}

export type Gate = ReturnType<typeof createGate>
