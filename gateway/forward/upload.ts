// Passes a request body on to a backend: buffered until it is complete or large enough, then as fast as the backend takes it.
import { BodyTooLarge, type GatewayError, RequestTimeout } from '../errors.ts'
import { BodyBuffer } from '../http/body-buffer.ts'
import type { Exchange } from '../http/exchange.ts'
import type { BodyConsumer } from '../http/request.ts'
import type { UpstreamConnection } from '../upstream/connection.ts'
import { type Contained, contain } from '../values/contain.ts'

/** In each period, so much must arrive of a body to which no response has begun: about 50 bytes per second. */
const RATE_PERIOD_MS = 60_000
const RATE_PERIOD_BYTES = 3000
const NOTHING = Buffer.alloc(0)

export interface UploadOwner extends Contained {
  /** The body is complete, or enough of it has arrived for a connection to be asked for; called once. */
  onUploadReady(): void
  onRefused(error: GatewayError): void
}

export interface UploadLimits {
  /** What is buffered before a connection is asked for; 0: nothing. */
  readonly bufferBytes: number
  /** undefined: no limit. */
  readonly maxBytes: number | undefined
  /** Silence of both sides is limited instead of the rate: from the beginning if nothing is buffered, and during a response. */
  readonly idleTimeoutMs: number
}

type State =
  | 'buffering'
  /** No more is read until there is a connection. */
  | 'ready'
  /** Bytes go to the backend. */
  | 'passing'
  | 'over'

export class Upload implements BodyConsumer {
  readonly #exchange: Exchange
  readonly #owner: UploadOwner
  readonly #limits: UploadLimits
  readonly #buffer: BodyBuffer
  #state: State = 'buffering'
  #isComplete = false
  #size = 0
  #connection: UpstreamConnection | undefined
  #watch: NodeJS.Timeout | undefined
  #isIdleWatched = false
  /** Its time is over, and nothing has arrived since. */
  #isDue = false
  #sizeBefore = 0

  constructor(exchange: Exchange, owner: UploadOwner, limits: UploadLimits) {
    this.#exchange = exchange
    this.#owner = owner
    this.#limits = limits
    this.#buffer = new BodyBuffer(limits.bufferBytes)
  }

  /** No byte has been given to a connection, so the request may be sent again. */
  get isUnsent(): boolean {
    return this.#state !== 'passing'
  }

  begin(): void {
    if (this.#limits.bufferBytes > 0) this.#read()
    else this.#becomeReady()
  }

  /** Sends the body behind the head that was sent on this connection, which is established. */
  sendOn(connection: UpstreamConnection): void {
    if (this.#state !== 'ready') return
    this.#state = 'passing'
    this.#connection = connection
    const { bytes } = this.#buffer
    const flows = bytes.length === 0 || this.#send(connection, bytes)
    if (flows) this.#buffer.release()
    else this.#buffer.handOver()
    if (this.#isComplete) this.#finish(connection)
    else if (this.#limits.bufferBytes === 0) this.#read()
    else this.#flow(flows)
  }

  /** The backend has begun to respond: from now on only silence is limited. */
  noteResponse(): void {
    if (this.#state === 'over' || this.#isComplete || this.#isIdleWatched) return
    this.#watchIdle()
  }

  /** A byte of the response has arrived. */
  noteProgress(): void {
    if (!this.#isIdleWatched) return
    this.#isDue = false
    this.#watch?.refresh()
  }

  /** The backend takes bytes again. */
  onDrain(): void {
    if (this.#state !== 'passing') return
    this.#buffer.release()
    this.#flow(true)
  }

  onUpload(chunk: Buffer): void {
    if (this.#state === 'over') return
    this.#size += chunk.length
    this.noteProgress()
    if (this.#size > (this.#limits.maxBytes ?? Number.POSITIVE_INFINITY)) {
      this.#owner.onRefused(new BodyTooLarge({ reason: 'body-too-large' }))
    } else if (this.#connection !== undefined) {
      if (!this.#send(this.#connection, chunk)) this.#flow(false)
    } else {
      this.#buffer.add(chunk)
      if (this.#state !== 'buffering' || !this.#buffer.isFull) return
      this.#flow(false)
      this.#becomeReady()
    }
  }

  onUploadEnd(): void {
    if (this.#state === 'over') return
    this.#isComplete = true
    this.#unwatch()
    if (this.#connection !== undefined) this.#finish(this.#connection)
    else if (this.#state === 'buffering') this.#becomeReady()
  }

  stop(): void {
    this.#state = 'over'
    this.#connection = undefined
    this.#buffer.release()
    this.#unwatch()
  }

  #becomeReady() {
    this.#state = 'ready'
    this.#owner.onUploadReady()
  }

  #read() {
    const exchange = this.#exchange
    if (exchange.awaitsContinue) {
      exchange.awaitsContinue = false
      exchange.response.interim(100, 'Continue', '')
    }
    exchange.request.read(this)
    if (this.#state === 'over' || this.#isComplete) return
    if (this.#limits.bufferBytes === 0) this.#watchIdle()
    else this.#watchRate()
  }

  /** The only place that decides whether the client is read. */
  #flow(isOpen: boolean) {
    if (isOpen) this.#exchange.request.resume()
    else this.#exchange.request.pause()
  }

  #send(connection: UpstreamConnection, bytes: Buffer): boolean {
    if (!this.#isChunked) return connection.write(bytes)
    // RFC 9112 §7.1
    return connection.write(bytes, `${bytes.length.toString(16)}\r\n`, '\r\n')
  }

  #finish(connection: UpstreamConnection) {
    if (this.#isChunked) connection.write(NOTHING, '0\r\n\r\n')
    connection.finish()
  }

  get #isChunked(): boolean {
    return this.#exchange.head.transferEncoding !== undefined
  }

  #watchRate() {
    this.#sizeBefore = this.#size
    this.#watchWith(RATE_PERIOD_MS, () => {
      const arrived = this.#size - this.#sizeBefore
      if (arrived < RATE_PERIOD_BYTES && !this.#exchange.request.isPaused) this.#refuseSlow()
      else this.#watchRate()
    })
  }

  #watchIdle() {
    this.#isIdleWatched = true
    this.#watchWith(this.#limits.idleTimeoutMs, () => {
      // While the backend takes nothing, its own timeouts apply.
      if (this.#exchange.request.isPaused) this.#watchIdle()
      else this.#refuseSlow()
    })
  }

  #watchWith(ms: number, check: () => void) {
    this.#unwatch()
    const judge = () => {
      if (this.#watch === watch && this.#isDue) contain(this.#owner, check)
    }
    const watch = setTimeout(() => {
      this.#isDue = true
      // What has arrived is read first, perhaps while this process stood still: the poll phase comes before setImmediate.
      setImmediate(judge)
    }, ms)
    this.#watch = watch
  }

  #unwatch() {
    clearTimeout(this.#watch)
    this.#watch = undefined
  }

  #refuseSlow() {
    this.#owner.onRefused(new RequestTimeout({ reason: 'upload-too-slow' }))
  }
}
