// Reads one request at a time from a client connection; the next follows when the response is handed over (RFC 9112 §9).
import type { Duplex } from 'node:stream'
import { noteFault } from '../../values/contain.ts'
import { INCOMPLETE, MALFORMED } from '../chunked-body.ts'
import { Outbox, type OutboxOwner, type Waiting } from '../outbox.ts'
import { type ClientConnection, HttpRequest, keepsConnection, readHead, type Takeover } from '../request.ts'
import type { ConnectionHost, MessageFault, ServedConnection } from '../served-connection.ts'
import { bodyLengthOf, Intake, MAX_REQUEST_HEAD_BYTES } from './intake.ts'
import { Http1Response, type Http1Sink } from './response.ts'

/** A net.Socket, plain or TLS. */
type ClientSocket = Duplex & { resetAndDestroy(): unknown }

type Origin = Pick<ClientConnection, 'peer' | 'isTls' | 'covers'>

type Phase =
  /** The next request has not arrived completely. */
  | 'head'
  /** A request is in progress and its body has not arrived completely. */
  | 'body'
  /** A request is in progress; whatever arrives belongs to the next one. */
  | 'busy'
  /** The response is complete before the body: the rest of it is discarded, because its client may read only afterwards. */
  | 'discard'
  /** The last response has been sent: anything that still arrives is discarded for a while. */
  | 'linger'
  /** Another protocol has taken over. */
  | 'tunnel'
  | 'closed'

/** What is read while a request waits for its response, or its turn: enough to notice a client that leaves. Incomplete heads are shorter. */
const HOLD_BYTES = MAX_REQUEST_HEAD_BYTES

const NEVER = Number.POSITIVE_INFINITY

export class Http1Connection implements ServedConnection, ClientConnection, Http1Sink, OutboxOwner {
  readonly isHttp2 = false
  readonly peer: string | undefined
  readonly isTls: boolean
  readonly covers: ((host: string) => boolean) | undefined
  deadline: number
  readonly #host: ConnectionHost
  readonly #socket: ClientSocket
  readonly #intake = new Intake()
  readonly outbox: Outbox
  #phase: Phase = 'head'
  #isReading = true
  /** Bytes are being taken: whether to read on is decided afterwards. */
  #isTaking = false
  #hasPeerEnded = false
  /** No response has been sent on it yet. */
  #isNew = true
  #request: HttpRequest | undefined
  #lingersUntil = 0
  #tunnel: ((bytes: Buffer) => void) | undefined

  constructor(socket: ClientSocket, host: ConnectionHost, { peer, isTls, covers }: Origin) {
    this.#socket = socket
    this.#host = host
    this.outbox = new Outbox(socket, this)
    this.peer = peer
    this.isTls = isTls
    this.covers = covers
    this.deadline = host.now + host.limits.headMs
  }

  get client(): this {
    return this
  }

  get isOpen(): boolean {
    return this.#phase !== 'closed'
  }

  /** The body has not arrived completely: after a response, the rest of it is not waited for (RFC 9112 §9.3). */
  get isBodyDue(): boolean {
    return this.#phase === 'body'
  }

  get isDraining(): boolean {
    return this.#host.isDraining
  }

  /** Takes bytes that were read, and copies what it keeps. Returns whether to keep reading. */
  take(bytes: Buffer): boolean {
    if (this.#phase === 'tunnel') this.#tunnel?.(bytes)
    else if (this.#phase === 'linger') {
      this.deadline = Math.min(this.#lingersUntil, this.#host.now + this.#silenceMs)
    } else if (this.#phase !== 'discard') {
      this.#intake.add(bytes)
      this.#advance()
      this.#intake.keep()
    }
    this.#isReading = this.#wantsMore
    return this.#isReading
  }

  get #wantsMore(): boolean {
    const request = this.#request
    switch (this.#phase) {
      case 'body':
        if (request?.consumer !== undefined) return !request.isPaused && this.#intake.length === 0
        return this.#intake.length < HOLD_BYTES
      case 'head':
      case 'busy':
        return this.#intake.length < HOLD_BYTES
      default:
        return this.#phase !== 'closed'
    }
  }

  /** Reads the next request from the buffered bytes, if it is time for one. */
  goOn(): void {
    this.#advance()
    this.#readOn()
  }

  #advance() {
    this.#isTaking = true
    if (this.#hasPeerEnded) this.#leave()
    else {
      if (this.#phase === 'head' && this.#intake.length > 0) this.#readHead()
      if (this.#phase === 'body') this.#giveBody()
    }
    this.#isTaking = false
  }

  #readOn() {
    if (this.#isReading || this.#isTaking || !this.#wantsMore) return
    this.#isReading = true
    this.#socket.resume()
  }

  #readHead() {
    const { hasBegun } = this.#intake
    const parts = this.#intake.readHead()
    if (parts === undefined) {
      if (!hasBegun && this.#intake.hasBegun) this.deadline = this.#host.now + this.#host.limits.headMs
      return
    }
    if (typeof parts === 'string') return this.#fail(parts)
    const head = readHead(parts.fields)
    const bodyLength = bodyLengthOf(head)
    if (bodyLength === MALFORMED) return this.#fail('malformed')
    const isComplete = bodyLength === 0
    const { method, versionMajor, versionMinor } = parts
    // What follows a message of another protocol is not framed by our rules (RFC 9112 §2.3), nor is it behind a CONNECT: a client
    // may have sent the first bytes of its tunnel.
    const keepAlive = versionMajor === 1 && method !== 'CONNECT' && keepsConnection(versionMinor, head.connection)
    const asked = { isHead: method === 'HEAD', versionMinor, keepAlive }
    const request = new HttpRequest(parts, head, this, new Http1Response(this, asked), isComplete)
    this.deadline = NEVER
    this.#request = request
    this.#phase = isComplete ? 'busy' : 'body'
    if (!isComplete) this.#intake.expectBody(bodyLength)
    this.#host.handler.onRequest(request)
  }

  pump(): void {
    if (this.#phase === 'body') this.#giveBody()
    this.#readOn()
  }

  #giveBody() {
    const request = this.#request
    if (request?.consumer === undefined || request.isPaused || this.#intake.length === 0) return
    const end = this.#intake.giveBody(request.consumer)
    if (this.#phase !== 'body' || end === INCOMPLETE) return
    if (end === MALFORMED) return this.#failBody(request)
    this.#phase = 'busy'
    request.isComplete = true
    request.consumer?.onUploadEnd()
  }

  #failBody(request: HttpRequest) {
    // After a response has begun, nothing more can be said; and what follows must not be read as the rest of this body.
    if (request.response.hasBegun) request.response.abort()
    else request.owner?.onBodyFault()
  }

  #fail(fault: MessageFault) {
    const response = new Http1Response(this, { isHead: false, versionMinor: 1, keepAlive: false })
    this.#host.handler.onFault(this, fault, response)
    this.#linger()
  }

  flushSoon(waiting: Waiting): void {
    this.#host.flushSoon(waiting)
  }

  onEnded(): void {
    if (this.#phase !== 'body') return
    this.#intake.discard()
    this.#phase = 'discard'
    this.deadline = this.#host.now + this.#host.limits.lingerMs
    this.#readOn()
  }

  destroy(): void {
    this.outbox.flush()
    // TLS cannot be reset here, and an end without its closure alert is no end of a response (RFC 9112 §9.8).
    if (this.#request?.response.endsWithConnection === true && !this.isTls) this.#socket.resetAndDestroy()
    else this.#socket.destroy()
    this.onClose()
  }

  onTaken(): void {
    const request = this.#request
    if (request === undefined) {
      if (this.#phase === 'linger') this.#socket.end()
    } else if (request.response.isEnded) this.#onDelivered(request)
    else request.response.taker?.onTaken()
  }

  #onDelivered(request: HttpRequest) {
    const { response } = request
    this.#request = undefined
    response.isDelivered = true
    this.#isNew = false
    request.owner?.onClosed()
    if (this.#phase === 'closed') return
    const isStopping = this.#host.isDraining && this.#intake.isIdle()
    if (!response.keepAlive || !request.isComplete || this.#hasPeerEnded || isStopping) {
      this.#linger()
      this.#socket.end()
      return
    }
    this.#phase = 'head'
    this.deadline = this.#host.now + this.#host.limits.idleMs
    if (this.#intake.length > 0) this.#host.goOnSoon(this)
    this.#readOn()
  }

  /** Whatever still arrives is discarded for a while, so that no reset destroys the response (RFC 9112 §9.6). */
  #linger() {
    this.#intake.discard()
    this.#phase = 'linger'
    this.#lingersUntil = this.#host.now + this.#host.limits.lingerMs
    this.deadline = this.#host.now + this.#silenceMs
    if (this.#hasPeerEnded) this.#socket.end()
    this.#readOn()
  }

  get #silenceMs(): number {
    const { drainSilenceMs, lingerSilenceMs } = this.#host.limits
    return this.#host.isDraining ? drainSilenceMs : lingerSilenceMs
  }

  onDrain(sparesNew: boolean): void {
    const isIdle = this.#phase === 'head' && this.#intake.isIdle()
    if (isIdle && !(sparesNew && this.#isNew)) this.destroy()
    else if (this.#phase === 'linger') this.deadline = Math.min(this.deadline, this.#host.now + this.#silenceMs)
  }

  expire(): void {
    if (this.#phase === 'head' && this.#intake.hasBegun) this.#fail('too-slow')
    else if (this.#phase === 'discard') {
      // The client may still be taking its response.
      this.#phase = 'busy'
      this.deadline = NEVER
    } else this.destroy()
  }

  /** Half-closed, or gone: its request is given up, but not in this turn, so that a response that is ready at once is still sent. */
  onPeerEnd(): void {
    this.#hasPeerEnded = true
    if (this.#request !== undefined) this.#host.goOnSoon(this)
    else this.#leave()
  }

  #leave() {
    if (this.#phase === 'tunnel' || this.#phase === 'closed') return
    if (this.#phase === 'linger') {
      this.outbox.flush()
      this.#socket.end()
    } else if (this.#request?.response.isEnded !== true) this.destroy()
  }

  /** A callback has thrown: the request in progress is refused, or else the connection is cut. */
  onThrown(error: unknown): void {
    this.#isTaking = false
    const request = this.#request
    if (request?.owner !== undefined && !request.response.isEnded) {
      request.response.keepAlive = false
      request.owner.onThrown(error)
    } else {
      noteFault('client', error)
      this.destroy()
    }
  }

  onClose(): void {
    if (this.#phase === 'closed') return
    this.#phase = 'closed'
    this.deadline = NEVER
    this.#intake.discard()
    this.outbox.close()
    const request = this.#request
    this.#request = undefined
    if (request === undefined) return
    request.response.isGone = true
    request.owner?.onClosed()
  }

  takeOver(): Takeover {
    const rest = this.#intake.takeRest()
    this.outbox.flush()
    this.#request = undefined
    this.#phase = 'tunnel'
    this.deadline = NEVER
    return {
      socket: this.#socket,
      rest,
      read: take => {
        this.#tunnel = take
        this.#readOn()
        // It left in this turn, which nobody will be told again.
        if (this.#hasPeerEnded) this.#socket.destroy()
      }
    }
  }
}
