// Carries one request at a time on one socket to one target, and reuses it only if its state is certain.
import type { Socket } from 'node:net'
import { flushSoon, Outbox, type OutboxOwner, readMemory, type Waiting } from '../http/outbox.ts'
import type { ClientConnection, Takeover } from '../http/request.ts'
import type { Target, Upstream } from '../routes/upstream.ts'
import { contain, endThrown, noteFault } from '../values/contain.ts'
import { noteOutOfDescriptors } from '../values/descriptors.ts'
import { dial, keepAfterFailedWrite, watchForAlert } from './dial.ts'
import { BadResponse, EXHAUSTED, Http2Only, isHttp2Frame, isNoCommonProtocol, type UpstreamFault } from './faults.ts'
import {
  asksForConnection,
  DEFAULT_KEEP_ALIVE_MS,
  keepAliveHint,
  type Requester,
  type ResponseHead,
  ResponseParser,
  type ResponseSink,
  UnaskedBytes
} from './parser.ts'

/** A client connection, as far as it matters which requests share an upstream connection. */
export type Client = ClientConnection['client']

interface ConnectionEvents {
  /** The exchange is over and the connection can be reused. */
  onFree(connection: UpstreamConnection): void
  onClosed(connection: UpstreamConnection): void
  /** It has switched protocols: only its socket still counts. */
  onSwitched?(connection: UpstreamConnection, socket: Pick<Socket, 'once'>): void
  /** It carries an endless response. */
  onStream?(connection: UpstreamConnection): void
  /** A response head has arrived. */
  onAnswer?(connection: UpstreamConnection, status: number): void
  /** A request failed; called before its requester is notified. */
  onFault?(fault: UpstreamFault, nothingSent: boolean): void
  /** The target turned out to speak HTTP/2 only. */
  onHttp2?(): void
  /** Bytes arrived that no request asked for. */
  onUnasked?(): void
  /** They have arrived from this target before. */
  readonly hasUnasked?: boolean
  now(): number
}

/** `deaf`: a write has failed, and what has arrived is still read. */
type State = 'dialling' | 'open' | 'deaf' | 'closed'

const NEVER = Number.POSITIVE_INFINITY

/** A class, for memory and speed: there is one per open socket, used for every request. */
export class UpstreamConnection implements Waiting, OutboxOwner, ResponseSink {
  /** In the route table in use, which may be a later one than at dialling, like its upstream. */
  target: Target
  upstream: Upstream
  /** When dialling began; milliseconds of the clock passed to the pool, like all times here. */
  readonly openedAt: number
  /** The pool's sweep calls `expire` when it has passed. */
  deadline: number
  idleSince = 0
  /** Time between the first byte of the request and the response head; -1 before. */
  waitedMs = -1
  /** Whose request it carries, or carried last. */
  client: Client | undefined
  clientKey: string | undefined
  /** The client address whose share of the target it takes. */
  heldBy: string | undefined
  isOfProxy = false
  /** The backend may have authenticated it (NTLM, Negotiate): it carries no request of another client. */
  isBound = false
  readonly #events: ConnectionEvents
  readonly #socket: Socket
  /** Of request bodies. */
  readonly #outbox: Outbox
  readonly #parser = new ResponseParser()
  #state: State = 'dialling'
  #requester: Requester | undefined
  /** The request head that has not been written yet. */
  #unsent: string | undefined
  /** Of the request in progress: part of the body has been written. */
  #hasBody = false
  /** The request has been written completely. */
  #isComplete = false
  /** Another request may follow. */
  #mayFollow = true
  /** The requester takes nothing for now. */
  #isHeld = false
  #keepAliveMs = DEFAULT_KEEP_ALIVE_MS
  #timeoutMs = 0
  #sentAt = 0
  #readAt = 0
  #reads = 0
  #firstError: NodeJS.ErrnoException | undefined
  /** Its end is no end of a response (RFC 9112 §9.8). */
  #isCut = false
  /** After a switch of protocols: takes what arrives. */
  #tunnel: ((bytes: Buffer) => void) | undefined

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
    this.#outbox = new Outbox(this.#socket, this)
    this.#socket.on(target.tls ? 'secureConnect' : 'connect', () => {
      if (this.#state === 'dialling') this.#state = 'open'
      contain(this, connected => {
        connected.#alive()
        connected.#requester?.onConnected?.()
      })
    })
    keepAfterFailedWrite(this.#socket, error => contain(this, failed => failed.#onWriteFailed(error)))
    if (target.tls) {
      watchForAlert(this.#socket, () => {
        this.#firstError ??= new Error('the TLS connection was closed without a closure alert')
        this.#isCut = true
      })
    }
    this.#socket.on('end', () => contain(this, ended => ended.#onEnd()))
    this.#socket.on('error', error => contain(this, failed => failed.#onError(error)))
    this.#socket.on('close', () => {
      contain(this, ended => ended.#onEnd())
      this.destroy()
    })
  }

  get destroyed(): boolean {
    return this.#state === 'closed'
  }

  get isConnected(): boolean {
    return this.#state === 'open'
  }

  /** The target may have left bodies unread, and taken them for requests. */
  get mayLeaveBodies(): boolean {
    return this.#events.hasUnasked === true
  }

  /**
   * Sends a request head at the end of this turn of the event loop; `method` frames the response. The upstream may
   * be silent for `timeoutMs` before its response head, then for its `idleTimeout`.
   * @param isLast the head says that no other request follows
   */
  send(method: string, head: string, requester: Requester, timeoutMs: number, isLast = false): void {
    this.#requester = requester
    this.#timeoutMs = timeoutMs
    this.#sentAt = this.#events.now()
    this.waitedMs = -1
    this.#isComplete = false
    this.#hasBody = false
    this.#mayFollow = !isLast
    if (this.#state === 'open') this.deadline = this.#sentAt + timeoutMs
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

  /** Sends more of the request body, copied, between two texts. Returns false if it is not taken at once: wait for `onDrain`. */
  write(bytes: Buffer, before = '', after = ''): boolean {
    this.flush()
    this.#hasBody = true
    if (this.#state === 'open') this.#alive()
    return this.#outbox.sendBytes(before, bytes, after)
  }

  flushSoon(waiting: Waiting): void {
    flushSoon(waiting)
  }

  onTaken(): void {
    this.#requester?.onDrain?.()
  }

  /** The whole request has been written. */
  finish(): void {
    this.#isComplete = true
    // Without a body, this is when the head was written.
    if (this.#state === 'open' && this.#hasBody) this.#alive()
  }

  pause(): void {
    // While nothing is read, silence is not the upstream's fault.
    this.deadline = NEVER
    this.#hold(true)
  }

  resume(): void {
    if (!this.#isHeld) return
    this.deadline = this.#events.now() + this.#timeoutMs
    this.#hold(false)
    if (this.#state === 'deaf') this.#awaitRest()
  }

  /** The only place that decides whether the socket is read. */
  #hold(isHeld: boolean) {
    this.#isHeld = isHeld
    if (isHeld) this.#socket.pause()
    else this.#socket.resume()
  }

  /** From now on silence is no fault, and the connection counts as a stream (an event stream). */
  waitForever(): void {
    this.deadline = NEVER
    this.#timeoutMs = NEVER
    this.#events.onStream?.(this)
  }

  /** Hands the socket over to another protocol, which the target has accepted. */
  takeOver(rest: Buffer): Takeover {
    this.#state = 'closed'
    this.#requester = undefined
    this.#events.onSwitched?.(this, this.#socket)
    const read = (take: (bytes: Buffer) => void) => {
      this.#tunnel = take
    }
    return { socket: this.#socket, rest, read }
  }

  destroy(): void {
    if (this.destroyed) return
    this.#state = 'closed'
    this.#requester = undefined
    this.#outbox.close()
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
    if (this.#state === 'open' && !this.#isComplete && this.#socket.writableLength === 0) return this.#alive()
    const isDialling = this.#state === 'dialling'
    this.#fail('timeout', new Error(isDialling ? 'connecting took too long' : 'no data for too long'), isDialling)
  }

  // The requester gets the parser's results; the connection only records what matters for its own reuse.

  onInterim(status: number, headers: readonly string[]): void {
    this.#requester?.onInterim?.(status, headers)
  }

  onHead(head: ResponseHead, whole: string | undefined): void {
    this.waitedMs = this.#readAt - this.#sentAt
    this.#timeoutMs = this.upstream.idleTimeoutMs
    this.#alive(this.#readAt)
    if (asksForConnection(head)) this.isBound = true
    // A target that sends what no request asked for may send the body, too, that this response announces and must not have.
    if (!head.keepAlive || (head.announcesMore && this.#events.hasUnasked === true)) this.#mayFollow = false
    if (this.#mayFollow) this.#keepAliveMs = keepAliveHint(head)
    this.#events.onAnswer?.(this, head.status)
    this.#requester?.onHead(head, whole)
  }

  onBody(chunk: Buffer): void {
    this.#requester?.onBody?.(chunk)
  }

  onEnd(trailers: readonly string[]): void {
    this.#requester?.onEnd?.(trailers)
    this.#requester = undefined
  }

  onSwitch(head: ResponseHead, rest: Buffer): void {
    if (this.#requester?.onSwitch === undefined) throw new BadResponse('unasked upgrade')
    this.waitedMs = this.#readAt - this.#sentAt
    this.#requester.onSwitch(head, rest)
  }

  /** Returns whether to read on. */
  #takeContained(bytes: Buffer): boolean {
    try {
      this.#take(bytes)
    } catch (error) {
      if (error instanceof BadResponse) contain(this, failed => failed.#failWith(bytes, error, false))
      else endThrown(this, error)
    }
    return !this.destroyed || this.#tunnel !== undefined
  }

  #take(bytes: Buffer) {
    if (this.destroyed) return this.#tunnel?.(bytes)
    // Whatever this is, it is no response to a request of ours; a waiting request uses another connection.
    if (this.#unsent !== undefined) return this.#failWith(bytes, new UnaskedBytes(), true)
    this.#reads++
    this.#readAt = this.#events.now()
    this.#alive(this.#readAt)
    this.#parser.take(bytes, this.#readAt)
    // Only now, with every byte checked, may another request follow, so that no response goes to the wrong request.
    if (this.#parser.isIdle && !this.destroyed) this.#settle()
  }

  /** Bytes are no response. Some servers announce with a 408 that they close an idle connection (RFC 9110 §15.5.9). */
  #failWith(bytes: Buffer, error: BadResponse, isUnsent: boolean) {
    if (isHttp2Frame(bytes)) this.#fail('bad-response', new Http2Only('HTTP/2 frames'))
    else {
      const isUnasked = error instanceof UnaskedBytes && !/^HTTP\/1\.\d 408/.test(bytes.toString('latin1', 0, 12))
      if (isUnasked) this.#events.onUnasked?.()
      this.#fail(isUnsent ? 'reset' : 'bad-response', error, isUnsent)
    }
  }

  #settle() {
    if (!this.#mayFollow || !this.#isComplete || this.#keepAliveMs === 0) return this.destroy()
    this.#outbox.flush()
    // TLS reports a write as done in a later phase of the turn than that in which its response may arrive.
    if (this.#socket.writableLength === 0) this.#rest()
    else setImmediate(() => contain(this, written => written.#rest()))
  }

  #rest() {
    // The next request would wait behind what has not left of this one, perhaps forever.
    if (this.#socket.writableLength > 0) this.destroy()
    if (this.destroyed) return
    // The requester may have paused at the very last bytes.
    if (this.#isHeld) this.#hold(false)
    this.idleSince = this.#readAt
    this.deadline = this.idleSince + this.#keepAliveMs
    this.#events.onFree(this)
  }

  #alive(at = this.#events.now()) {
    if (this.deadline !== NEVER) this.deadline = at + this.#timeoutMs
  }

  #onEnd() {
    if (this.destroyed) return
    // During the handshake of TLS; the error that says so is emitted later.
    if (this.#state === 'dialling') return this.#onError(new Error('closed before it was connected'))
    if (this.#parser.isIdle) return this.destroy()
    const begun = this.#parser.hasBegun
    if (!this.#isCut && this.#parser.finish()) return this.destroy()
    const cause = this.#firstError ?? new Error('closed before the response was complete')
    this.#fail(begun ? 'bad-response' : 'reset', cause, this.#unsent !== undefined)
  }

  #onError(error: NodeJS.ErrnoException) {
    this.#firstError ??= error
    if (this.destroyed) return
    if (isNoCommonProtocol(error)) return this.#fail('bad-response', new Http2Only('no common protocol'))
    if (this.#state === 'dialling')
      return this.#fail(noteOutOfDescriptors(error) ? EXHAUSTED : 'unreachable', error, true)
    this.#fail('reset', error, this.#unsent !== undefined)
  }

  /** What has arrived is read before this counts: it may say why the backend reads no more, for example in a 413. */
  #onWriteFailed(error: NodeJS.ErrnoException) {
    if (this.#state === 'dialling') return this.#onError(error)
    if (this.#state === 'closed') return void this.#socket.destroy()
    if (this.#state !== 'open') return
    this.#firstError ??= error
    // Nothing was sent of a request whose head was all that was written: no response to it can have arrived.
    if (!this.#hasBody) return this.#fail('reset', error, true)
    this.#state = 'deaf'
    this.#mayFollow = false
    this.#awaitRest()
  }

  /** Gives up once a turn of the event loop has brought nothing more. */
  #awaitRest() {
    const before = this.#reads
    const look = () => {
      if (this.#state !== 'deaf' || this.#isHeld) return
      if (this.#reads !== before) this.#awaitRest()
      else this.#fail('reset', this.#firstError)
    }
    // The first runs in this turn, perhaps before the socket could be read.
    setImmediate(() => setImmediate(() => contain(this, look)))
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
