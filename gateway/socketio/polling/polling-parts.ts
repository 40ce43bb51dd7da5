// Declares what the parts of a polling session share, and how its requests are answered.
import type { Exchange } from '../../http/exchange.ts'
import type { Identity } from '../../identity.ts'
import type { Instances } from '../../instances/instances.ts'
import type { SocketForwarding } from '../../websocket/upgrade.ts'
import type { Session, SessionParts } from '../session.ts'

export interface SocketIoForwarding extends SocketForwarding, SessionParts {
  /** `[name, value, …]` to add to a response with the fields `passed`. */
  readonly pollHeaders: (exchange: Exchange, passed: readonly string[]) => readonly string[]
  /** The processes among which requests of a session may be spread; undefined: there is one, or its balancer is sticky. */
  readonly instances: Pick<Instances, 'id' | 'ask' | 'answer'> | undefined
  /** Whether a token may not be used from an address. */
  readonly isFromElsewhere: (identity: Identity, ip: string) => boolean
}

/** The response to a poll or a post, without the fields that belong to one exchange. */
export interface PollingResponse {
  readonly status: number
  /** `[name, value, …]` of the upstream, as far as the client may see them. */
  readonly fields: readonly string[]
  readonly bytes: Buffer
}

/** Times in milliseconds. */
export interface PollingSource {
  /** The upstream's session id. */
  readonly sid: string
  /** How long the server keeps a session that is not polled, and how long it may hold a poll. */
  readonly sessionMs: number
  readonly pollMs: number
  /** `[name, value, …]` of the handshake's response. */
  readonly fields: readonly string[]
}

export interface PollingParts {
  readonly forwarding: SocketIoForwarding
  readonly session: Session
  readonly record: PollingSource
}
