// A request that may pass goes upstream and its answer comes back, streaming both ways; whatever breaks, both sides are told.

import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  BadUpstreamResponse,
  BodyTooLarge,
  type GatewayError,
  RequestTimeout,
  Unavailable,
  UpstreamTimeout,
  UpstreamUnreachable
} from '../errors.ts'
import type { Exchange, Underway } from '../http/exchange.ts'
import type { OwnCookies } from '../http/fields.ts'
import { hasBody } from '../http/head.ts'
import { sendWhole } from '../http/whole-answer.ts'
import type { Route, Target, Upstream } from '../routes/route.ts'
import type { Requester, UpstreamConnection, UpstreamFault } from '../upstream/connection.ts'
import { freeMemory } from '../upstream/free-memory.ts'
import { responseRulesOf } from '../upstream/headers/header-rules.ts'
import { privateAnswersOf } from '../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import { clientHead, clientTrailers } from '../upstream/response-head.ts'
import type { Upstreams } from '../upstream/upstreams.ts'

const UPLOAD_CHECK_MS = 30_000
/** Slower than 100 bytes a second over half a minute is an attack or a dead line. */
const UPLOAD_MIN_BYTES = 3000
// A connection that has been idle for so long may have been closed by the other side a moment ago.
const DOUBTFUL_IDLE_MS = 1000

export interface Forwarding {
  readonly upstreams: Upstreams
  /** The request head for a target with this Host value. */
  readonly headFor: (exchange: Exchange, route: Route, authority: string) => string
  /** Flat `[name, value, …]` fields that the gateway adds to every forwarded answer. */
  readonly addedHeaders: (exchange: Exchange) => readonly string[]
  readonly ownCookies: OwnCookies
  /** Answers a refusal, or breaks off an answer already begun. */
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
  /** An event stream has begun; returns what to call when it is over. `end` closes it. */
  readonly onEventStream: (exchange: Exchange, end: () => void) => () => void
}

const FAULTS: Record<UpstreamFault, (cause: unknown) => GatewayError> = {
  unreachable: cause => new UpstreamUnreachable({ cause, reason: 'upstream-unreachable' }),
  reset: cause => new UpstreamUnreachable({ cause, reason: 'upstream-reset' }),
  'bad-response': cause => new BadUpstreamResponse({ cause, reason: 'upstream-nonsense' }),
  timeout: cause => new UpstreamTimeout({ cause, reason: 'upstream-timeout' })
}

/** One request under way to one upstream. */
class HttpForward implements Requester, Underway {
  readonly #exchange: Exchange
  readonly #forwarding: Forwarding
  readonly #upstream: Upstream
  readonly #route: Route
  readonly #req: IncomingMessage
  readonly #res: ServerResponse
  readonly #withBody: boolean
  #connection: UpstreamConnection | undefined
  #attempts = 0
  /** Targets that could not be reached; rarely any. */
  #unreached: Target[] | undefined
  #uploading = false
  #uploadEnded = false
  #uploaded = 0
  #over = false
  #waitsForClient = false
  #uploadCheck: NodeJS.Timeout | undefined
  #streamOver: (() => void) | undefined

  constructor(exchange: Exchange, route: Route, upstream: Upstream, forwarding: Forwarding) {
    this.#exchange = exchange
    this.#forwarding = forwarding
    this.#upstream = upstream
    this.#route = route
    this.#req = exchange.req
    this.#res = exchange.res
    this.#withBody = hasBody(exchange.head)
    exchange.underway = this
  }

  begin() {
    const connection = this.#forwarding.upstreams.poolOf(this.#upstream).acquire(undefined, this.#unreached)
    if (connection === undefined) return this.#fail(new Unavailable({ reason: 'upstream-connections-exhausted' }))
    this.#connection = connection
    this.#attempts++
    // Once the body is on its way nothing waits: it must not come before the head.
    const isDoubtful = connection.idleSince > 0 && performance.now() - connection.idleSince > DOUBTFUL_IDLE_MS
    if (isDoubtful && !this.#uploading) {
      // One turn of the event loop: a close that has already arrived is then known.
      setImmediate(() => this.#sendOrReplace(connection))
    } else this.#send(connection)
  }

  #sendOrReplace(connection: UpstreamConnection) {
    if (this.#over) return connection.destroy()
    if (connection.destroyed) this.begin()
    else this.#send(connection)
  }

  #send(connection: UpstreamConnection) {
    const head = this.#forwarding.headFor(this.#exchange, this.#route, connection.target.authority)
    const timeoutMs = this.#route.timeoutMs ?? this.#upstream.timeoutMs
    connection.send(this.#req.method ?? 'GET', head, this, timeoutMs)
    if (!this.#withBody) return connection.finish()
    if (!this.#uploading) {
      this.#uploading = true
      this.#startUpload()
    } else if (this.#uploadEnded) this.#finishUpload(connection)
  }

  #startUpload() {
    if (this.#exchange.awaitsContinue) {
      this.#exchange.awaitsContinue = false
      this.#res.writeContinue()
    }
    this.#req.on('data', (chunk: Buffer) => this.#onUpload(chunk))
    this.#req.on('end', () => this.#onUploadEnd())
    let before = 0
    this.#uploadCheck = setInterval(() => {
      const moved = this.#uploaded - before
      before = this.#uploaded
      if (moved < UPLOAD_MIN_BYTES && !this.#req.isPaused())
        this.#cut(new RequestTimeout({ reason: 'upload-too-slow' }))
    }, UPLOAD_CHECK_MS)
  }

  #onUpload(chunk: Buffer) {
    const connection = this.#connection
    if (connection === undefined || this.#over) return
    this.#uploaded += chunk.length
    const limit = this.#route.maxBodyBytes
    if (limit !== undefined && this.#uploaded > limit) return this.#cut(new BodyTooLarge({ reason: 'body-too-large' }))
    let flows: boolean
    if (this.#exchange.head.transferEncoding === undefined) flows = connection.give(chunk)
    else {
      connection.cork()
      connection.write(`${chunk.length.toString(16)}\r\n`)
      connection.give(chunk)
      flows = connection.write('\r\n')
      connection.uncork()
    }
    if (!flows) this.#req.pause()
  }

  #onUploadEnd() {
    clearInterval(this.#uploadCheck)
    this.#uploadEnded = true
    if (this.#over || this.#connection === undefined) return
    this.#finishUpload(this.#connection)
  }

  /** Again on another connection when the first could not be opened and the body was empty. */
  #finishUpload(connection: UpstreamConnection) {
    if (this.#exchange.head.transferEncoding !== undefined) connection.write('0\r\n\r\n')
    connection.finish()
  }

  /** Ends the request from our side, before or after the answer began. */
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
    clearInterval(this.#uploadCheck)
    this.#streamOver?.()
    this.#streamOver = undefined
  }

  abort() {
    const connection = this.#connection
    this.#finish()
    connection?.destroy()
  }

  onDrain() {
    this.#req.resume()
  }

  onInterim(status: number, headers: readonly string[]) {
    // A 1.0 client knows no 1xx (RFC 9110 §15.2); 100 was answered here.
    if (this.#req.httpVersionMinor === 0 || this.#res.headersSent) return
    if (status === 102) this.#res.writeProcessing()
    if (status !== 103) return
    const link: string[] = []
    for (let i = 0; i < headers.length; i += 2)
      if (headers[i]?.toLowerCase() === 'link') link.push(headers[i + 1] ?? '')
    if (link.length === 0 || responseRulesOf(this.#upstream)?.removes('link')) return
    try {
      this.#res.writeEarlyHints({ link })
    } catch {
      // Node accepts fewer forms of Link than RFC 8288 allows; a hint may be left out (RFC 8297 §2).
    }
  }

  onHead(head: ResponseHead, whole: string | undefined) {
    const connection = this.#connection
    if (connection === undefined) return
    this.#exchange.upstreamMs = connection.waitedMs
    this.#exchange.headMs = performance.now() - this.#exchange.startedAt
    const { headers, eventStream } = clientHead(head, {
      ownCookies: this.#forwarding.ownCookies,
      upstream: this.#upstream,
      strippedPrefix: this.#route.stripPrefix ?? '',
      host: this.#exchange.host,
      privacy: privateAnswersOf(this.#route)
    })
    headers.push(...this.#forwarding.addedHeaders(this.#exchange))
    const res = this.#res
    // An answer before the end of the upload: the rest of it is not worth waiting for (RFC 9112 §9.3).
    if (this.#withBody && !this.#req.complete) res.shouldKeepAlive = false
    const { status, reason } = head
    if (whole !== undefined && sendWhole(this.#req, res, { status, reason, headers, body: whole }))
      return this.#finish()
    res.writeHead(head.status, head.reason, headers)
    res.socket?.cork()
    // First and by itself: with a Buffer, Node puts the head before interim responses that still wait behind another answer.
    res.flushHeaders()
    process.nextTick(() => res.socket?.uncork())
    if (whole !== undefined) {
      res.end(whole === '' ? undefined : Buffer.from(whole, 'latin1'))
      return
    }
    if (eventStream) this.#streamEvents(connection)
  }

  #streamEvents(connection: UpstreamConnection) {
    connection.waitForever()
    this.#streamOver = this.#forwarding.onEventStream(this.#exchange, () => {
      this.#finish()
      connection.destroy()
      this.#res.end()
    })
  }

  onBody(chunk: Buffer, isLent: boolean) {
    if (this.#over) return
    const flows = this.#res.write(chunk, () => {
      if (!isLent) freeMemory(chunk)
      this.#onTaken()
    })
    if (flows && !isLent) return
    this.#waitsForClient = true
    this.#connection?.pause()
  }

  /** The client's socket has taken a chunk; the next may come when it has taken all of them. */
  #onTaken() {
    if (!this.#waitsForClient || this.#res.writableLength > 0) return
    this.#waitsForClient = false
    this.#connection?.resume()
  }

  onEnd(trailers: readonly string[]) {
    if (this.#over) return
    this.#finish()
    if (this.#res.writableEnded) return
    if (trailers.length > 0) this.#res.addTrailers(clientTrailers(trailers, responseRulesOf(this.#upstream)?.removes))
    this.#res.end()
  }

  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean) {
    if (this.#over) return
    const pool = this.#forwarding.upstreams.poolOf(this.#upstream)
    const target = this.#connection?.target
    this.#connection = undefined
    if (fault !== 'reset' && target !== undefined) this.#unreached = [...(this.#unreached ?? []), target]
    // Not a byte has left, and nothing of the body has been read: another connection may be tried. A warm one that was
    // closed meanwhile says nothing against its target; a target that can't be reached is not asked twice.
    const tries = fault === 'reset' ? pool.targets + 1 : pool.targets
    if (nothingSent && this.#uploaded === 0 && this.#attempts < tries) return this.begin()
    const isStalled = fault === 'timeout' && this.#res.headersSent
    this.#fail(isStalled ? new UpstreamTimeout({ cause, reason: 'upstream-stalled' }) : FAULTS[fault](cause))
  }
}

export const createForwardHttp =
  (forwarding: Forwarding) =>
  (exchange: Exchange, route: Route, upstream: Upstream): void => {
    const length = exchange.head.contentLength
    if (route.maxBodyBytes !== undefined && length !== undefined && Number(length) > route.maxBodyBytes) {
      forwarding.refuse(exchange, new BodyTooLarge({ reason: 'body-too-large' }))
    } else new HttpForward(exchange, route, upstream, forwarding).begin()
  }
