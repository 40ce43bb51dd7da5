// Reads one request at a time from a client's connection; the next follows when the answer was handed over (RFC 9112 §9).
import type { Duplex } from 'node:stream'
import type { FieldKinds } from '../flood-memory.ts'
import { type RequestHead, readHead } from '../head.ts'
import type { Waiting } from '../write-batch.ts'
import {
  type ChunkedReader,
  type HeadProbe,
  INCOMPLETE,
  type Llhttp,
  MALFORMED,
  MAX_REQUEST_HEAD_BYTES,
  TOO_LARGE
} from './llhttp.ts'
import { Outbox, type OutboxOwner } from './outbox.ts'
import { type ClientConnection, HttpRequest, type Takeover } from './request.ts'
import { type AnswerSink, HttpResponse } from './response.ts'

/** A net.Socket, plain or TLS. */
type ClientSocket = Duplex & { resetAndDestroy(): unknown }

export type MessageFault = 'malformed' | 'too-large' | 'too-slow'

/** What is done about requests; each connection is given the same one. */
export interface MessageHandler {
  onRequest(request: HttpRequest): void
  /** What came is no request. The text answers it before the connection ends; '' : nothing does. */
  onFault(connection: Connection, fault: MessageFault): string
}

export interface ConnectionLimits {
  /** From the first byte of a head, or the beginning of a connection, to the end of the head. */
  readonly headMs: number
  /** Silence between two requests. */
  readonly idleMs: number
  /** What is read and dropped behind an answer that ends a connection (RFC 9112 §9.6). */
  readonly lingerMs: number
  readonly lingerBytes: number
}

/** What all connections of a server share. */
export interface ConnectionHost {
  readonly fieldKinds: FieldKinds
  readonly llhttp: Llhttp
  readonly handler: MessageHandler
  readonly limits: ConnectionLimits
  readonly isDraining: boolean
  /** Milliseconds of a coarse monotonic clock. */
  readonly now: number
  flushSoon(waiting: Waiting): void
  /** Lets a connection go on with what it holds, in the next turn of the event loop. */
  goOnSoon(connection: Connection): void
}

const NEVER = Number.POSITIVE_INFINITY
const EMPTY: Buffer = Buffer.alloc(0)
/** More is not read while a request waits for its answer: enough to notice a client that leaves. */
const HOLD_BYTES = 16 * 1024

const HEAD = 0
const BODY = 1
const BUSY = 2
const LINGER = 3
const TUNNEL = 4
const CLOSED = 5

export class Connection implements ClientConnection, AnswerSink, OutboxOwner {
  readonly peer: string | undefined
  readonly isTls: boolean
  /** When `expire` is to be called, by the host's clock. */
  deadline: number
  readonly #host: ConnectionHost
  readonly #socket: ClientSocket
  readonly #outbox: Outbox
  #phase = HEAD
  /** Bytes that nobody has taken yet: a head that is not whole, a body without a consumer, requests that follow. */
  #held = EMPTY
  /** `#held` is memory that the next read uses again. */
  #isLent = false
  #isTaking = false
  #isPaused = false
  #hasPeerEnded = false
  #probe: HeadProbe | undefined
  #probed = 0
  #request: HttpRequest | undefined
  #chunked: ChunkedReader | undefined
  /** Of a body with a length. */
  #remaining = 0
  #lingered = 0
  #tunnel: ((bytes: Buffer) => void) | undefined

  constructor(socket: ClientSocket, host: ConnectionHost, peer: string | undefined, isTls: boolean) {
    this.#socket = socket
    this.#host = host
    this.#outbox = new Outbox(socket, this)
    this.peer = peer
    this.isTls = isTls
    this.deadline = host.now + host.limits.headMs
  }

  /** No request is under way, and none has begun to arrive. */
  get isIdle(): boolean {
    return this.#phase === HEAD && this.#held.length === 0
  }

  /** The request's body has not come whole: what is left of it is not waited for behind an answer (RFC 9112 §9.3). */
  get isBodyDue(): boolean {
    return this.#phase === BODY
  }

  get isDraining(): boolean {
    return this.#host.isDraining
  }

  /** Takes bytes, which are copied where they are kept if they are lent. Returns whether to go on reading. */
  take(bytes: Buffer, isLent: boolean): boolean {
    if (this.#phase === TUNNEL) this.#tunnel?.(isLent ? Buffer.from(bytes) : bytes)
    else if (this.#phase === LINGER) this.#drop(bytes.length)
    else this.#takeMessage(bytes, isLent)
    this.#isPaused = !this.#wantsMore()
    return !this.#isPaused
  }

  #takeMessage(bytes: Buffer, isLent: boolean) {
    const isFirst = this.#held.length === 0
    this.#held = isFirst ? bytes : Buffer.concat([this.#held, bytes])
    this.#isLent = isFirst && isLent
    this.#isTaking = true
    this.#goOn()
    this.#isTaking = false
    if (this.#isLent && this.#held.length > 0) this.#held = copyOf(this.#held)
    this.#isLent = false
  }

  /** Reads the next request, if it is time for one, out of what is held. */
  goOn(): void {
    this.#isTaking = true
    this.#goOn()
    this.#isTaking = false
    this.#readOn()
  }

  #goOn() {
    if (this.#hasPeerEnded) return this.#leave()
    if (this.#phase === HEAD && this.#held.length > 0) this.#readHead()
    if (this.#phase === BODY) this.#giveBody()
  }

  #wantsMore(): boolean {
    switch (this.#phase) {
      case BODY:
        return this.#request?.consumer === undefined
          ? this.#held.length < HOLD_BYTES
          : !this.#request.isPaused && this.#held.length === 0
      case BUSY:
        return this.#held.length < HOLD_BYTES
      default:
        return this.#phase !== CLOSED
    }
  }

  #readOn() {
    if (!this.#isPaused || this.#isTaking || !this.#wantsMore()) return
    this.#isPaused = false
    this.#socket.resume()
  }

  #readHead() {
    if (this.#probe !== undefined && this.#probeOn(this.#probe)) return
    const { llhttp } = this.#host
    const length = llhttp.readHead(this.#held)
    if (length === INCOMPLETE) return this.#awaitHead()
    if (length < 0) return this.#fail(length === TOO_LARGE ? 'too-large' : 'malformed')
    this.#held = length === this.#held.length ? EMPTY : this.#held.subarray(length)
    const parts = llhttp.takeHead()
    const head = readHead(parts.fields, this.#host.fieldKinds)
    const bodyLength = bodyLengthOf(head)
    if (bodyLength === MALFORMED) return this.#fail('malformed')
    const isComplete = bodyLength === 0
    const asked = { isHead: parts.method === 'HEAD', versionMinor: parts.versionMinor, keepAlive: parts.keepAlive }
    const request = new HttpRequest(parts, head, this, new HttpResponse(this, asked), isComplete)
    this.deadline = NEVER
    this.#request = request
    this.#phase = isComplete ? BUSY : BODY
    this.#remaining = bodyLength
    if (bodyLength === CHUNKED) this.#chunked = llhttp.createChunkedReader()
    this.#host.handler.onRequest(request)
  }

  /** A head that comes in pieces: what is wrong with it is told at once, and each byte is judged once. */
  #awaitHead() {
    this.deadline = this.#host.now + this.#host.limits.headMs
    this.#probe = this.#host.llhttp.createHeadProbe()
    this.#probe.take(this.#held)
    this.#probed = this.#held.length
  }

  /** Whether the head is still not whole. */
  #probeOn(probe: HeadProbe): boolean {
    const isWhole = probe.take(this.#held.subarray(this.#probed)) !== 'incomplete'
    this.#probed = this.#held.length
    if (!isWhole && this.#held.length < MAX_REQUEST_HEAD_BYTES) return true
    this.#release()
    return false
  }

  /** Gives what has come of the body to its consumer. */
  pump(): void {
    if (this.#phase === BODY) this.#giveBody()
    this.#readOn()
  }

  #giveBody() {
    const request = this.#request
    while (this.#phase === BODY && this.#held.length > 0 && request?.consumer !== undefined && !request.isPaused) {
      if (this.#chunked === undefined) this.#giveCounted(request)
      else this.#giveChunks(request, this.#chunked)
    }
  }

  #giveCounted(request: HttpRequest) {
    const part = this.#held.length <= this.#remaining ? this.#held : this.#held.subarray(0, this.#remaining)
    this.#held = part.length === this.#held.length ? EMPTY : this.#held.subarray(part.length)
    this.#remaining -= part.length
    const isEnd = this.#remaining === 0
    request.consumer?.onUpload(this.#isLent ? Buffer.from(part) : part)
    if (isEnd) this.#endBody(request)
  }

  #giveChunks(request: HttpRequest, chunked: ChunkedReader) {
    const bytes = this.#held
    const isLent = this.#isLent
    this.#held = EMPTY
    const end = chunked.take(bytes, data => request.consumer?.onUpload(isLent ? Buffer.from(data) : data))
    if (this.#phase !== BODY || end === INCOMPLETE) return
    if (end === MALFORMED) return this.#failBody(request)
    this.#held = bytes.subarray(end)
    this.#endBody(request)
  }

  #endBody(request: HttpRequest) {
    if (this.#phase !== BODY) return
    this.#phase = BUSY
    this.#release()
    request.isComplete = true
    request.consumer?.onUploadEnd()
  }

  #failBody(request: HttpRequest) {
    // Behind an answer that has begun there is nothing to say.
    if (request.response.hasBegun) request.response.keepAlive = false
    else request.owner?.onBodyFault()
  }

  #fail(fault: MessageFault) {
    const text = this.#host.handler.onFault(this, fault)
    this.#held = EMPTY
    this.#outbox.send(text)
    this.#linger()
  }

  // The answer's side.

  send(text: string): void {
    this.#outbox.send(text)
  }

  sendBytes(before: string, bytes: Buffer, after: string): boolean {
    return this.#outbox.sendBytes(before, bytes, after)
  }

  flushSoon(waiting: Waiting): void {
    this.#host.flushSoon(waiting)
  }

  cut(isAmbiguous: boolean): void {
    this.#outbox.flush()
    if (isAmbiguous) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
    this.onClose()
  }

  onTaken(): void {
    const request = this.#request
    if (request === undefined) {
      if (this.#phase === LINGER) this.#socket.end()
    } else if (request.response.isEnded) this.#onDelivered(request)
    else request.response.taker?.onTaken()
  }

  #onDelivered(request: HttpRequest) {
    const { response } = request
    this.#request = undefined
    response.isDelivered = true
    request.owner?.onClosed()
    if (this.#phase === CLOSED) return
    if (!response.keepAlive || !request.isComplete || this.#hasPeerEnded) {
      this.#linger()
      this.#socket.end()
      return
    }
    this.#phase = HEAD
    this.deadline = this.#host.now + this.#host.limits.idleMs
    if (this.#held.length > 0) this.#host.goOnSoon(this)
    this.#readOn()
  }

  /** What still comes is dropped for a while, so that no reset takes away what was answered (RFC 9112 §9.6). */
  #linger() {
    this.#release()
    this.#held = EMPTY
    this.#phase = LINGER
    this.deadline = this.#host.now + this.#host.limits.lingerMs
    if (this.#hasPeerEnded) this.#socket.end()
    this.#readOn()
  }

  #drop(count: number) {
    this.#lingered += count
    if (this.#lingered > this.#host.limits.lingerBytes) this.destroy()
  }

  // What happens to the connection.

  /** `deadline` has passed. */
  expire(): void {
    if (this.#phase === HEAD && this.#held.length > 0) this.#fail('too-slow')
    else this.destroy()
  }

  /**
   * The peer sends no more. Nothing tells one that only says so from one that has left, so its request is given up, but not
   * in the turn that it came in: what is answered at once still leaves.
   */
  onPeerEnd(): void {
    this.#hasPeerEnded = true
    if (this.#request !== undefined) this.#host.goOnSoon(this)
    else this.#leave()
  }

  #leave() {
    if (this.#phase === TUNNEL || this.#phase === CLOSED) return
    if (this.#phase === LINGER) {
      this.#outbox.flush()
      this.#socket.end()
    } else if (this.#request?.response.isEnded !== true) this.destroy()
  }

  destroy(): void {
    this.#outbox.flush()
    this.#socket.destroy()
    this.onClose()
  }

  /** The connection is no more. */
  onClose(): void {
    if (this.#phase === CLOSED) return
    this.#phase = CLOSED
    this.deadline = NEVER
    this.#held = EMPTY
    this.#outbox.close()
    this.#release()
    const request = this.#request
    this.#request = undefined
    if (request === undefined) return
    request.response.isGone = true
    request.owner?.onClosed()
  }

  /** Hands the connection over; its request gets no answer from here any more. */
  takeOver(): Takeover {
    const rest = this.#held
    this.#outbox.flush()
    this.#held = EMPTY
    this.#request = undefined
    this.#phase = TUNNEL
    this.deadline = NEVER
    return {
      socket: this.#socket,
      rest,
      read: take => {
        this.#tunnel = take
        this.#readOn()
      }
    }
  }

  #release() {
    this.#probe?.release()
    this.#probe = undefined
    this.#chunked?.release()
    this.#chunked = undefined
  }
}

const CHUNKED = -3

/** RFC 9112 §6.3. A length that a number does not hold exactly can be neither counted nor passed on. */
const bodyLengthOf = ({ transferEncoding, contentLength }: RequestHead): number => {
  if (transferEncoding !== undefined) return CHUNKED
  if (contentLength === undefined) return 0
  const length = Number(contentLength)
  return Number.isSafeInteger(length) ? length : MALFORMED
}

/** In memory of its own: parts of the shared pool would keep all of it. */
const copyOf = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
