// Describes what is known of a Socket.IO session's namespaces and attachments while its packets are checked.
import type { GatewayError } from '../../errors.ts'
import type { User } from '../../identity.ts'
import type { Route } from '../../routes/route.ts'
import type { AttachmentsDue, NamespaceState } from '../sid-store.ts'
import type { ConnectParts } from './connect.ts'

export interface GateState {
  readonly namespaces: Map<string, NamespaceState>
  /** Binary messages still due. */
  due: AttachmentsDue
}

export interface GateParts extends Omit<ConnectParts, 'namespaces'> {
  readonly state: GateState
  /** Today's access to a namespace. */
  readonly rightOf: (namespace: string) => Right | undefined
  readonly onRefusedEvent: (namespace: string, event: string, refusal: GatewayError) => void
  /** For what is refused inside of the session. */
  readonly requestId: string
  readonly onOpen: (namespace: string) => void
  readonly onLeft: (namespace: string) => void
}

export interface Right {
  /** As `namespaceRoute` gives it. */
  readonly route: Route
  readonly user: User
}

export const NOTHING_DUE: Readonly<AttachmentsDue> = {
  client: 0,
  clientDropped: false,
  upstream: 0,
  upstreamFate: 'pass'
}

/** Whether bytes of the gateway's own would be taken for an attachment that is still due, by the upstream or by the client. */
export const owesUpstream = ({ due }: GateState): boolean => due.client > 0 && !due.clientDropped
export const owesClient = ({ due }: GateState): boolean => due.upstream > 0 && due.upstreamFate === 'pass'

/** The namespace is gone, by a packet of either side. */
export const leaveNamespace = ({ state, onLeft }: Pick<GateParts, 'state' | 'onLeft'>, namespace: string): void => {
  if (state.namespaces.delete(namespace)) onLeft(namespace)
}
