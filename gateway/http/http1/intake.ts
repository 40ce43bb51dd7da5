// Holds what was read from a client connection, and reads the next head or body in it strictly, in linear time (RFC 9112 §2, §3, §6).
import { ownBytes } from '../../values/bounded-map.ts'
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../chunked-body.ts'
import { INVALID, linesText, PARTIAL, readFieldLines } from '../field-lines.ts'
import type { BodyConsumer, RequestHead } from '../request.ts'

/** Request line, fields and the empty line together. */
export const MAX_REQUEST_HEAD_BYTES = 16 * 1024

const METHODS: ReadonlySet<string> = new Set(process.getBuiltinModule('node:http').METHODS)
// A missing version means HTTP/0.9, which counts as an unsupported version. Targets may contain raw bytes, as of other servers.
const REQUEST_LINE = /^([A-Z-]+) ([^\x00-\x20\x7f]+)(?: HTTP\/(0\.9|1\.[01]|2\.0))?\r\n/
// What origin-, asterisk- and absolute-form begin with (RFC 9112 §3.2); authority-form is CONNECT's.
const TARGET = /^(?:\/|\*$|[A-Za-z]+:\/\/)/
const START_OF_LINE = /^(?:\r?|[A-Z-]{1,16}(?: [^\x00-\x20\x7f]*(?: [HTP/\d.]{0,8})?\r?)?)$/
const CR = 13
const LF = 10

/** Whether a known method stands before a target in a form of RFC 9112 §3.2; its characters are not looked at. */
export const isRequestLine = (method: string, target: string): boolean =>
  METHODS.has(method) && (TARGET.test(target) || method === 'CONNECT')

type Fault = 'malformed' | 'too-large'

export class HeadReader {
  /** A head has begun to arrive, and was incomplete when it was last read. */
  hasBegun = false
  /** The complete lines that were read of it end here. */
  #at = 0
  #hasLine = false

  /** @param bytes everything that has arrived of the head so far. Returns undefined while it is incomplete. */
  read(bytes: Buffer) {
    this.hasBegun = true
    return this.#hasLine ? this.#readOn(bytes) : this.#readAll(bytes)
  }

  /** Fields hold many times their bytes: while a head is incomplete, its lines are only checked, and then read again. */
  #readOn(bytes: Buffer) {
    const text = textFrom(bytes, this.#at)
    const end = readFieldLines(text, 0, [], true)
    if (end === INVALID) return 'malformed'
    if (end === PARTIAL) return this.#noteLines(text, bytes)
    this.reset()
    return this.#readAll(bytes)
  }

  #readAll(bytes: Buffer) {
    const text = textFrom(bytes, this.#at)
    const line = REQUEST_LINE.exec(text)
    if (line === null) return START_OF_LINE.test(text) ? incomplete(bytes) : 'malformed'
    const [{ length }, method = '', target = '', version = '0.9'] = line
    const fields: string[] = []
    const end = readFieldLines(text, length, fields, true)
    if (end === INVALID || !isRequestLine(method, target)) return 'malformed'
    if (end === PARTIAL) return this.#noteLines(text, bytes)
    const [versionMajor, versionMinor] = [Number(version[0]), Number(version[2])]
    // `end`: where the body begins.
    const found = { method, target, versionMajor, versionMinor, fields, end: this.#at + end }
    this.reset()
    return found
  }

  #noteLines(text: string, bytes: Buffer) {
    this.#hasLine = true
    this.#at += text.lastIndexOf('\n') + 1
    return incomplete(bytes)
  }

  reset(): void {
    this.hasBegun = false
    this.#at = 0
    this.#hasLine = false
  }
}

/** The rest of a head. Only a long read is searched for its end, whose beginning may have been read already: what follows is no text. */
const textFrom = (bytes: Buffer, at: number): string => {
  const emptyLine = bytes.length < 2048 ? -1 : bytes.indexOf('\r\n\r\n', Math.max(0, at - 2))
  const most = emptyLine === -1 ? bytes.length : emptyLine + 4
  return linesText(bytes, at, Math.min(most, MAX_REQUEST_HEAD_BYTES))
}

const incomplete = (bytes: Buffer): Fault | undefined =>
  bytes.length >= MAX_REQUEST_HEAD_BYTES ? 'too-large' : undefined

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

  /** Whether nothing of a next request has arrived, but empty lines at most, which begin no head (RFC 9112 §2.2). */
  isIdle(): boolean {
    this.#skipEmptyLines()
    return this.#held.length === 0 || (this.#held.length === 1 && this.#held[0] === CR)
  }

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
    if (this.isIdle()) return undefined
    const found = this.#heads.read(this.#held)
    if (typeof found === 'object') this.#consume(found.end)
    return found
  }

  #skipEmptyLines() {
    let at = 0
    while (this.#held[at] === CR && this.#held[at + 1] === LF) at += 2
    if (at > 0) this.#consume(at)
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
