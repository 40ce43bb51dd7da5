// Declares what the parts of a polling session share.
import type { Exchange } from '../../http/exchange.ts'
import type { SocketForwarding } from '../../websocket/upgrade.ts'
import type { Session, SessionParts } from '../session.ts'
import type { PollingShare } from '../share.ts'
import type { SidSource } from '../sid-store.ts'

export interface SocketIoForwarding extends SocketForwarding, SessionParts {
  /** `[name, value, …]` to add to a response with the fields `passed`. */
  readonly pollHeaders: (exchange: Exchange, passed: readonly string[]) => readonly string[]
}

export interface PollingParts {
  readonly forwarding: SocketIoForwarding
  readonly sid: string
  readonly session: Session
  readonly record: SidSource
  readonly share: PollingShare | undefined
}
