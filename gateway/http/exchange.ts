// Holds one request and its response, with everything that the steps find out about it.
import { randomBytes, randomUUID } from 'node:crypto'
import { type GatewayError, Unauthenticated } from '../errors.ts'
import type { Identity } from '../identity.ts'
import type { Verdict } from '../limits/limiter.ts'
import type { Route, RouteMatch } from '../routes/route.ts'
import { noteFault } from '../values/contain.ts'
import { hostName } from '../values/urls.ts'
import { type ClientAddress, type ClientAddressOf, clientScheme, type Scheme } from './client-address.ts'
import type { ExchangeOwner, HttpRequest, RequestHead } from './request.ts'
import type { HttpResponse } from './response.ts'
import type { TraceFields } from './trace-context.ts'

/** The name of this process for the next gateway, if there is one. */
export const GATEWAY_NAME = randomBytes(6).toString('hex')

/** As the methods of {@link ExchangeOwner}, for every exchange. */
interface ExchangeHooks {
  onClosed(exchange: Exchange): void
  onBodyFault(exchange: Exchange): void
  onThrown(exchange: Exchange, error: unknown): void
}

export class Exchange implements ExchangeOwner {
  readonly request: HttpRequest
  readonly response: HttpResponse
  readonly requestId: string
  /** Milliseconds of the monotonic clock. */
  readonly startedAt: number
  readonly head: RequestHead
  readonly client: ClientAddress
  /** Whether the peer is in TRUST_PROXY; only then do its X-Forwarded-* and X-Request-Id count. */
  readonly peerTrusted: boolean
  /** What the client used, as far as trusted proxies report it. */
  readonly scheme: Scheme
  /** The client sent `Expect: 100-continue` and is still waiting (RFC 9110 §10.1.1). */
  awaitsContinue = false
  /** The method of the request that is checked: this one, or the one that a proxy names at /auth/forward. */
  method: string
  target: string
  /** A proxy asks about another request, and expects this form of response; undefined: this request itself is meant. */
  forwardAuth: 'plain' | 'nginx' | undefined = undefined
  /** The host of that request as the proxy names it, with its port; '' if it names none. */
  namedHost = ''
  /** The query as received, with its `?`; '' if there is none. */
  query = ''
  /** The host that the request is for, with its port, as backends receive it; '' until its head has been found valid. */
  host = ''
  /** The canonical path: the path that is matched is the path that is forwarded. */
  path = ''
  /** The path that a COPY or MOVE writes to, as the backend knows it, with its query; '': none. */
  destination = ''
  match: RouteMatch | undefined = undefined
  route: Route | undefined = undefined
  /** Recorded by match-route, and returned only after limit-rate, so that bad paths count. */
  refusal: GatewayError | undefined = undefined
  limit: Verdict | undefined = undefined
  offer: SocketToken | undefined = undefined
  identity: Identity | undefined = undefined
  /** The token of the session cookie, if the request is checked by it. */
  sessionToken: string | undefined = undefined
  /** The named host that this cookie is of; undefined: that of PUBLIC_URL. */
  sessionHost: string | undefined = undefined
  /** Set-Cookie fields of the gateway itself, asked for when the head of the response is written; undefined: none. */
  setCookies: (() => readonly string[]) | undefined = undefined
  /** The upgrade was answered with 101; `response` is never used. */
  upgraded = false
  /** The refusal or fault, for the log; undefined if all went well. */
  error: GatewayError | undefined = undefined
  /** Milliseconds that the upstream took to send its response head; -1 if none was contacted. */
  upstreamMs = -1
  /** Milliseconds from the start to the upstream's response head; -1 if there is none. */
  headMs = -1
  /** Replaces the client's trace fields upstream; undefined if tracing is off, in which case the client's pass unchanged. */
  trace: TraceFields | undefined = undefined
  /** Aborted once if its client goes before the response is complete. An object: V8 keeps closures, with their scopes, for longer. */
  underway: Underway | undefined = undefined
  readonly #hooks: ExchangeHooks

  constructor(request: HttpRequest, clientAddress: ClientAddressOf, hooks: ExchangeHooks) {
    const { head, connection, response } = request
    const given = head.requestId
    this.request = request
    this.method = request.method
    this.target = request.target
    this.response = response
    this.head = head
    this.peerTrusted = clientAddress.trusted(connection.peer)
    this.requestId = given !== undefined && this.peerTrusted && isRequestId(given) ? given : randomUUID()
    this.startedAt = performance.now()
    this.client = clientAddress(connection.peer, head.forwardedFor)
    this.scheme = clientScheme(request, this.peerTrusted, clientAddress)
    this.#hooks = hooks
    request.owner = this
  }

  /** The name of `host`, by which routes are chosen: lower case, without port; '' if it is malformed, or not known yet. */
  get hostName(): string {
    return hostName(this.host) ?? ''
  }

  /** What the upstream answers is known, after so many milliseconds. */
  noteAnswer(waitedMs: number): void {
    this.upstreamMs = waitedMs
    this.headMs = performance.now() - this.startedAt
  }

  onClosed(): void {
    this.#abortUnderway()
    this.#hooks.onClosed(this)
  }

  onBodyFault(): void {
    this.#abortUnderway()
    this.#hooks.onBodyFault(this)
  }

  onThrown(error: unknown): void {
    // The connection belongs to another protocol, whose relay ends by its own faults.
    if (this.upgraded) {
      noteFault('request', error, this.requestId)
      return
    }
    try {
      this.#abortUnderway()
    } catch (further) {
      noteFault('request', further, this.requestId)
    }
    try {
      this.#hooks.onThrown(this, error)
    } catch (further) {
      noteFault('request', further, this.requestId)
      this.response.abort()
    }
  }

  #abortUnderway() {
    const { underway } = this
    this.underway = undefined
    underway?.abort()
  }
}

/** What an upgrade offers: its token, wherever it was, and the request without it. */
export interface SocketToken {
  readonly token: string | undefined
  /** The subprotocols offered in addition to the token. */
  readonly subprotocols: readonly string[]
  /** The token came as `bearer, <jwt>`; browsers then require an offered subprotocol in the 101. */
  readonly bearerOffered: boolean
  /** The query as forwarded, with its `?`; '' if there is none. */
  readonly query: string
}

/** Work for an exchange that can be aborted. */
export interface Underway {
  abort(): void
}

/** The route that says which credentials count and how to ask for them, also for a path or method that it refuses. */
export const askingRoute = ({ route, match, forwardAuth }: Exchange): Route | undefined => {
  if (route !== undefined || match === undefined) return route
  const refused = match.refusal === 'method' ? match.routes[0] : match.refusal === 'bad-path' ? match.by : undefined
  return refused?.external === (forwardAuth !== undefined) ? refused : undefined
}

// Written into logs and refusals without escaping, and sent to every backend, so it must not be an access token.
const isRequestId = (text: string): boolean => /^(?!.*pt_[\w-]{43})[A-Za-z0-9._-]{1,64}$/.test(text)

/** The requester at a private endpoint; authenticate has run before it is reached. */
export const identityOf = ({ identity }: Exchange): Identity => {
  if (identity === undefined) throw new Unauthenticated({ reason: 'no-token' })
  return identity
}
