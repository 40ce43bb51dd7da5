// Holds one request and its response, with everything that the steps find out about it.
import { randomBytes, randomUUID } from 'node:crypto'
import { type GatewayError, Unauthenticated } from '../errors.ts'
import type { Identity } from '../identity.ts'
import type { Verdict } from '../limits/limiter.ts'
import type { Route, RouteMatch } from '../routes/route.ts'
import type { ClientAddress, ClientAddressOf } from './client-address.ts'
import type { RequestHead } from './head.ts'
import type { ExchangeOwner, HttpRequest } from './server/request.ts'
import type { HttpResponse } from './server/response.ts'
import type { TraceFields } from './trace-context.ts'

/** How this process names itself to the next gateway, should there be one. */
export const GATEWAY_NAME = randomBytes(6).toString('hex')

/** What is done for every exchange, whatever becomes of it. */
interface ExchangeHooks {
  /** Its answer was handed over, or its client has gone. */
  onClosed(exchange: Exchange): void
  /** Its body is malformed, and nothing has been answered. */
  onBodyFault(exchange: Exchange): void
}

export class Exchange implements ExchangeOwner {
  readonly request: HttpRequest
  readonly response: HttpResponse
  readonly requestId: string
  /** Milliseconds of the monotonic clock. */
  readonly startedAt: number
  readonly head: RequestHead
  readonly client: ClientAddress
  /** Whether the peer is one of TRUST_PROXY: only then its X-Forwarded-* and X-Request-Id count. */
  readonly peerTrusted: boolean
  /** The client sent `Expect: 100-continue` and still waits for it (RFC 9110 §10.1.1). */
  awaitsContinue = false
  /** Of the request that is judged: this one, or the one that a proxy names at /auth/forward. */
  method: string
  target: string
  /** A proxy asks whether another request may pass, and how it wants to hear; undefined: this request itself is meant. */
  forwardAuth: 'plain' | 'nginx' | undefined = undefined
  /** The query as it came, with its `?`; '' without one. */
  query = ''
  /** The host name that the backend gets; '' until it is asked. */
  host = ''
  /** The canonical path: what is matched is what is forwarded. */
  path = ''
  match: RouteMatch | undefined = undefined
  route: Route | undefined = undefined
  /** Recorded by match-route, thrown only after limit-rate, so that bad paths count. */
  refusal: GatewayError | undefined = undefined
  limit: Verdict | undefined = undefined
  /** What an upgrade offers: its token, and what is left of the request without it. */
  offer: SocketToken | undefined = undefined
  identity: Identity | undefined = undefined
  /** The upgrade was answered with 101: `response` has sent nothing and never will. */
  upgraded = false
  /** What was refused or went wrong, for the log; undefined when all went well. */
  error: GatewayError | undefined = undefined
  /** Milliseconds that the upstream took to its response head; -1 when none was asked. */
  upstreamMs = -1
  /** Milliseconds from the start to the upstream's response head; -1 without one. */
  headMs = -1
  /** Sent upstream in place of the client's; undefined when tracing is off: then its own pass as they came. */
  trace: TraceFields | undefined = undefined
  /**
   * Aborted once when the client's side is gone before the answer was complete. An object, since V8 keeps a closure in its
   * place, and all that it sees, until the next full collection.
   */
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
    this.#hooks = hooks
    request.owner = this
  }

  onClosed(): void {
    const { underway } = this
    this.underway = undefined
    underway?.abort()
    this.#hooks.onClosed(this)
  }

  onBodyFault(): void {
    const { underway } = this
    this.underway = undefined
    underway?.abort()
    this.#hooks.onBodyFault(this)
  }
}

/** What an upgrade brings: its token, wherever it was, and the request without it. */
export interface SocketToken {
  readonly token: string | undefined
  /** What the client offers beside the token. */
  readonly subprotocols: readonly string[]
  /** The token came as `bearer, <jwt>`: browsers then want an offered subprotocol in the 101. */
  readonly bearerOffered: boolean
  /** The query as it is forwarded, with its `?`; '' without one. */
  readonly query: string
}

/** What goes on for an exchange and would have to be broken off. */
export interface Underway {
  abort(): void
}

// Written into logs and refusals without escapes.
const isRequestId = (text: string): boolean => /^[A-Za-z0-9._-]{1,64}$/.test(text)

/** Who asks a private endpoint: authenticate has run before it is reached. */
export const identityOf = ({ identity }: Exchange): Identity => {
  if (identity === undefined) throw new Unauthenticated({ reason: 'no-token' })
  return identity
}
