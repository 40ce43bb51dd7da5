// Describes the known state of a Socket.IO session's namespaces and attachments while its packets are checked.
import type { GatewayError } from '../../errors.ts'
import type { Identity, User } from '../../identity.ts'
import type { Route } from '../../routes/route.ts'
import type { RecoveryIds } from '../recovery-ids.ts'

export interface NamespaceState {
  /**
   * `asked`: forwarded to the upstream, which has not responded yet. `ended`: the same, but the access to it has ended since;
   * once the upstream has confirmed, it gets a DISCONNECT.
   */
  readonly phase: 'asked' | 'open' | 'ended'
  readonly identity: Identity
  /** While asked: packets that the upstream has already sent, in order, in payload form. */
  readonly held?: { readonly packets: string[]; bytes: number }
}

export interface AttachmentsDue {
  client: number
  /** The attachments expected from the client belong to a packet that was not forwarded. */
  clientDropped: boolean
  upstream: number
  /** What happened to the packet to which the attachments expected from the upstream belong. */
  upstreamFate: 'pass' | 'drop' | 'hold'
  /** The namespace for whose confirmation it is held. */
  heldFor?: string
}

export interface GateState {
  readonly namespaces: Map<string, NamespaceState>
  /** Binary messages that are still expected. */
  due: AttachmentsDue
}

export interface GateParts {
  readonly route: Route
  readonly state: GateState
  /** The identity behind a token; throws 401. */
  readonly identify: (token: string) => Identity
  /** Why a person may not use a route; undefined: they may. */
  readonly check: (route: Route, user: User) => GatewayError | undefined
  readonly recoveryIds: RecoveryIds
  readonly now: () => number
  /** Called before a CONNECT is forwarded; throws a refusal. */
  readonly onAsked: (namespace: string, checkedBy: Route, identity: Identity) => void
  /** The current access to a namespace. */
  readonly rightOf: (namespace: string) => Right | undefined
  /** @param user undefined: the token did not say whose it is */
  readonly onRefusedConnect: (namespace: string, user: User | undefined, refusal: GatewayError) => void
  readonly onRefusedEvent: (namespace: string, event: string, refusal: GatewayError) => void
  /** Records refusals inside the session. */
  readonly requestId: string
  readonly onOpen: (namespace: string) => void
  readonly onLeft: (namespace: string) => void
  /** The upstream has confirmed a namespace to which the access has ended. */
  readonly onLateConfirm: (namespace: string) => void
}

export interface Right {
  /** The route from `namespaceRoute`. */
  readonly route: Route
  readonly user: User
}

export const NOTHING_DUE: Readonly<AttachmentsDue> = {
  client: 0,
  clientDropped: false,
  upstream: 0,
  upstreamFate: 'pass'
}

/** Whether the upstream or the client would mistake one of the gateway's packets for an expected attachment. */
export const owesUpstream = ({ due }: GateState): boolean => due.client > 0 && !due.clientDropped
export const owesClient = ({ due }: GateState): boolean => due.upstream > 0 && due.upstreamFate === 'pass'

/** The namespace was left, by a packet of either side. */
export const leaveNamespace = ({ state, onLeft }: GateParts, namespace: string): void => {
  if (state.namespaces.delete(namespace)) onLeft(namespace)
}
