// Carries one request at a time on one socket to one target, and reuses it only if its state is certain.
import type { Socket } from 'node:net'
import { readMemory, writeCopy } from '../http/passing-bytes.ts'
import { flushSoon, type Waiting } from '../http/write-batch.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { contain, endThrown, noteFault } from '../values/contain.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import { dial } from './dial.ts'
import { EXHAUSTED, Http2Only, isHttp2Frame, isNoCommonProtocol, type UpstreamFault } from './faults.ts'
import { DEFAULT_KEEP_ALIVE_MS, keepAliveHint } from './headers/keep-alive-hint.ts'
import { BadResponse, type ResponseHead, ResponseParser, type ResponseSink, UnaskedBytes } from './parser.ts'
import type { Requester } from './requester.ts'

interface ConnectionEvents {
  /** The exchange is over and the connection can be reused. */
  onFree(connection: UpstreamConnection): void
  onClosed(connection: UpstreamConnection): void
  /** It carries an endless response. */
  onStream?(connection: UpstreamConnection): void
  /** A response head has arrived. */
  onAnswer?(connection: UpstreamConnection, status: number): void
  /** A request failed; called before its requester is notified. */
  onFault?(fault: UpstreamFault, nothingSent: boolean): void
  /** The target turned out to speak HTTP/2 only. */
  onHttp2?(): void
  /** Bytes arrived that no request asked for, after a request with a body. */
  onUnasked?(): void
  /** They have arrived from this target before. */
  readonly hasUnasked?: boolean
  now(): number
}

const NEVER = Number.POSITIVE_INFINITY

/** A class, for memory and speed: there is one per open socket, used for every request. */
export class UpstreamConnection implements Waiting, ResponseSink {
  readonly target: Target
  /** Its upstream in the route table in use, which may be a later one than at dialling. */
  upstream: Upstream
  /** When dialling began; milliseconds of the clock passed to the pool, like all times here. */
  readonly openedAt: number
  destroyed = false
  /** The pool's sweep calls `expire` when it has passed. */
  deadline: number
  idleSince = 0
  /** Time between the first byte of the request and the response head; -1 before. */
  waitedMs = -1
  /** The last response announced a body that it must not have: another request may follow once none has arrived for a while. */
  mustRest = false
  /** No other request may follow, whatever the response says. */
  isLast = false
  readonly #events: ConnectionEvents
  readonly #socket: Socket
  readonly #parser = new ResponseParser()
  #requester: Requester | undefined
  #connected = false
  /** The request head that has not been written yet. */
  #unsent: string | undefined
  #written = false
  #hasCarriedBody = false
  #finished = false
  #reusable = true
  #paused = false
  #keepAliveMs = DEFAULT_KEEP_ALIVE_MS
  #timeoutMs = 0
  #sentAt = 0
  #readAt = 0
  #firstError: NodeJS.ErrnoException | undefined

  constructor(upstream: Upstream, target: Target, events: ConnectionEvents) {
    this.target = target
    this.upstream = upstream
    this.#events = events
    this.openedAt = events.now()
    this.deadline = this.openedAt + upstream.connectTimeoutMs
    this.#socket = dial(upstream, target, {
      buffer: readMemory,
      callback: count => this.#takeContained(readMemory.subarray(0, count))
    })
    if (target.tls) this.#socket.on('data', bytes => this.#takeContained(bytes))
    this.#socket.on(target.tls ? 'secureConnect' : 'connect', () => {
      this.#connected = true
      contain(this, connected => {
        connected.#alive()
        connected.#requester?.onConnected?.()
      })
    })
    this.#socket.on('drain', () => contain(this, full => full.#requester?.onDrain()))
    this.#socket.on('end', () => contain(this, ended => ended.#onEnd()))
    this.#socket.on('error', error => contain(this, failed => failed.#onError(error)))
    this.#socket.on('close', () => {
      contain(this, ended => ended.#onEnd())
      this.destroy()
    })
  }

  get isConnected(): boolean {
    return this.#connected
  }

  /** The target may have left bodies unread, and taken them for requests. */
  get mayLeaveBodies(): boolean {
    return this.#events.hasUnasked === true
  }

  /**
   * Sends a request head at the end of this turn of the event loop; `method` frames the response. The upstream may
   * be silent for `timeoutMs` before its response head, then for its `idleTimeout`.
   */
  send(method: string, head: string, requester: Requester, timeoutMs: number): void {
    this.#requester = requester
    this.#timeoutMs = timeoutMs
    this.#sentAt = this.#events.now()
    this.waitedMs = -1
    this.#finished = false
    this.#written = false
    this.#reusable = true
    if (this.#connected) this.deadline = this.#sentAt + timeoutMs
    this.#parser.begin(method, this)
    this.#unsent = head
    flushSoon(this)
  }

  flush(): void {
    const head = this.#unsent
    if (head === undefined || this.destroyed) return
    this.#unsent = undefined
    this.#socket.write(head, 'latin1')
  }

  /** Sends more of the request body, copied. Returns false if the socket is full: wait for `onDrain`. */
  write(bytes: Buffer | string): boolean {
    this.#beforeWrite()
    return typeof bytes === 'string' ? this.#socket.write(bytes, 'latin1') : writeCopy(this.#socket, bytes)
  }

  /** The same as one chunk of a chunked body (RFC 9112 §7.1). */
  writeChunk(bytes: Buffer): boolean {
    this.#beforeWrite()
    this.#socket.cork()
    this.#socket.write(`${bytes.length.toString(16)}\r\n`, 'latin1')
    writeCopy(this.#socket, bytes)
    const flows = this.#socket.write('\r\n', 'latin1')
    this.#socket.uncork()
    return flows
  }

  /** The whole request has been written. */
  finish(): void {
    this.#finished = true
    // Without a body, this is when the head was written.
    if (this.#connected && this.#written) this.#alive()
  }

  pause(): void {
    // While nothing is read, silence is not the upstream's fault.
    this.deadline = NEVER
    this.#paused = true
    this.#socket.pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.deadline = this.#events.now() + this.#timeoutMs
    this.#unpause()
  }

  /** From now on silence is no fault, and the connection counts as a stream (an event stream). */
  waitForever(): void {
    this.deadline = NEVER
    this.#timeoutMs = NEVER
    this.#events.onStream?.(this)
  }

  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    this.#requester = undefined
    this.#socket.destroy()
    contain(this, closed => closed.#events.onClosed(closed))
  }

  /** A callback has thrown: this ends, and so does the request in progress. */
  onThrown(error: unknown): void {
    const failed = this.#requester
    this.destroy()
    if (failed === undefined) noteFault('upstream', error)
    else endThrown(failed, error)
  }

  /** `deadline` has passed. */
  expire() {
    if (this.#requester === undefined) return this.destroy()
    // Everything that the client sent has reached the upstream, so the client is silent, which is handled elsewhere.
    if (this.#connected && !this.#finished && this.#socket.writableLength === 0) return this.#alive()
    const cause = new Error(this.#connected ? 'no data for too long' : 'connecting took too long')
    this.#fail('timeout', cause, !this.#connected)
  }

  // The requester gets the parser's results; the connection only records what matters for its own reuse.

  onInterim(status: number, headers: readonly string[]): void {
    this.#requester?.onInterim(status, headers)
  }

  onHead(head: ResponseHead, whole: string | undefined): void {
    this.waitedMs = this.#readAt - this.#sentAt
    this.#timeoutMs = this.upstream.idleTimeoutMs
    this.#alive(this.#readAt)
    this.#reusable = head.keepAlive
    this.mustRest = head.announcesMore
    if (this.#reusable) this.#keepAliveMs = keepAliveHint(head)
    this.#events.onAnswer?.(this, head.status)
    this.#requester?.onHead(head, whole)
  }

  onBody(chunk: Buffer): void {
    this.#requester?.onBody(chunk)
  }

  onEnd(trailers: readonly string[]): void {
    this.#requester?.onEnd(trailers)
    this.#requester = undefined
  }

  #takeContained(bytes: Buffer): boolean {
    try {
      return this.#take(bytes)
    } catch (error) {
      endThrown(this, error)
      return false
    }
  }

  #take(bytes: Buffer): boolean {
    if (this.destroyed) return false
    if (this.#unsent !== undefined) {
      if (isHttp2Frame(bytes)) this.#fail('bad-response', new Http2Only('HTTP/2 frames'))
      else {
        this.#noteUnasked(bytes)
        // Whatever this is, it is no response to a request of ours; a waiting request uses another connection.
        this.#fail('reset', new UnaskedBytes(), true)
      }
      return false
    }
    this.#readAt = this.#events.now()
    this.#alive(this.#readAt)
    try {
      this.#parser.take(bytes)
    } catch (error) {
      if (!(error instanceof BadResponse)) throw error
      if (error instanceof UnaskedBytes) this.#noteUnasked(bytes)
      this.#fail('bad-response', isHttp2Frame(bytes) ? new Http2Only('HTTP/2 frames') : error)
      return false
    }
    // Only now, with every byte checked, may another request follow, so that no response goes to the wrong request.
    if (this.#parser.isIdle && !this.destroyed) this.#settle()
    return !this.destroyed
  }

  /** Some servers announce with a 408 that they close an idle connection (RFC 9110 §15.5.9). */
  #noteUnasked(bytes: Buffer) {
    if (this.#hasCarriedBody && !/^HTTP\/1\.[01] 408/.test(bytes.toString('latin1', 0, 12))) this.#events.onUnasked?.()
  }

  #settle() {
    if (this.isLast || !this.#reusable || !this.#finished || this.#keepAliveMs === 0) return this.destroy()
    // The requester may have paused at the very last bytes.
    if (this.#paused) this.#unpause()
    this.idleSince = this.#readAt
    this.deadline = this.idleSince + this.#keepAliveMs
    this.#events.onFree(this)
  }

  #beforeWrite() {
    this.flush()
    this.#written = true
    this.#hasCarriedBody = true
    if (this.#connected) this.#alive()
  }

  #alive(at = this.#events.now()) {
    if (this.deadline !== NEVER) this.deadline = at + this.#timeoutMs
  }

  #unpause() {
    this.#paused = false
    this.#socket.resume()
  }

  #onEnd() {
    if (this.destroyed) return
    if (this.#parser.isIdle) return this.destroy()
    const begun = this.#parser.hasBegun
    if (this.#parser.finish()) return this.destroy()
    const cause = this.#firstError ?? new Error('closed before the response was complete')
    this.#fail(begun ? 'bad-response' : 'reset', cause, this.#unsent !== undefined)
  }

  #onError(error: NodeJS.ErrnoException) {
    this.#firstError ??= error
    if (this.destroyed) return
    if (isNoCommonProtocol(error)) return this.#fail('bad-response', new Http2Only('no common protocol'))
    if (!this.#connected) return this.#fail(noteOutOfDescriptors(error) ? EXHAUSTED : 'unreachable', error, true)
    // A write that the kernel refused at once sent nothing of a request whose head was all that was written.
    this.#fail('reset', error, this.#unsent !== undefined || (error.syscall === 'write' && !this.#written))
  }

  #fail(fault: UpstreamFault, cause: unknown, nothingSent = false) {
    const failed = this.#requester
    this.destroy()
    if (failed === undefined) return
    this.#events.onFault?.(fault, nothingSent)
    if (cause instanceof Http2Only) this.#events.onHttp2?.()
    contain(failed, requester => requester.onFault(fault, cause, nothingSent))
  }
}
