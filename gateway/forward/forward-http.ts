// Forwards a request and its response, streaming in both directions; a fault on one side is reported to the other.

import { BodyTooLarge, GatewayError, UpstreamTimeout } from '../errors.ts'
import type { Exchange, Underway } from '../http/exchange.ts'
import { hasBody, ignoresBody } from '../http/head.ts'
import type { HttpRequest } from '../http/server/request.ts'
import type { AnswerTaker, HttpResponse } from '../http/server/response.ts'
import { headerLines } from '../http/server/response-head.ts'
import type { Route } from '../routes/route.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { bindsConnection, type UpstreamConnection } from '../upstream/connection.ts'
import { EXHAUSTED, type UpstreamFault, upstreamRefusal } from '../upstream/faults.ts'
import { clientHead, clientTrailers, type ResponseContextOf } from '../upstream/headers/client-head.ts'
import { responseRulesOf } from '../upstream/headers/header-rules.ts'
import { privateAnswersOf } from '../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import { mustBeRead } from '../upstream/pool.ts'
import type { Waiter } from '../upstream/queue.ts'
import type { Requester } from '../upstream/requester.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import { contain } from '../values/contain.ts'
import type { RegisterEventStream } from './event-streams.ts'
import { Upload, type UploadOwner } from './upload.ts'

const NO_MORE: readonly string[] = []

interface HttpForwarding {
  readonly upstreams: Upstreams
  /** The request head for a target with this Host value; `closes`: it announces that no other request follows. */
  readonly headFor: (exchange: Exchange, route: Route, authority: string, closes: boolean) => string
  /** All field lines of a forwarded response; `passed` are the backend's, some of which may be removed. */
  readonly linesFor: (exchange: Exchange, passed: string) => string
  readonly responseContext: ResponseContextOf
  /** Responds with a refusal, or aborts a response that has already begun. */
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** Called when an event stream begins; returns a function to call when it is over, or why it is refused. `end` closes it. */
  readonly onEventStream: RegisterEventStream
  /** Largest request body where a route says nothing; undefined: no limit. */
  readonly maxBodyBytes: number | undefined
}

/** One request in progress to one upstream. */
class HttpForward implements Requester, Underway, UploadOwner, AnswerTaker, Waiter {
  readonly #exchange: Exchange
  readonly #forwarding: HttpForwarding
  readonly #upstream: Upstream
  readonly #route: Route
  readonly #request: HttpRequest
  readonly #response: HttpResponse
  /** undefined: the request has no body. */
  readonly #upload: Upload | undefined
  #connection: UpstreamConnection | undefined
  #attempts = 0
  /** Targets that could not be reached; usually none. */
  #unreached: Target[] | undefined
  #over = false
  #streamOver: (() => void) | undefined
  /** It waits for a connection. */
  #stopWaiting: (() => void) | undefined

  constructor(exchange: Exchange, route: Route, upstream: Upstream, forwarding: HttpForwarding) {
    this.#exchange = exchange
    this.#forwarding = forwarding
    this.#upstream = upstream
    this.#route = route
    this.#request = exchange.request
    this.#response = exchange.response
    const limits = {
      bufferBytes: route.streaming ? 0 : upstream.requestBufferBytes,
      maxBytes: maxBodyOf(route, forwarding),
      idleTimeoutMs: upstream.idleTimeoutMs
    }
    this.#upload = hasBody(exchange.head) ? new Upload(exchange, this, limits) : undefined
    exchange.underway = this
  }

  begin() {
    if (this.#upload === undefined) this.#acquire()
    else this.#upload.begin()
  }

  onUploadReady() {
    this.#acquire()
  }

  #acquire() {
    const pool = this.#forwarding.upstreams.poolOf(this.#upstream)
    const asked = { client: this.#request.connection, not: this.#unreached }
    const connection = pool.acquire(asked)
    if (connection !== undefined) return this.onConnection(connection)
    const waiting = pool.wait(this, asked)
    if (waiting instanceof GatewayError) this.#fail(waiting)
    else this.#stopWaiting = waiting
  }

  onConnection(connection: UpstreamConnection) {
    this.#stopWaiting = undefined
    this.#connection = connection
    this.#attempts++
    if (!mustBeRead(connection, this.#upload !== undefined)) this.#send(connection)
    else setImmediate(() => contain(this, forward => forward.#sendOrReplace(connection)))
  }

  onRefused(error: GatewayError) {
    this.#stopWaiting = undefined
    this.#fail(error)
  }

  #sendOrReplace(connection: UpstreamConnection) {
    if (this.#over) return connection.destroy()
    if (connection.destroyed) this.#acquire()
    else this.#send(connection)
  }

  #send(connection: UpstreamConnection) {
    const upload = this.#upload
    const isLast = upload !== undefined && (ignoresBody(this.#request.method) || connection.mayLeaveBodies)
    const head = this.#forwarding.headFor(this.#exchange, this.#route, connection.target.authority, isLast)
    if (bindsConnection(this.#exchange.head.authorization)) connection.isBound = true
    connection.send(this.#request.method, head, this, this.#route.timeoutMs ?? this.#upstream.timeoutMs, isLast)
    if (upload === undefined) connection.finish()
    else if (connection.isConnected) upload.sendOn(connection)
  }

  /** A target that cannot be reached gets nothing of the body, which another one may need. */
  onConnected() {
    if (this.#connection !== undefined) this.#upload?.sendOn(this.#connection)
  }

  onUploadRefused(error: GatewayError) {
    this.#cut(error)
  }

  /** Ends the request from our side, before or after the response began. */
  #cut(error: GatewayError) {
    const connection = this.#connection
    this.#finish()
    connection?.destroy()
    this.#forwarding.refuse(this.#exchange, error)
  }

  #fail(error: GatewayError) {
    this.#finish()
    this.#forwarding.refuse(this.#exchange, error)
  }

  #finish() {
    this.#over = true
    this.#connection = undefined
    this.#exchange.underway = undefined
    this.#upload?.stop()
    this.#stopWaiting?.()
    this.#streamOver?.()
    this.#streamOver = undefined
  }

  abort() {
    const connection = this.#connection
    this.#finish()
    connection?.destroy()
  }

  onThrown(error: unknown) {
    this.#exchange.onThrown(error)
  }

  onDrain() {
    this.#upload?.onDrain()
  }

  onInterim(status: number, headers: readonly string[]) {
    // 100 was sent by the gateway; other interim responses are not known to be useful to clients.
    if (status === 102) this.#response.interim(102, 'Processing', '')
    if (status !== 103) return
    const links: string[] = []
    for (let i = 0; i < headers.length; i += 2)
      if (headers[i]?.toLowerCase() === 'link') links.push('link', headers[i + 1] ?? '')
    if (links.length === 0 || responseRulesOf(this.#upstream)?.removes('link')) return
    this.#response.interim(103, 'Early Hints', headerLines(links))
  }

  onHead(head: ResponseHead, whole: string | undefined) {
    const connection = this.#connection
    if (connection === undefined) return
    this.#upload?.noteResponse()
    this.#exchange.upstreamMs = connection.waitedMs
    this.#exchange.headMs = performance.now() - this.#exchange.startedAt
    const context = this.#forwarding.responseContext(this.#route, this.#upstream, this.#exchange.host)
    const { lines: passed, hasDate, eventStream } = clientHead(head, context, privateAnswersOf(this.#route))
    if (eventStream && whole === undefined) {
      const refusal = this.#streamEvents(connection)
      if (refusal !== undefined) return this.#cut(refusal)
    }
    const lines = this.#forwarding.linesFor(this.#exchange, passed)
    const answer = { status: head.status, reason: head.reason, lines, hasDate, headers: NO_MORE }
    if (whole !== undefined) {
      this.#response.whole(answer, whole)
      return this.#finish()
    }
    this.#response.taker = this
    this.#response.begin(answer, head.contentLength)
  }

  #streamEvents(connection: UpstreamConnection): GatewayError | undefined {
    const over = this.#forwarding.onEventStream(this.#exchange, this.#upstream, () => {
      this.#finish()
      connection.destroy()
      this.#response.end()
    })
    if (over instanceof GatewayError) return over
    this.#streamOver = over
    connection.waitForever()
    return undefined
  }

  onBody(chunk: Buffer) {
    if (this.#over) return
    this.#upload?.noteProgress()
    if (!this.#response.write(chunk)) this.#connection?.pause()
  }

  /** The client has taken everything so far. */
  onTaken() {
    this.#connection?.resume()
  }

  onEnd(trailers: readonly string[]) {
    if (this.#over) return
    this.#finish()
    const passed = trailers.length === 0 ? [] : clientTrailers(trailers, responseRulesOf(this.#upstream)?.removes)
    this.#response.end(headerLines(passed))
  }

  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean) {
    if (this.#over) return
    const pool = this.#forwarding.upstreams.poolOf(this.#upstream)
    const target = this.#connection?.target
    this.#connection = undefined
    if (fault !== 'reset' && target !== undefined) this.#unreached = [...(this.#unreached ?? []), target]
    // Nothing has been sent, so another connection may be tried. A warm connection that was closed in the meantime says nothing
    // against its target; an unreachable target is not tried twice.
    const tries = fault === 'reset' ? pool.targetCount() + 1 : fault === EXHAUSTED ? 0 : pool.targetCount()
    const isUnsent = nothingSent && this.#upload?.isUnsent !== false
    if (isUnsent && this.#attempts < tries) return this.#acquire()
    const isStalled = fault === 'timeout' && this.#response.hasBegun
    this.#fail(isStalled ? new UpstreamTimeout({ cause, reason: 'upstream-stalled' }) : upstreamRefusal(fault, cause))
  }
}

const maxBodyOf = (route: Route, { maxBodyBytes }: HttpForwarding): number | undefined =>
  route.maxBodyBytes ?? maxBodyBytes

export const createForwardHttp =
  (forwarding: HttpForwarding) =>
  (exchange: Exchange, route: Route, upstream: Upstream): void => {
    const most = maxBodyOf(route, forwarding)
    if (most !== undefined && Number(exchange.head.contentLength ?? 0) > most) {
      forwarding.refuse(exchange, new BodyTooLarge({ reason: 'body-too-large' }))
    } else new HttpForward(exchange, route, upstream, forwarding).begin()
  }
