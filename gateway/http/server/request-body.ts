// Finds the end of a request body, and passes everything before it to the consumer (RFC 9112 §6.3, §7.1).
import type { RequestHead } from '../head.ts'
import { type ChunkedReader, INCOMPLETE, type Llhttp, MALFORMED } from './llhttp.ts'
import type { BodyConsumer } from './request.ts'

const CHUNKED = -3

/** 0: none; negative: unknown, or {@link MALFORMED}. A length that a number cannot represent exactly is refused. */
export const bodyLengthOf = ({ transferEncoding, contentLength }: RequestHead): number => {
  if (transferEncoding !== undefined) return CHUNKED
  if (contentLength === undefined) return 0
  const length = Number(contentLength)
  return Number.isSafeInteger(length) ? length : MALFORMED
}

export class RequestBody {
  readonly #chunked: ChunkedReader | undefined
  #remaining: number

  /** @param length as {@link bodyLengthOf} gives it */
  constructor(length: number, llhttp: Llhttp) {
    this.#remaining = length
    this.#chunked = length === CHUNKED ? llhttp.createChunkedReader() : undefined
  }

  /**
   * Where the body ends in these bytes; what follows is not part of it. INCOMPLETE: all of them belong to it, and more is
   * expected.
   */
  take(bytes: Buffer, consumer: BodyConsumer): number {
    if (this.#chunked !== undefined) return this.#chunked.take(bytes, data => consumer.onUpload(data))
    const part = bytes.length <= this.#remaining ? bytes : bytes.subarray(0, this.#remaining)
    this.#remaining -= part.length
    consumer.onUpload(part)
    return this.#remaining === 0 ? part.length : INCOMPLETE
  }

  release(): void {
    this.#chunked?.release()
  }
}
