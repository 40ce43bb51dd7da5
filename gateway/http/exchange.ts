// One request and its answer, with everything the steps on its way learn about it.
import { randomBytes, randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type GatewayError, Unauthenticated } from '../errors.ts'
import type { Identity } from '../identity.ts'
import type { Verdict } from '../limits/limiter.ts'
import type { Route, RouteMatch } from '../routes/route.ts'
import type { ClientAddress, ClientAddressOf } from './client-address.ts'
import { type RequestHead, readHead } from './head.ts'
import type { TraceFields } from './trace-context.ts'

/** How this process names itself to the next gateway, should there be one. */
export const GATEWAY_NAME = randomBytes(6).toString('hex')

export interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly requestId: string
  /** Milliseconds of the monotonic clock. */
  readonly startedAt: number
  readonly head: RequestHead
  readonly client: ClientAddress
  /** Whether the peer is one of TRUST_PROXY: only then its X-Forwarded-* and X-Request-Id count. */
  readonly peerTrusted: boolean
  /** The client sent `Expect: 100-continue` and still waits for it (RFC 9110 §10.1.1). */
  awaitsContinue: boolean
  /** The query as it came, with its `?`; '' without one. */
  query: string
  /** The host that the backend is told; '' until it is asked. */
  host: string
  /** The canonical path: what is matched is what is forwarded. */
  path: string
  match: RouteMatch | undefined
  route: Route | undefined
  /** Recorded by match-route, thrown only after limit-rate, so that bad paths count. */
  refusal: GatewayError | undefined
  limit: Verdict | undefined
  /** What an upgrade offers: its token, and what is left of the request without it. */
  offer: SocketToken | undefined
  identity: Identity | undefined
  /** The upgrade was answered with 101: `res` has sent nothing and never will. */
  upgraded: boolean
  /** What was refused or went wrong, for the log; undefined when all went well. */
  error: GatewayError | undefined
  /** Milliseconds that the upstream took to its response head; -1 when none was asked. */
  upstreamMs: number
  /** Milliseconds from the start to the upstream's response head; -1 without one. */
  headMs: number
  /** Sent upstream in place of the client's; undefined when tracing is off: then its own pass as they came. */
  trace: TraceFields | undefined
  /**
   * Aborted once when the client's side is gone before the answer was complete. An object, since V8 keeps a closure in its
   * place, and all that it sees, until the next full collection.
   */
  underway: Underway | undefined
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

export const createExchange = (req: IncomingMessage, res: ServerResponse, clientAddress: ClientAddressOf): Exchange => {
  const head = readHead(req.rawHeaders)
  const peer = req.socket.remoteAddress
  const peerTrusted = clientAddress.trusted(peer)
  const given = head.requestId
  return {
    req,
    res,
    requestId: given !== undefined && isRequestId(given) && peerTrusted ? given : randomUUID(),
    startedAt: performance.now(),
    head,
    client: clientAddress(peer, head.forwardedFor),
    peerTrusted,
    awaitsContinue: false,
    query: '',
    host: '',
    path: '',
    match: undefined,
    route: undefined,
    refusal: undefined,
    limit: undefined,
    offer: undefined,
    identity: undefined,
    upgraded: false,
    error: undefined,
    upstreamMs: -1,
    headMs: -1,
    trace: undefined,
    underway: undefined
  }
}

/**
 * Ends an answer that has begun so that it does not look complete: its connection closes, at once or, behind answers to
 * earlier requests, when its turn has come (Node forgets to destroy what has no socket yet).
 */
export const breakOff = (res: ServerResponse, error: Error): void => {
  if (res.socket === null) {
    const assignSocket = res.assignSocket.bind(res)
    res.assignSocket = socket => {
      assignSocket(socket)
      socket.destroy()
    }
  }
  res.destroy(error)
}

// Written into logs and refusals without escapes.
const isRequestId = (text: string): boolean => /^[A-Za-z0-9._-]{1,64}$/.test(text)

/** Who asks a private endpoint: authenticate has run before it is reached. */
export const identityOf = ({ identity }: Exchange): Identity => {
  if (identity === undefined) throw new Unauthenticated({ reason: 'no-token' })
  return identity
}
