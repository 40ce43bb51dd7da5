// Describes an open stream: whose it is, which route governs it, with which code and reason it ends, and what Admins see of it.
import type { Exchange } from '../http/exchange.ts'
import type { Identity, User } from '../identity.ts'
import type { Route } from '../routes/route.ts'
import { ownText } from '../values/bounded-map.ts'

export type StreamKind = 'websocket' | 'socketio' | 'sse'

/**
 * 4401: the token has expired, was logged out or revoked, or its person was disabled. 4403: the current access or a reloaded
 * route no longer allows it, or an administrator ended it. 1001: it has reached the maximum lifetime of its route. 1012: the
 * gateway is shutting down.
 */
export const END_REASONS = {
  4401: 'token no longer valid',
  4403: 'no longer allowed',
  1001: 'lifetime over',
  1012: 'gateway restarts'
} as const

export type StreamEnd = keyof typeof END_REASONS

export interface StreamInfo {
  readonly kind: StreamKind
  /** undefined on public routes, where no token or person can end it. */
  readonly identity: Identity | undefined
  /** For a Socket.IO namespace: the route from `namespaceRoute`, which carries the namespace's roles. */
  readonly route: Route
  readonly path: string
  /** Of the request that it answers, as `Exchange.hostName`. */
  readonly hostName: string
  /** Of the request that it answers; absent: GET, as for every socket. */
  readonly method?: string
  readonly namespace?: string
  readonly requestId: string
  readonly ip: string
  /** 0 or absent: as long as the token. */
  readonly maxLifetimeMs?: number
}

export interface OpenStream extends StreamInfo {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

export interface StreamControl {
  /** Notifies the client and closes; must not throw. */
  end(code: StreamEnd): void
  /** Drops it at once. */
  destroy(): void
  bytes?(): number
  /** It continues with changed access of its person, or under another route. */
  onChange?(stream: OpenStream): void
}

/** What is registered about the stream of an exchange, in memory of its own. */
export const streamInfoOf = (
  { identity, method, path, hostName, requestId, client }: Exchange,
  route: Route,
  kind: StreamKind,
  maxLifetimeMs = 0
): StreamInfo => ({
  kind,
  identity,
  route,
  path: ownText(path),
  hostName,
  ...(method === 'GET' ? {} : { method: ownText(method) }),
  requestId: ownText(requestId),
  ip: client.address,
  maxLifetimeMs
})

/** Milliseconds since the epoch. */
export const expiresAtOf = ({ identity }: StreamInfo): number =>
  identity === undefined ? Number.POSITIVE_INFINITY : identity.expiresAt * 1000

export type StreamItem = ReturnType<typeof itemOf>

const ownerOf = ({ id, provider, username }: User) => ({ id, provider, username })

/** As administrators see it. */
export const itemOf = ({ stream, control }: { readonly stream: OpenStream; readonly control: StreamControl }) => ({
  id: stream.id,
  kind: stream.kind,
  user: stream.identity && ownerOf(stream.identity.user),
  route: stream.route.id,
  namespace: stream.namespace,
  /** ISO 8601. */
  since: new Date(stream.since).toISOString(),
  ip: stream.ip,
  bytes: control.bytes?.()
})
