// Reads the heads of requests strictly, in linear time, however small the pieces are in which they arrive (RFC 9112 §2, §3).
import { INVALID, linesText, PARTIAL, readFieldLines } from '../field-lines.ts'

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

/** A request head as sent. */
export interface ParsedHead {
  readonly method: string
  /** RFC 9112 §3.2. */
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  /** `[name, value, …]`, Latin-1, without blanks around the values. */
  readonly fields: readonly string[]
}

interface FoundHead extends ParsedHead {
  /** Where the body begins. */
  readonly end: number
}

type Fault = 'malformed' | 'too-large'

export class HeadReader {
  /** A head has begun to arrive, and was incomplete when it was last read. */
  hasBegun = false
  /** The complete lines that were read of it end here. */
  #at = 0
  #hasLine = false

  /** @param bytes everything that has arrived of the head so far. Returns undefined while it is incomplete. */
  read(bytes: Buffer): FoundHead | Fault | undefined {
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
    this.#skipEmptyLines(bytes)
    const text = textFrom(bytes, this.#at)
    const line = REQUEST_LINE.exec(text)
    if (line === null) return START_OF_LINE.test(text) ? incomplete(bytes) : 'malformed'
    const [{ length }, method = '', target = '', version = '0.9'] = line
    const fields: string[] = []
    const end = readFieldLines(text, length, fields, true)
    const isTarget = TARGET.test(target) || method === 'CONNECT'
    if (end === INVALID || !METHODS.has(method) || !isTarget) return 'malformed'
    if (end === PARTIAL) return this.#noteLines(text, bytes)
    const [versionMajor, versionMinor] = [Number(version[0]), Number(version[2])]
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

  /** RFC 9112 §2.2. */
  #skipEmptyLines(bytes: Buffer) {
    while (bytes[this.#at] === CR && bytes[this.#at + 1] === LF) this.#at += 2
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
