// Holds what was read from a client connection and not consumed yet, and finds the next head or body in it (RFC 9112 §2.1, §6.3).
import { ownBytes } from '../../values/own-text.ts'
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../chunked-body.ts'
import type { RequestHead } from '../head.ts'
import type { BodyConsumer } from '../request.ts'
import { HeadReader } from './head-reader.ts'

const EMPTY: Buffer = Buffer.alloc(0)
const CHUNKED = -3

/**
 * 0: none; negative: unknown, or {@link MALFORMED}: more than one length, or one that a number cannot represent exactly, or a
 * transfer coding that does not end with the body (RFC 9112 §6.1, §6.3).
 */
export const bodyLengthOf = ({ transferEncoding, contentLength }: RequestHead): number => {
  if (transferEncoding !== undefined)
    return contentLength === undefined && /(?:^|,)[\t ]*chunked$/i.test(transferEncoding) ? CHUNKED : MALFORMED
  if (contentLength === undefined) return 0
  const length = /^\d+$/.test(contentLength) ? Number(contentLength) : Number.NaN
  return Number.isSafeInteger(length) ? length : MALFORMED
}

export class Intake {
  readonly #heads = new HeadReader()
  /** An incomplete head, a body without a consumer, requests that follow. */
  #held = EMPTY
  /** A body is arriving: with its reader, or what is missing of its length. */
  #hasBody = false
  #chunked: ChunkedBody | undefined
  #missingBytes = 0

  /** Bytes that were not consumed. */
  get length(): number {
    return this.#held.length
  }

  /** A head has begun to arrive, and was incomplete when it was last read. */
  get hasBegun(): boolean {
    return this.#heads.hasBegun
  }

  /** `keep` must be called before the next read. */
  add(bytes: Buffer): void {
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
  }

  /** Copies what has not been consumed. */
  keep(): void {
    if (this.#held.length > 0) this.#held = ownBytes(this.#held)
  }

  /** Consumes the next head. Returns undefined while it is incomplete. */
  readHead(): ReturnType<HeadReader['read']> {
    this.#release()
    const found = this.#heads.read(this.#held)
    if (typeof found === 'object') this.#consume(found.end)
    return found
  }

  /** What follows is a body. @param length as `bodyLengthOf` returns it */
  expectBody(length: number): void {
    this.#hasBody = true
    this.#missingBytes = length
    this.#chunked = length === CHUNKED ? new ChunkedBody(true) : undefined
  }

  /** Passes on what has arrived of the body. Returns INCOMPLETE, MALFORMED, or where it ended; what follows is then held. */
  giveBody(consumer: BodyConsumer): number {
    const bytes = this.#held
    this.#held = EMPTY
    const end =
      this.#chunked === undefined
        ? this.#giveLength(bytes, consumer)
        : this.#chunked.take(bytes, data => consumer.onUpload(data))
    // The consumer may have ended the connection in the meantime.
    if (end > 0 && this.#hasBody) {
      this.#release()
      this.#held = bytes
      this.#consume(end)
    }
    return end
  }

  #giveLength(bytes: Buffer, consumer: BodyConsumer): number {
    const part = bytes.length <= this.#missingBytes ? bytes : bytes.subarray(0, this.#missingBytes)
    this.#missingBytes -= part.length
    const isWhole = this.#missingBytes === 0
    consumer.onUpload(part)
    return isWhole ? part.length : INCOMPLETE
  }

  /** Hands over a copy of what was not consumed. */
  takeRest(): Buffer {
    const rest = ownBytes(this.#held)
    this.discard()
    return rest
  }

  discard(): void {
    this.#held = EMPTY
    this.#heads.reset()
    this.#release()
  }

  #release() {
    this.#hasBody = false
    this.#chunked = undefined
  }

  #consume(length: number) {
    this.#held = length === this.#held.length ? EMPTY : this.#held.subarray(length)
  }
}
