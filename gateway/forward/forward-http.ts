// Forwards a request and its response, streaming in both directions; a fault on one side is reported to the other.
import { BodyTooLarge, GatewayError, UpstreamTimeout } from '../errors.ts'
import type { Exchange, Underway } from '../http/exchange.ts'
import { headerLines } from '../http/http1/response.ts'
import { asGatewayError } from '../http/own-responses.ts'
import { fieldValues, hasBody, ignoresBody } from '../http/request.ts'
import type { ResponseTaker } from '../http/response.ts'
import type { Route } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import type { UpstreamConnection } from '../upstream/connection.ts'
import { mayTryAgain, type UpstreamFault, upstreamRefusal } from '../upstream/faults.ts'
import { clientHead, clientTrailers, type ResponseContextOf } from '../upstream/headers/client-head.ts'
import { responseRulesOf } from '../upstream/headers/header-rules.ts'
import { privateAnswersOf } from '../upstream/headers/private-answers.ts'
import type { createUpstreamHeads } from '../upstream/headers/upstream-head.ts'
import { bindsConnection, type Requester, type ResponseHead } from '../upstream/parser.ts'
import { mustBeRead } from '../upstream/pool.ts'
import type { Waiter } from '../upstream/upstream-pool.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { contain } from '../values/contain.ts'
import type { OpenStreams } from './open-streams.ts'
import { streamInfoOf } from './stream.ts'
import { Upload, type UploadLimits, type UploadOwner } from './upload.ts'

interface HttpForwarding {
  readonly upstreams: Upstreams
  readonly headFor: ReturnType<typeof createUpstreamHeads>['whole']
  /** All field lines of a forwarded response; `passed` are the backend's, some of which may be removed. */
  readonly linesFor: (exchange: Exchange, passed: string) => string
  readonly responseContext: ResponseContextOf
  /** Why a request that has waited, for its body or for a connection, may not go on now: its access may have ended meanwhile. */
  readonly checkAgain: (exchange: Exchange) => GatewayError | undefined
  /** Responds with a refusal, or aborts a response that has already begun. */
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** Where event streams are registered, so that each ends when the access that opened it ends. */
  readonly streams: Pick<OpenStreams, 'admit' | 'register'>
  /** Largest request body where a route says nothing; undefined: no limit. */
  readonly maxBodyBytes: number | undefined
}

/** Which connection carries the request, and what to leave when it is over; all of one shape, for speed. */
type State =
  /** No connection yet; a body may be buffered. */
  | { readonly name: 'begun'; readonly connection: undefined; readonly leave: undefined }
  | { readonly name: 'queued'; readonly connection: undefined; readonly leave: () => void }
  | { readonly name: 'connected'; readonly connection: UpstreamConnection; readonly leave: undefined }
  /** The response is an event stream. */
  | { readonly name: 'streaming'; readonly connection: UpstreamConnection; readonly leave: () => void }
  | { readonly name: 'over'; readonly connection: undefined; readonly leave: undefined }

/** Hints may be large, and wait in memory for a client that takes them slowly. */
const MAX_HINTS = 32

const BEGUN: State = { name: 'begun', connection: undefined, leave: undefined }
const OVER: State = { name: 'over', connection: undefined, leave: undefined }

/** One request in progress to one upstream. */
class HttpForward implements Requester, Underway, UploadOwner, ResponseTaker, Waiter {
  readonly #exchange: Exchange
  readonly #forwarding: HttpForwarding
  readonly #upstream: Upstream
  readonly #route: Route
  /** undefined: the request has no body. */
  readonly #upload: Upload | undefined
  #state = BEGUN
  /** On new connections: of those kept, any number may turn out to be closed. */
  #attempts = 0
  #hints = 0
  /** Targets that could not be reached; usually none. */
  #unreached: Target[] | undefined

  constructor(exchange: Exchange, route: Route, upstream: Upstream, forwarding: HttpForwarding) {
    this.#exchange = exchange
    this.#forwarding = forwarding
    this.#upstream = upstream
    this.#route = route
    this.#upload = hasBody(exchange.head)
      ? new Upload(exchange, this, uploadLimits(route, upstream, forwarding))
      : undefined
    exchange.underway = this
  }

  begin() {
    if (this.#upload === undefined) this.onUploadReady()
    else this.#upload.begin()
  }

  onUploadReady() {
    const refusal = this.#upload === undefined ? undefined : this.#forwarding.checkAgain(this.#exchange)
    if (refusal !== undefined) return this.onRefused(refusal)
    const pool = this.#forwarding.upstreams.poolOf(this.#upstream)
    const { request, client, peerTrusted: isOfProxy } = this.#exchange
    const asked = { client: request.connection.client, clientKey: client.key, isOfProxy, not: this.#unreached }
    const connection = pool.acquire(asked)
    if (connection !== undefined) return this.onConnection(connection)
    const leave = pool.wait(this, asked)
    if (leave instanceof GatewayError) this.onRefused(leave)
    else this.#state = { name: 'queued', connection: undefined, leave }
  }

  onConnection(connection: UpstreamConnection) {
    const refusal = this.#state.name === 'queued' ? this.#forwarding.checkAgain(this.#exchange) : undefined
    this.#state = { name: 'connected', connection, leave: undefined }
    if (refusal !== undefined) return this.onRefused(refusal)
    if (!mustBeRead(connection, this.#upload !== undefined)) this.#send(connection)
    else setImmediate(() => contain(this, forward => forward.#sendOrReplace(connection)))
  }

  /** The request was sent as an upgrade on this connection, and is answered like any other. */
  takeResponse(connection: UpstreamConnection, head: ResponseHead, whole: string | undefined): this {
    this.#state = { name: 'connected', connection, leave: undefined }
    this.onHead(head, whole)
    return this
  }

  #sendOrReplace(connection: UpstreamConnection) {
    if (this.#state.name === 'over') return connection.destroy()
    if (connection.destroyed) this.onUploadReady()
    else this.#send(connection)
  }

  #send(connection: UpstreamConnection) {
    if (connection.idleSince === 0) this.#attempts++
    const { request, head } = this.#exchange
    const upload = this.#upload
    const isLast = upload !== undefined && (ignoresBody(request.method) || connection.mayLeaveBodies)
    const text = this.#forwarding.headFor(this.#exchange, this.#route, connection.target.authority, isLast)
    if (bindsConnection(head.authorization)) connection.isBound = true
    connection.send(request.method, text, this, this.#route.timeoutMs ?? this.#upstream.timeoutMs, isLast)
    if (upload === undefined) connection.finish()
    else if (connection.isConnected) upload.sendOn(connection)
  }

  /** A target that cannot be reached gets nothing of the body, which another one may need. */
  onConnected() {
    const { connection } = this.#state
    if (connection !== undefined) this.#upload?.sendOn(connection)
  }

  /** Ends the request from our side, before or after the response began. */
  onRefused(error: GatewayError) {
    this.abort()
    this.#forwarding.refuse(this.#exchange, error)
  }

  abort() {
    this.#finish()?.destroy()
  }

  /** Returns the connection that carried it. */
  #finish(): UpstreamConnection | undefined {
    const { connection, leave } = this.#state
    this.#state = OVER
    this.#exchange.underway = undefined
    this.#upload?.stop()
    leave?.()
    return connection
  }

  onThrown(error: unknown) {
    this.#exchange.onThrown(error)
  }

  onDrain() {
    this.#upload?.onDrain()
  }

  onInterim(status: number, headers: readonly string[]) {
    // 100 was sent by the gateway; other interim responses are not known to be useful to clients.
    const { response } = this.#exchange
    if (status === 102) response.interim(102, 'Processing', '')
    if (status !== 103 || ++this.#hints > MAX_HINTS) return
    const links = fieldValues(headers, 'link').flatMap(value => ['link', value])
    if (links.length === 0 || responseRulesOf(this.#upstream)?.removes('link')) return
    response.interim(103, 'Early Hints', headerLines(links))
  }

  onHead(head: ResponseHead, whole: string | undefined) {
    const { connection } = this.#state
    if (connection === undefined) return
    const exchange = this.#exchange
    this.#upload?.noteResponse()
    exchange.noteAnswer(connection.waitedMs)
    const context = this.#forwarding.responseContext(this.#route, this.#upstream, exchange.host)
    const privacy = privateAnswersOf(this.#route, exchange.setCookies !== undefined)
    const { lines: passed, hasDate, eventStream } = clientHead(head, context, privacy)
    if (eventStream && whole === undefined) {
      const refusal = this.#becomeStream(connection, head.contentLength)
      if (refusal !== undefined) return this.onRefused(refusal)
    }
    const lines = this.#forwarding.linesFor(exchange, passed)
    const answer = { status: head.status, reason: head.reason, lines, hasDate }
    if (whole !== undefined) {
      exchange.response.whole(answer, whole)
      this.#finish()
      return
    }
    exchange.response.taker = this
    exchange.response.begin(answer, head.contentLength)
  }

  /** Returns why the stream may not begin, if so. */
  #becomeStream(connection: UpstreamConnection, contentLength: number): GatewayError | undefined {
    const { streams } = this.#forwarding
    const exchange = this.#exchange
    const release = streams.admit({
      upstream: this.#upstream,
      userId: exchange.identity?.user.id,
      ip: exchange.client.key
    })
    if (release instanceof GatewayError) return release
    const end = () => {
      this.abort()
      // Where a length was announced, what the client lacks of it may not be taken from the next response.
      if (contentLength >= 0) exchange.response.abort()
      else exchange.response.end()
    }
    try {
      const { close } = streams.register(streamInfoOf(exchange, this.#route, 'sse'), { end, destroy: end })
      const leave = () => {
        close()
        release()
      }
      this.#state = { name: 'streaming', connection, leave }
    } catch (error) {
      release()
      return asGatewayError(error)
    }
    connection.waitForever()
    return undefined
  }

  onBody(chunk: Buffer) {
    const { connection } = this.#state
    if (connection === undefined) return
    this.#upload?.noteProgress()
    if (!this.#exchange.response.write(chunk)) connection.pause()
  }

  onTaken() {
    this.#state.connection?.resume()
  }

  onEnd(trailers: readonly string[]) {
    if (this.#state.name === 'over') return
    this.#finish()
    const passed = trailers.length === 0 ? [] : clientTrailers(trailers, responseRulesOf(this.#upstream)?.removes)
    this.#exchange.response.end(headerLines(passed))
  }

  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean) {
    const { connection } = this.#state
    if (connection === undefined) return
    const count = this.#forwarding.upstreams.poolOf(this.#upstream).targetCount()
    if (fault !== 'reset') this.#unreached = [...(this.#unreached ?? []), connection.target]
    const unreached = this.#unreached?.length ?? 0
    const isUnsent = nothingSent && this.#upload?.isUnsent !== false
    if (isUnsent && mayTryAgain(fault, this.#attempts, unreached, count)) return this.onUploadReady()
    const isStalled = fault === 'timeout' && this.#exchange.response.hasBegun
    this.onRefused(
      isStalled ? new UpstreamTimeout({ cause, reason: 'upstream-stalled' }) : upstreamRefusal(fault, cause)
    )
  }
}

const maxBodyOf = (route: Route, { maxBodyBytes }: HttpForwarding): number | undefined =>
  route.maxBodyBytes ?? maxBodyBytes

const uploadLimits = (route: Route, upstream: Upstream, forwarding: HttpForwarding): UploadLimits => ({
  bufferBytes: route.streaming ? 0 : upstream.requestBufferBytes,
  maxBytes: maxBodyOf(route, forwarding),
  idleTimeoutMs: upstream.idleTimeoutMs
})

export const createForwardHttp =
  (forwarding: HttpForwarding) =>
  (exchange: Exchange, route: Route, upstream: Upstream): void => {
    const most = maxBodyOf(route, forwarding)
    if (most !== undefined && Number(exchange.head.contentLength ?? 0) > most) {
      forwarding.refuse(exchange, new BodyTooLarge({ reason: 'body-too-large' }))
    } else new HttpForward(exchange, route, upstream, forwarding).begin()
  }

/** Passes on the response of a backend that ignores an upgrade, beginning with its head; returns what takes the rest of it. */
export const createPassResponse =
  (forwarding: HttpForwarding) =>
  (
    exchange: Exchange,
    route: Route,
    upstream: Upstream,
    ...begun: Parameters<HttpForward['takeResponse']>
  ): Requester =>
    new HttpForward(exchange, route, upstream, forwarding).takeResponse(...begun)
