// Describes a route table: the result of reading route files, and all that the rest of the gateway knows about them.
import type { TokenKind } from '../identity.ts'
import type { Network } from '../values/addresses.ts'
import type { SourceLocation } from '../values/source-location.ts'
import type { Grants } from './grants.ts'
import type { Upstream } from './upstream.ts'

export interface RouteRateLimit {
  readonly max: number
  readonly windowMs: number
  readonly by: 'ip' | 'user' | 'both'
}

export interface WebSocketOptions {
  readonly origins: readonly string[]
  readonly tokenInQuery: boolean
  readonly maxMessageBytes: number
  /** Per client's socket; 0: no limit of its own. */
  readonly messagesPerSecond: number
  readonly idleTimeoutMs: number
  /** 0: as long as the token. */
  readonly maxLifetimeMs: number
}

/** An event that clients may send in a namespace: exact name, or a pattern written as `/regex/`. */
export interface SocketIoEvent {
  readonly name: string
  readonly pattern: RegExp | undefined
  /** undefined: everyone in the namespace; of a namespace: any valid token. */
  readonly roles: readonly string[] | undefined
}

/** A namespace that clients may connect to, named in the same ways. */
export interface SocketIoNamespace extends SocketIoEvent {
  /** The events that clients may send; undefined: all. */
  readonly events: readonly SocketIoEvent[] | undefined
}

export interface SocketIoOptions {
  readonly namespaces: readonly SocketIoNamespace[]
  readonly maxMessageBytes: number
  /** Per client's session. */
  readonly messagesPerSecond: number
}

/** How /auth/apps shows the application behind a route; '' for what is not given. */
export interface App {
  readonly name: string
  readonly description: string
  /** A path on this origin. */
  readonly icon: string
  /** A path on this origin, or an address elsewhere; '': the path of the route. */
  readonly url: string
}

/** `wider-methods`, `wider-paths`: a less strict route serves the methods, or the paths below, that this one leaves. */
export type AcceptedWarning = 'wider-methods' | 'wider-paths'

export type PathException = 'encodedSlash' | 'semicolon' | 'doubleSlash' | 'extension'

/** Options that are on or off, with the text for editors and docs. A new one needs a line here and the step that applies it. */
export const ROUTE_FLAGS = {
  public: 'Allows everyone: the token is not checked and no identity is passed to the backend.',
  requireAssigned: 'Refuses people who have no profile or no area.',
  forwardToken: 'Forwards the Authorization header, which is removed otherwise.',
  external: 'Used instead of upstream: the route is checked for another proxy at /auth/forward and never forwarded.',
  basic: 'Accepts an access token (pt_…) as the password of Basic authentication, for git, npm and similar tools.',
  browser: 'Accepts the session cookie (BROWSER_SESSION) and redirects navigations without one to the login page.',
  ownAuthorization:
    'Leaves Authorization to the application behind a browser route: the person is known by the session cookie alone.',
  streaming:
    'Passes request bodies on as they arrive, without requestBuffer; the idleTimeout of the upstream replaces the limit on slow uploads.'
} as const

export type RouteFlags = Readonly<Record<keyof typeof ROUTE_FLAGS, boolean>>

/** A route before it is added to a table. */
export type WrittenRoute = Omit<Route, 'number' | 'coversBelow'>

export interface Route extends RouteFlags {
  /** Unique in this process; the routes of one table are numbered consecutively, in its order. Copies keep the number. */
  readonly number: number
  /** The path ends in `/*`: it also serves everything below. */
  readonly coversBelow: boolean
  /** Stable and unique in its table, e.g. `DELETE /api/orders/:id` or `/api/orders/*`; used in logs and metrics. */
  readonly id: string
  readonly path: string
  /** Names of hosts in lower case, `*.` for any one label; undefined: every host that no route names. */
  readonly host: readonly string[] | undefined
  /** undefined: all methods except TRACE and CONNECT. GET includes HEAD. */
  readonly methods: ReadonlySet<string> | undefined
  /** undefined: the gateway's own endpoint. */
  readonly upstream: Upstream | undefined
  /** undefined: any valid token. */
  readonly roles: readonly string[] | undefined
  /** Kinds of token accepted by the gateway's own endpoint; undefined: any. */
  readonly tokenKinds: readonly TokenKind[] | undefined
  /** The networks from which clients may come; undefined: any. */
  readonly from: readonly Network[] | undefined
  /** Prefix removed from the path before it is forwarded; undefined: nothing is removed. */
  readonly stripPrefix: string | undefined
  readonly rateLimit: RouteRateLimit | undefined
  /** undefined: the upstream's. */
  readonly timeoutMs: number | undefined
  /** Bytes of request body at most; undefined: MAX_BODY. */
  readonly maxBodyBytes: number | undefined
  readonly allowInPath: readonly PathException[]
  /** Warnings of `portaria check` that are intended. */
  readonly accept: readonly AcceptedWarning[]
  readonly websocket: WebSocketOptions | undefined
  readonly socketio: SocketIoOptions | undefined
  /** undefined: not listed. */
  readonly app: App | undefined
  readonly place: SourceLocation
}

export interface SocketIoRoute extends Route {
  readonly socketio: SocketIoOptions
}

export const isSocketIo = (route: Route): route is SocketIoRoute => route.socketio !== undefined

/**
 * The defaults of a route. Every route is laid out in this order, with the fields that requests read first, because with
 * thousands of routes no CPU cache holds more than what is read together.
 */
export const ROUTE_DEFAULTS: Route = {
  number: 0,
  coversBelow: false,
  upstream: undefined,
  public: false,
  roles: undefined,
  requireAssigned: false,
  tokenKinds: undefined,
  from: undefined,
  forwardToken: false,
  browser: false,
  ownAuthorization: false,
  basic: false,
  external: false,
  stripPrefix: undefined,
  rateLimit: undefined,
  timeoutMs: undefined,
  maxBodyBytes: undefined,
  streaming: false,
  websocket: undefined,
  socketio: undefined,
  app: undefined,
  id: '',
  path: '/',
  host: undefined,
  methods: undefined,
  allowInPath: [],
  accept: [],
  place: { file: '', line: 1, column: 1 }
}

/** Whether a route comes from the route files, and is none of the gateway's own endpoints. */
export const isFromFiles = ({ upstream, external }: Pick<Route, 'upstream' | 'external'>): boolean =>
  upstream !== undefined || external

/** A canonical path of the route without its `stripPrefix`, which is whole static segments of every such path (see `definePrefix`). */
export const forwardedPath = ({ stripPrefix }: Pick<Route, 'stripPrefix'>, path: string): string =>
  stripPrefix === undefined ? path : path.slice(stripPrefix.length) || '/'

/** Why a path is refused, for the log and `explain`. */
export type BadPathReason =
  | 'not-absolute'
  | 'fragment'
  | 'double-slash'
  | 'dot-segment'
  | 'encoded-slash'
  | 'backslash'
  | 'semicolon'
  | 'control-character'
  | 'double-encoding'
  | 'percent-encoding'
  | 'utf-8'
  | 'raw-character'
  /** A lax backend (case, blanks, dots, `;…`, decoding) could read this path as that of another route. */
  | 'lax-reading'
  /** What a COPY or MOVE writes to is no path of the same upstream. */
  | 'destination'

/** Why the HTTP side of a Socket.IO route refuses a request: Engine.IO has another path, or not this method. */
export type EngineFault = 'engineio-path' | 'engineio-method'

export type RouteMatch =
  /**
   * `path` is the canonical path to forward, before the prefix is stripped (see `forwardedPath`).
   * `alsoReadAs`: routes that a backend may see if it cuts off the format, or routes by what follows a script;
   * they must admit the request too. `alsoWrites`: matches of the path that the request writes to besides its own.
   * `engineFault`: known to `matchTarget`; real requests are refused for it once they are passed on.
   */
  | {
      readonly route: Route
      readonly path: string
      readonly alsoReadAs?: readonly Route[]
      readonly alsoWrites?: readonly RouteMatch[]
      readonly engineFault?: EngineFault | undefined
      readonly refusal?: undefined
    }
  /** `public`: also said to those without a token. `by`: the route that would have the path, if it is known. */
  | {
      readonly route?: undefined
      readonly refusal: 'bad-path'
      readonly reason: BadPathReason
      readonly public: boolean
      readonly by?: Route
    }
  /** These routes have the path but not the method; `public` if all of them are. */
  | {
      readonly route?: undefined
      readonly refusal: 'method'
      readonly routes: readonly Route[]
      readonly public: boolean
    }
  | { readonly route?: undefined; readonly refusal: 'no-route' }

export interface RouteTable {
  /**
   * The most specific route for a method and a path as received (no query). Costs O(path length), however many routes and hosts
   * there are.
   * Canonicalises the path, applies `allowInPath`, and refuses anything that a lax backend could read as another route.
   * @param host a name of the form that `hostName` returns, or an entry of `hosts`; '': one that no route names
   */
  match(method: string, rawPath: string, host?: string): RouteMatch
  /**
   * All routes that cover a canonical path, whatever their methods, in order of precedence: the first one that takes the method
   * is the one that `match` finds, unless the path is refused. `'reserved'`: what follows is hidden by the gateway's own endpoints.
   */
  candidates(method: string, path: string, host?: string): (Route | 'reserved')[]
  /** Of a canonical path refused as `lax-reading`: how a lax backend could read it, and to which route that would lead. */
  misread(
    method: string,
    path: string,
    host?: string
  ): { readonly path: string; readonly route: Route | undefined } | undefined
  /** Whether some route names this host, exactly or by a wildcard; the routes without `host` then do not apply to it. */
  namesHost(host: string): boolean
  /** The routes that apply to a host, and the gateway's own endpoints. */
  routesAt(host: string): readonly Route[]
  /** All that routes name, wildcards included. Empty: hosts choose no routes. */
  readonly hosts: readonly string[]
  /** In a stable order: as written, with files sorted by name. The gateway's own endpoints first. */
  readonly routes: readonly Route[]
  readonly upstreams: ReadonlyMap<string, Upstream>
  /** All existing profiles: the three built-in ones, then those of the files. */
  readonly profiles: readonly string[]
  readonly grants: Grants
  /** SHA-256 over names and bytes of the files, hex. */
  readonly checksum: string
  /** When the newest of the files was changed. */
  readonly changedAt: Date
}

/**
 * Whether a route serves a method only if its methods name it. A backend answers TRACE with the request that it received
 * (RFC 9110 §9.3.8), and so with what only the gateway and the backend know. Behind a proxy that takes a successful response to
 * CONNECT for the beginning of a tunnel (§9.3.6), later requests of anyone on the same connection would be relayed unread; route
 * files cannot name it.
 */
export const isUnusualMethod = (method: string): boolean => method === 'TRACE' || method === 'CONNECT'

/** A path that a request writes to besides its own, and that does not lead to the same backend. */
export const ELSEWHERE: RouteMatch = { refusal: 'bad-path', reason: 'destination', public: true }

/** The match of `path`; a route of another upstream, or judged for another proxy where `route` is not, is a refusal. */
export const matchBeside = (
  table: RouteTable,
  route: Route,
  method: string,
  path: string,
  host: string | undefined
): RouteMatch => {
  const found = table.match(method, path, host)
  const there = found.route
  const isBeside = there === undefined || (there.upstream === route.upstream && there.external === route.external)
  return isBeside ? found : ELSEWHERE
}
