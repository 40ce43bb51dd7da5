// Holds what was read from a client connection and not consumed yet, and finds the next head or body in it (RFC 9112 §2.1, §6.3).
import { ownBytes } from '../../values/own-text.ts'
import type { RequestHead } from '../head.ts'
import { type ChunkedReader, INCOMPLETE, type Llhttp, MALFORMED, MAX_REQUEST_HEAD_BYTES } from './llhttp.ts'
import type { BodyConsumer } from './request.ts'

const EMPTY: Buffer = Buffer.alloc(0)
const CHUNKED = -3

/** 0: none; negative: unknown, or {@link MALFORMED}. A length that a number cannot represent exactly is refused. */
export const bodyLengthOf = ({ transferEncoding, contentLength }: RequestHead): number => {
  if (transferEncoding !== undefined) return CHUNKED
  if (contentLength === undefined) return 0
  const length = Number(contentLength)
  return Number.isSafeInteger(length) ? length : MALFORMED
}

export class Intake {
  readonly #llhttp: Llhttp
  /** An incomplete head, a body without a consumer, requests that follow. */
  #held = EMPTY
  /** So much of it was no complete head when it was last read. */
  #triedBytes = 0
  /** A body is arriving: with its reader, or what is missing of its length. */
  #hasBody = false
  #chunked: ChunkedReader | undefined
  #missingBytes = 0

  constructor(llhttp: Llhttp) {
    this.#llhttp = llhttp
  }

  /** Bytes that were not consumed. */
  get length(): number {
    return this.#held.length
  }

  /** A head has begun to arrive, and was incomplete when it was last read. */
  get hasBegun(): boolean {
    return this.#triedBytes > 0
  }

  /** `keep` must be called before the next read. */
  add(bytes: Buffer): void {
    this.#held = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes])
  }

  /** Copies what has not been consumed. */
  keep(): void {
    if (this.#held.length > 0) this.#held = ownBytes(this.#held)
  }

  /** Consumes the next head, which llhttp then holds. Returns its length, INCOMPLETE, MALFORMED or TOO_LARGE. */
  readHead(): number {
    if (this.#triedBytes > 0 && !this.#hasHeadEnd()) return INCOMPLETE
    this.#release()
    const length = this.#llhttp.readHead(this.#held)
    if (length === INCOMPLETE) this.#triedBytes = this.#held.length
    else if (length > 0) this.#consume(length)
    return length
  }

  /** A head that arrives byte by byte is read only twice. */
  #hasHeadEnd(): boolean {
    // The empty line may have begun before.
    const from = Math.max(0, this.#triedBytes - 3)
    this.#triedBytes = this.#held.length
    return this.#held.length >= MAX_REQUEST_HEAD_BYTES || this.#held.includes('\r\n\r\n', from)
  }

  /** What follows is a body. @param length as `bodyLengthOf` returns it */
  expectBody(length: number): void {
    this.#hasBody = true
    this.#missingBytes = length
    this.#chunked = length === CHUNKED ? this.#llhttp.createChunkedReader() : undefined
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
    this.#release()
  }

  #release() {
    this.#triedBytes = 0
    this.#hasBody = false
    this.#chunked?.release()
    this.#chunked = undefined
  }

  #consume(length: number) {
    this.#held = length === this.#held.length ? EMPTY : this.#held.subarray(length)
  }
}
