// Parses the heads of HTTP/1.1 requests and chunked bodies with llhttp, strictly, one message at a time.
import wasm from 'undici/lib/llhttp/llhttp_simd-wasm.js'

/** Request line, fields and the empty line together. */
export const MAX_REQUEST_HEAD_BYTES = 16 * 1024
/** Chunk extensions of one chunk, or trailers. */
const MAX_FRAMING_BYTES = 16 * 1024

/** What `readHead` and the readers return if the end of a head or body was not found. */
export const INCOMPLETE = 0
export const MALFORMED = -1
export const TOO_LARGE = -2

// llhttp's constants (llhttp.h: llhttp_type, llhttp_errno).
const REQUEST = 1
const OK = 0
const PAUSED = 21
const INPUT_BYTES = 64 * 1024
const POSITIONS_PER_FIELD = 4
// Shortest line: `a:` CR LF.
const MAX_FIELDS = MAX_REQUEST_HEAD_BYTES / 4
const CHUNKED_HEAD = Buffer.from('POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n')
const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const TILDE = 126

interface Exports {
  readonly memory: WebAssembly.Memory
  _initialize(): void
  malloc(bytes: number): number
  llhttp_alloc(type: number): number
  llhttp_free(parser: number): void
  llhttp_reset(parser: number): void
  llhttp_resume(parser: number): void
  llhttp_execute(parser: number, at: number, length: number): number
  llhttp_get_error_pos(parser: number): number
  llhttp_get_http_major(parser: number): number
  llhttp_get_http_minor(parser: number): number
}

/** A request head as sent; llhttp has validated each byte of it. */
export interface ParsedHead {
  readonly method: string
  /** RFC 9112 §3.2. */
  readonly target: string
  readonly versionMajor: number
  readonly versionMinor: number
  /** Whether the client wants to keep the connection (RFC 9112 §9.3). */
  readonly keepAlive: boolean
  /** `[name, value, …]`, Latin-1, without blanks around the values. */
  readonly fields: readonly string[]
}

export interface ChunkedReader {
  /**
   * Takes bytes of a chunked body and passes the data to `onData`, as one piece. Returns where the body ended,
   * {@link INCOMPLETE} or {@link MALFORMED}.
   */
  take(bytes: Buffer, onData: (data: Buffer) => void): number
  release(): void
}

/** One instance serves all connections, because each call ends before the next begins. */
export class Llhttp {
  readonly #exports: Exports
  readonly #heads: number
  readonly #input: number
  #view: Uint8Array
  #text = ''
  #fieldCount = 0
  #valueCount = 0
  #methodStart = 0
  #targetStart = 0
  #targetEnd = 0
  #keepAlive = false
  /** Of each field: start and end of its name, start and end of its value. */
  readonly #positions = new Int32Array(MAX_FIELDS * POSITIONS_PER_FIELD)
  /** Start and end of each piece of data of a chunked body. */
  #data: number[] = []

  constructor() {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(wasm), { env: this.#callbacks() })
    this.#exports = exports as unknown as Exports
    this.#exports._initialize()
    this.#input = this.#exports.malloc(INPUT_BYTES)
    this.#heads = this.#exports.llhttp_alloc(REQUEST)
    this.#view = this.#viewInput()
  }

  // What a span brings in several calls is one piece, as in node:http's own parser.
  #callbacks(): Record<string, (...values: number[]) => number> {
    const goOn = () => OK
    return {
      wasm_on_message_begin: goOn,
      wasm_on_status: goOn,
      wasm_on_url: (_, at = 0, length = 0) => {
        if (this.#targetEnd === 0) this.#targetStart = at - this.#input
        this.#targetEnd = at - this.#input + length
        return OK
      },
      wasm_on_header_field: (_, at = 0, length = 0) => {
        const start = at - this.#input
        if (this.#fieldCount === this.#valueCount) this.#positions[this.#fieldCount++ * POSITIONS_PER_FIELD] = start
        this.#positions[(this.#fieldCount - 1) * POSITIONS_PER_FIELD + 1] = start + length
        return OK
      },
      wasm_on_header_value: (_, at = 0, length = 0) => {
        const start = at - this.#input
        if (this.#fieldCount !== this.#valueCount) this.#positions[this.#valueCount++ * POSITIONS_PER_FIELD + 2] = start
        this.#positions[(this.#valueCount - 1) * POSITIONS_PER_FIELD + 3] = start + length
        return OK
      },
      wasm_on_headers_complete: (_parser, _status, _upgrade, keepAlive) => {
        this.#keepAlive = keepAlive !== 0
        return PAUSED
      },
      wasm_on_body: (_, at = 0, length = 0) => {
        const start = at - this.#input
        this.#data.push(start, start + length)
        return OK
      },
      wasm_on_message_complete: () => PAUSED
    }
  }

  #viewInput(): Uint8Array {
    return new Uint8Array(this.#exports.memory.buffer, this.#input, INPUT_BYTES)
  }

  /** Copies and parses bytes. Growing the memory for more parsers has detached older views of it. */
  #execute(parser: number, bytes: Uint8Array): number {
    if (this.#view.length === 0) this.#view = this.#viewInput()
    this.#view.set(bytes)
    return this.#exports.llhttp_execute(parser, this.#input, bytes.length)
  }

  /**
   * Reads the head at the start of `bytes`. Returns its length, {@link INCOMPLETE}, {@link MALFORMED} or
   * {@link TOO_LARGE}; {@link takeHead} then returns its contents.
   */
  readHead(bytes: Buffer): number {
    const length = this.#parseHead(bytes)
    if (length !== MALFORMED) return length
    const maskedLength = this.#parseHead(maskTarget(bytes))
    if (maskedLength > 0) this.#text = bytes.toString('latin1', 0, maskedLength)
    return maskedLength
  }

  #parseHead(bytes: Buffer): number {
    this.#exports.llhttp_reset(this.#heads)
    this.#fieldCount = this.#valueCount = this.#targetEnd = 0
    const code = this.#execute(this.#heads, bytes.subarray(0, MAX_REQUEST_HEAD_BYTES))
    if (code === OK) return bytes.length >= MAX_REQUEST_HEAD_BYTES ? TOO_LARGE : INCOMPLETE
    if (code !== PAUSED) return MALFORMED
    const length = this.#exports.llhttp_get_error_pos(this.#heads) - this.#input
    this.#text = bytes.toString('latin1', 0, length)
    return this.#isStrict() ? length : MALFORMED
  }

  /**
   * Where llhttp accepts more than RFC 9112 §2.2 and §3 allow: bare CR and LF before the request line, several spaces in it,
   * and protocols other than HTTP.
   */
  #isStrict(): boolean {
    const text = this.#text
    let at = 0
    while (text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === LF) at += 2
    this.#methodStart = at
    if (text.charCodeAt(at) <= SPACE || text.charCodeAt(this.#targetStart - 2) === SPACE) return false
    // A missing version means HTTP/0.9, which counts as an unsupported version.
    return text.charCodeAt(this.#targetEnd) !== SPACE || text.startsWith(' HTTP/', this.#targetEnd)
  }

  /** The head that {@link readHead} has just found complete. */
  takeHead(): ParsedHead {
    const text = this.#text
    const positions = this.#positions
    const fields: string[] = []
    for (let field = 0; field < this.#valueCount; field++) {
      const at = field * POSITIONS_PER_FIELD
      const start = positions[at + 2] ?? 0
      let end = positions[at + 3] ?? 0
      while (end > start && isBlank(text.charCodeAt(end - 1))) end--
      fields.push(text.slice(positions[at], positions[at + 1]), text.slice(start, end))
    }
    const versionMajor = this.#exports.llhttp_get_http_major(this.#heads)
    const versionMinor = this.#exports.llhttp_get_http_minor(this.#heads)
    return {
      method: text.slice(this.#methodStart, this.#targetStart - 1),
      target: text.slice(this.#targetStart, this.#targetEnd),
      versionMajor,
      versionMinor,
      // What follows a message of another protocol is not framed by our rules (RFC 9112 §2.3).
      keepAlive: this.#keepAlive && versionMajor === 1 && !saysClose(fields),
      fields
    }
  }

  createChunkedReader(): ChunkedReader {
    const parser = this.#exports.llhttp_alloc(REQUEST)
    const free = () => this.#exports.llhttp_free(parser)
    this.#execute(parser, CHUNKED_HEAD)
    this.#exports.llhttp_resume(parser)
    let framingBytes = 0
    let isTaking = false
    let isReleased = false

    // As one piece: thousands of tiny chunks would otherwise be as many writes, each of which holds a hundred times its size.
    const deliver = (bytes: Buffer, from: number, end: number, onData: (data: Buffer) => void): boolean => {
      const data = this.#data
      this.#data = []
      const pieces: Buffer[] = []
      let last = 0
      for (let i = 0; i < data.length; i += 2) {
        const [start = 0, stop = 0] = [data[i], data[i + 1]]
        framingBytes += start - last
        if (framingBytes > MAX_FRAMING_BYTES) return false
        framingBytes = 0
        last = stop
        pieces.push(bytes.subarray(from + start, from + stop))
      }
      const [only] = pieces
      if (only !== undefined) onData(pieces.length === 1 ? only : Buffer.concat(pieces))
      framingBytes += end - last
      return framingBytes <= MAX_FRAMING_BYTES
    }

    const takePart = (bytes: Buffer, from: number, onData: (data: Buffer) => void): number => {
      this.#fieldCount = this.#valueCount = 0
      this.#data = []
      const part = bytes.subarray(from, from + INPUT_BYTES)
      const code = this.#execute(parser, part)
      const end = code === PAUSED ? this.#exports.llhttp_get_error_pos(parser) - this.#input : part.length
      if ((code !== PAUSED && code !== OK) || !deliver(bytes, from, end, onData)) return MALFORMED
      return code === PAUSED ? from + end : INCOMPLETE
    }

    return {
      take(bytes, onData) {
        let end = INCOMPLETE
        isTaking = true
        for (let from = 0; from < bytes.length && end === INCOMPLETE && !isReleased; from += INPUT_BYTES)
          end = takePart(bytes, from, onData)
        isTaking = false
        if (isReleased) free()
        return end
      },
      // The consumer of the data may end the connection in the meantime.
      release() {
        isReleased = true
        if (!isTaking) free()
      }
    }
  }
}

/**
 * Replaces bytes from 0x80 in the request target, which llhttp refuses and other servers accept. What replaces them occurs in no
 * method and no version.
 */
const maskTarget = (bytes: Buffer): Buffer => {
  const start = bytes.indexOf(SPACE)
  if (start === -1) return bytes
  const lineEnd = bytes.indexOf(LF, start)
  const masked = Buffer.from(bytes)
  masked.subarray(start, lineEnd === -1 ? bytes.length : lineEnd).forEach((byte, i, target) => {
    if (byte >= 0x80) target[i] = TILDE
  })
  return masked
}

/** Where llhttp does not: with `keep-alive` beside it in HTTP/1.0 (RFC 9112 §9.3), and with a tab behind it. */
const saysClose = (fields: readonly string[]): boolean => {
  for (let i = 0; i < fields.length; i += 2) {
    // By its length first, since every request comes through here.
    if (fields[i]?.length === 10 && /^connection$/i.test(fields[i] ?? '') && CLOSE.test(fields[i + 1] ?? ''))
      return true
  }
  return false
}
const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i

const isBlank = (code: number): boolean => code === SPACE || code === TAB
