// Reads chunked bodies of either side: the data, and the trailers behind it (RFC 9112 §7.1).
import { INVALID, linesText, PARTIAL, readFieldLines } from './field-lines.ts'

/** Results instead of an index. */
export const INCOMPLETE = 0
export const MALFORMED = -1

const MAX_CHUNK_LINE_BYTES = 4096
const MAX_TRAILER_BYTES = 8 * 1024
/** Not allowed in trailers (RFC 9110 §6.5.1); other servers, such as node:http, refuse them. */
const FRAMING_FIELD = /^(?:content-length|transfer-encoding)$/i
const LF = 10
const CR = 13
const EMPTY = Buffer.alloc(0)

const STRICT_LINE =
  /^([0-9A-Fa-f]{1,12})(?:;[\w!#$%&'*+.^`|~-]+(?:=(?:[\w!#$%&'*+.^`|~-]+|"(?:[\t\x20!#-[\]-~\x80-\xff]|\\[\t\x20-~\x80-\xff])*"))?)*\r$/
const LAX_LINE = /^([0-9A-Fa-f]{1,12})[\t ]*(?:;[\t\x20-\x7e\x80-\xff]*)?\r?$/

export class ChunkedBody {
  /** `[name, value, …]`, once the body has ended. */
  readonly trailers: string[] = []
  readonly #isStrict: boolean
  #state: 'line' | 'data' | 'data-end' | 'trailers' | 'over' = 'line'
  /** A line that is incomplete. */
  #pending = EMPTY
  #missing = 0
  /** Of the trailer lines that were read. */
  #trailerBytes = 0

  /** @param isStrict lines end in CRLF, without blanks around the size; backends are known that write less */
  constructor(isStrict: boolean) {
    this.#isStrict = isStrict
  }

  /**
   * Takes bytes, and passes their data on as one piece: thousands of tiny chunks would otherwise be as many writes, each of
   * which holds a hundred times its size. Returns where the body ended, {@link INCOMPLETE} or {@link MALFORMED}.
   */
  take(bytes: Buffer, onData: (data: Buffer) => void): number {
    const before = this.#pending.length
    const all = before === 0 ? bytes : Buffer.concat([this.#pending, bytes])
    this.#pending = EMPTY
    const pieces: Buffer[] = []
    let at = 0
    while (at < all.length && this.#state !== 'over') {
      const next = this.#step(all, at, pieces)
      if (next === INVALID) return MALFORMED
      if (next === PARTIAL) this.#pending = Buffer.from(all.subarray(at))
      at = next === PARTIAL ? all.length : next
    }
    const [only] = pieces
    if (only !== undefined) onData(pieces.length === 1 ? only : Buffer.concat(pieces))
    return this.#state === 'over' ? at - before : INCOMPLETE
  }

  /** Returns the index behind what was read, PARTIAL or INVALID. */
  #step(bytes: Buffer, at: number, pieces: Buffer[]): number {
    switch (this.#state) {
      case 'line':
        return this.#readLine(bytes, at)
      case 'data': {
        const end = Math.min(bytes.length, at + this.#missing)
        pieces.push(bytes.subarray(at, end))
        this.#missing -= end - at
        if (this.#missing === 0) this.#state = 'data-end'
        return end
      }
      case 'data-end': {
        const lf = bytes[at] === CR ? at + 1 : at
        if (lf === bytes.length) return PARTIAL
        if (bytes[lf] !== LF || (this.#isStrict && lf === at)) return INVALID
        this.#state = 'line'
        return lf + 1
      }
      default:
        return this.#readTrailers(bytes, at)
    }
  }

  #readLine(bytes: Buffer, at: number): number {
    const lf = bytes.indexOf(LF, at)
    if ((lf === -1 ? bytes.length : lf) - at > MAX_CHUNK_LINE_BYTES) return INVALID
    if (lf === -1) return PARTIAL
    const [, size] = (this.#isStrict ? STRICT_LINE : LAX_LINE).exec(bytes.toString('latin1', at, lf)) ?? []
    if (size === undefined) return INVALID
    this.#missing = Number.parseInt(size, 16)
    this.#state = this.#missing === 0 ? 'trailers' : 'data'
    return lf + 1
  }

  #readTrailers(bytes: Buffer, at: number): number {
    const left = MAX_TRAILER_BYTES - this.#trailerBytes
    const text = linesText(bytes, at, Math.min(bytes.length, at + left))
    const end = readFieldLines(text, 0, this.trailers, this.#isStrict)
    if (end === INVALID) return INVALID
    if (end !== PARTIAL) {
      if (this.#isStrict && this.trailers.some((name, i) => i % 2 === 0 && FRAMING_FIELD.test(name))) return INVALID
      this.#state = 'over'
      return at + end
    }
    const read = text.lastIndexOf('\n') + 1
    this.#trailerBytes += read
    if (bytes.length - at > left) return INVALID
    return read === 0 ? PARTIAL : at + read
  }
}
