// Describes what is known of the namespaces and attachments of a Socket.IO session while its packets are checked.
import type { GatewayError } from '../../errors.ts'
import type { Identity, User } from '../../identity.ts'
import type { Route, SocketIoRoute } from '../../routes/route.ts'
import { createHolder, createHolding, TEXT_BYTES } from '../../values/held-memory.ts'
import type { RecoveryIds } from '../recovery-ids.ts'

/** The current access to a namespace: the route from `namespaceRoute`, and the person. */
export interface Right {
  readonly route: Route
  readonly user: User
}

export interface Namespace {
  /** `asked`: the upstream has not responded yet. `ended`: nor then, but the access has ended: once confirmed, it gets a DISCONNECT. */
  phase: 'asked' | 'open' | 'ended'
  /** As it asked for the namespace. */
  readonly identity: Identity
  /** As last known: with today's access, and the end of the login that has been renewed. Processes of the release before do not send it. */
  current?: Identity | undefined
  right: Right
  stream: { readonly close: () => void }
  /** While asked: packets that the upstream has already sent, in order, in payload form. */
  readonly held: { readonly packets: string[]; length: number }
}

/** One whose CONNECT is about to be forwarded. */
export const newNamespace = (identity: Identity, checkedBy: Route): Namespace => ({
  phase: 'asked',
  identity,
  right: { route: checkedBy, user: identity.user },
  stream: { close: () => undefined },
  held: { packets: [], length: 0 }
})

/** Binary messages that are still expected. */
interface Due {
  client: number
  /** Those expected from the client belong to a packet that was not forwarded. */
  clientDropped: boolean
  upstream: number
  /** What happened to the packet to which those expected from the upstream belong. */
  upstreamFate: 'pass' | 'drop' | 'hold'
  /** The namespace for whose confirmation it is held. */
  heldFor?: string
}

export type GateState = ReturnType<typeof createGateState>

export const createGateState = () => {
  /** What all of the session amounts to. */
  const holder = createHolder()
  const due: Due = { client: 0, clientDropped: false, upstream: 0, upstreamFate: 'pass' }
  return {
    namespaces: new Map<string, Namespace>(),
    /** Those that the gateway or the upstream has ended since they were open: packets of the client may still be on their way. */
    left: new Set<string>(),
    /** The gateway's own packets, which must not come between a packet of the upstream and its attachments. */
    waiting: { packets: [] as string[], length: 0 },
    holder,
    /** What `waiting`, and `held` of all namespaces, amount to. */
    holding: createHolding(holder),
    /** Whether a namespace has been open since the session began. */
    isProven: false,
    due
  }
}

export interface GateParts {
  readonly route: SocketIoRoute
  readonly state: GateState
  readonly requestId: string
  readonly recoveryIds: RecoveryIds
  readonly now: () => number
  /** The same route in the route files that are in use. */
  readonly routeNow: () => SocketIoRoute
  /** The identity behind a token; throws 401. */
  readonly identify: (token: string) => Identity
  /** Why a person may not use a route; undefined: they may. */
  readonly check: (route: Route, user: User) => GatewayError | undefined
  /** Called before a CONNECT is forwarded; throws a refusal. */
  readonly register: (name: string, checkedBy: Route, identity: Identity) => Namespace
  /** @param user undefined: the token did not say whose it is */
  readonly onRefusedConnect: (namespace: string, user: User | undefined, refusal: GatewayError) => void
  readonly onRefusedEvent: (namespace: string, event: string, refusal: GatewayError, right: Right) => void
  /** A namespace was left, by a packet of either side, or because the access to it has ended. */
  readonly onLeft: () => void
  /** The upstream has confirmed a namespace to which the access has ended. */
  readonly onLateConfirm: (namespace: string) => void
}

/** Updates the count of held bytes after packets were held or released. */
export const countHeldPackets = ({ namespaces, waiting, holding }: GateState): void => {
  let bytes = 0
  for (const { packets, length } of [waiting, ...[...namespaces.values()].map(({ held }) => held)])
    bytes += length + packets.length * TEXT_BYTES
  holding.set(bytes)
}

/** Whether the upstream or the client would mistake one of the gateway's packets for an expected attachment. */
export const owesUpstream = ({ due }: GateState): boolean => due.client > 0 && !due.clientDropped
export const owesClient = ({ due }: GateState): boolean => due.upstream > 0 && due.upstreamFate === 'pass'

/** `pass`: unchanged, or as `text`, with `released`, which was held back. `answer`: `text` is sent back. `violation`: the session must end. */
export type PacketVerdict =
  | { readonly verdict: 'pass'; readonly text?: string; readonly released?: readonly string[] }
  | { readonly verdict: 'answer'; readonly text: string }
  | { readonly verdict: 'drop' }
  | { readonly verdict: 'violation'; readonly reason: string }

export const PASSED: PacketVerdict = { verdict: 'pass' }
export const DROPPED: PacketVerdict = { verdict: 'drop' }

export const violation = (reason: string): PacketVerdict => ({ verdict: 'violation', reason })

/** Why a session ends if it is not known at the moment whether its CONNECT may pass: after a CONNECT_ERROR, stock clients do not ask again. */
export const UNDECIDED = 'connect-undecided'
/** Why a session ends if other sessions leave no room for what the gateway answers to it. */
export const NO_ROOM = 'no-room'
