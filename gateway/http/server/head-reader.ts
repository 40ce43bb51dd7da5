// Reads the heads of requests strictly, each byte once, however small the pieces are in which they arrive (RFC 9112 §2, §3).
import { INVALID, PARTIAL, readFieldLines } from '../field-lines.ts'

/** Request line, fields and the empty line together. */
export const MAX_REQUEST_HEAD_BYTES = 16 * 1024

const METHODS: ReadonlySet<string> = new Set(process.getBuiltinModule('node:http').METHODS)
// A missing version means HTTP/0.9, which counts as an unsupported version. Targets may contain raw bytes, as of other servers.
const REQUEST_LINE = /^([A-Z-]+) ([^\x00-\x20\x7f]+)(?: HTTP\/(0\.9|1\.[01]|2\.0))?\r\n/
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
  #line: RegExpExecArray | null = null
  #fields: string[] = []

  /** @param bytes everything that has arrived of the head so far. Returns undefined while it is incomplete. */
  read(bytes: Buffer): FoundHead | Fault | undefined {
    this.hasBegun = true
    if (this.#line === null) this.#skipEmptyLines(bytes)
    // Only a long read is searched for the empty line, whose beginning may have been read already: what follows is no text.
    const emptyLine = bytes.length < 2048 ? -1 : bytes.indexOf('\r\n\r\n', Math.max(0, this.#at - 2))
    const most = emptyLine === -1 ? bytes.length : emptyLine + 4
    const text = bytes.toString('latin1', this.#at, Math.min(most, MAX_REQUEST_HEAD_BYTES))
    let from = 0
    if (this.#line === null) {
      this.#line = REQUEST_LINE.exec(text)
      if (this.#line === null) return START_OF_LINE.test(text) ? incomplete(bytes) : 'malformed'
      from = this.#line[0].length
    }
    const end = readFieldLines(text, from, this.#fields, true)
    const [, method = '', target = '', version = '0.9'] = this.#line
    if (end === INVALID || !METHODS.has(method)) return 'malformed'
    if (end === PARTIAL) {
      this.#at += text.lastIndexOf('\n') + 1
      return incomplete(bytes)
    }
    const [versionMajor, versionMinor] = [Number(version[0]), Number(version[2])]
    const found = { method, target, versionMajor, versionMinor, fields: this.#fields, end: this.#at + end }
    this.reset()
    return found
  }

  reset(): void {
    this.hasBegun = false
    this.#at = 0
    this.#line = null
    this.#fields = []
  }

  /** RFC 9112 §2.2. */
  #skipEmptyLines(bytes: Buffer) {
    while (bytes[this.#at] === CR && bytes[this.#at + 1] === LF) this.#at += 2
  }
}

const incomplete = (bytes: Buffer): Fault | undefined =>
  bytes.length >= MAX_REQUEST_HEAD_BYTES ? 'too-large' : undefined
