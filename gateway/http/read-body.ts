// Reads a request body completely, within limits of size and time.
import { BadRequest, BodyTooLarge, type GatewayError, RequestTimeout } from '../errors.ts'
import type { Exchange, Underway } from './exchange.ts'
import type { BodyConsumer } from './server/request.ts'

interface BodyLimits {
  readonly maxBytes: number
  readonly timeoutMs: number
}

class WholeBody implements BodyConsumer, Underway {
  readonly #exchange: Exchange
  readonly #maxBytes: number
  readonly #resolve: (body: Buffer) => void
  readonly #reject: (error: GatewayError) => void
  readonly #timer: NodeJS.Timeout
  readonly #parts: Buffer[] = []
  #size = 0
  #isOver = false

  constructor(
    exchange: Exchange,
    { maxBytes, timeoutMs }: BodyLimits,
    resolve: (body: Buffer) => void,
    reject: (error: GatewayError) => void
  ) {
    this.#exchange = exchange
    this.#maxBytes = maxBytes
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(() => this.#fail(new RequestTimeout({ reason: 'body-too-slow' })), timeoutMs)
    exchange.underway = this
    if (exchange.awaitsContinue) exchange.response.interim(100, 'Continue', '')
    exchange.request.read(this)
  }

  onUpload(chunk: Buffer): void {
    if (this.#isOver) return
    this.#size += chunk.length
    if (this.#size <= this.#maxBytes) this.#parts.push(Buffer.from(chunk))
    else this.#fail(new BodyTooLarge({ reason: 'body-too-large' }))
  }

  onUploadEnd(): void {
    if (this.#settle()) this.#resolve(Buffer.concat(this.#parts))
  }

  abort(): void {
    this.#fail(new BadRequest({ reason: 'client-gone' }))
  }

  #fail(error: GatewayError) {
    if (this.#settle()) this.#reject(error)
  }

  #settle(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    clearTimeout(this.#timer)
    if (this.#exchange.underway === this) this.#exchange.underway = undefined
    return true
  }
}

/** Rejects with 413, 408, or 400 if the client has gone. */
export const readBody = (exchange: Exchange, limits: BodyLimits): Promise<Buffer> => {
  // A length that is too large is refused before the body is requested.
  if (Number(exchange.head.contentLength ?? 0) > limits.maxBytes)
    return Promise.reject(new BodyTooLarge({ reason: 'body-too-large' }))
  return new Promise((resolve, reject) => new WholeBody(exchange, limits, resolve, reject))
}
