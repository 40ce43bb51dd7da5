// Describes an upstream: its targets, how long they may take, and which headers it changes.
import type { SourceLocation } from '../values/source-location.ts'

/** A group of interchangeable targets (`upstreams:` in a route file). Times in milliseconds. */
export interface Upstream {
  readonly name: string
  /** At least one; `http://`, `https://` or `unix:`; see {@link Target}. */
  readonly targets: readonly Target[]
  /** How long the upstream may be silent before its response head. */
  readonly timeoutMs: number
  /** The same within a response that has begun; event streams are exempt. */
  readonly idleTimeoutMs: number
  readonly connectTimeoutMs: number
  /** Of a request body, before a connection is asked for. */
  readonly requestBufferBytes: number
  /** PEM text of `caFile`, if given. */
  readonly ca: string | undefined
  /** PEM texts of `clientCertFile` and `clientKeyFile`, if given. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined
  /** The name for SNI and for verifying the certificate; undefined: the target's host. */
  readonly serverName: string | undefined
  /** The backend receives the Host that the client requested, not the target's. */
  readonly preserveHost: boolean
  /** Requests carry the person's identity as a signed JWT. */
  readonly assertion: boolean
  readonly requestHeaders: HeaderRules | undefined
  readonly responseHeaders: HeaderRules | undefined
  readonly identityHeaders: readonly IdentityHeader[] | undefined
  /** Shared caches may store responses marked as public, on private routes too. */
  readonly sharedCache: boolean
  readonly healthCheck: HealthCheck | undefined
  /** So many faults, or answers 502, 503 or 504, in a row take a target out of service for so long; 0 errors: never. */
  readonly outlier: { readonly errors: number; readonly restMs: number }
  /** Per target, for requests, streams and sockets together; undefined: as many as a process can hold. */
  readonly maxConnections: number | undefined
  /** Requests that wait while all targets have reached `maxConnections`; undefined: none. */
  readonly queue: { readonly max: number; readonly timeoutMs: number } | undefined
  readonly place: SourceLocation
}

export interface HealthCheck {
  readonly path: string
  readonly intervalMs: number
  readonly timeoutMs: number
  /** Statuses that mean healthy, both included. */
  readonly status: { readonly from: number; readonly to: number }
  /** The Host of the checks; undefined: the one that requests carry. */
  readonly host: string | undefined
  /** Checks in a row that must pass to bring a target back, and that must fail to take it out. */
  readonly rise: number
  readonly fall: number
}

/** Fields of a message that an upstream's entry changes. */
export interface HeaderRules {
  /** `[name, value]`, as written; they replace all fields with such a name in any spelling. */
  readonly set: readonly (readonly [name: string, value: string])[]
  /** Names to remove, in any spelling. */
  readonly remove: readonly string[]
}

/** What is known of a person, for the `x-user-*` fields of every request and for the identity headers that an upstream adds. */
export const IDENTITY_ATTRIBUTES = [
  'id',
  'name',
  'email',
  'username',
  'login',
  'provider',
  'profiles',
  'areas',
  'areaPrincipal',
  'accessStatus'
] as const

export interface IdentityHeader {
  readonly name: string
  readonly attribute: (typeof IDENTITY_ATTRIBUTES)[number]
}

export interface Target {
  /**
   * As written, e.g. `http://127.0.0.1:4001`, `https://orders.internal`, `unix:/run/orders.sock`; followed by the address
   * for one of several addresses of a name, e.g. `https://orders.internal (10.0.0.7)`.
   */
  readonly url: string
  readonly tls: boolean
  readonly host: string
  readonly port: number
  readonly socketPath: string | undefined
  /** Value of the Host header sent to it (RFC 9110 §7.2). */
  readonly authority: string
  /** One of several addresses of the name in `host`; undefined: the name, or its only address. */
  readonly address?: string | undefined
  /** Used only while no other target is in service. */
  readonly backup?: boolean
}

/** Where connections to a target go: the same for two that are written differently. */
export const endpointOf = ({ tls, host, port, socketPath, address }: Target): string =>
  socketPath === undefined ? `${tls ? 'tls' : 'tcp'} ${host}:${port} ${address ?? ''}` : `unix ${socketPath}`
