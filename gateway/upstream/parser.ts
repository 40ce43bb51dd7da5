// Parses bytes from an upstream into validated HTTP/1.1 responses (RFC 9112 §4, §6, §7).
import { INVALID, PARTIAL, readFieldLines } from './field-lines.ts'
import { BadResponse, type ResponseHead, readResponseHead } from './headers/response-head.ts'

export { BadResponse, type ResponseHead, readResponseHead }

export class UnaskedBytes extends BadResponse {
  constructor() {
    super('bytes that no request asked for')
  }
}

export interface ResponseSink {
  /** A 1xx other than 101 (RFC 9110 §15.2). */
  onInterim(status: number, headers: readonly string[]): void
  /** `whole`: the complete body as Latin-1 text if it arrived together with the head, so that one write is enough. */
  onHead(head: ResponseHead, whole: string | undefined): void
  /** Valid until it returns. */
  onBody(chunk: Buffer): void
  onEnd(trailers: readonly string[]): void
}

const MAX_TRAILER_BYTES = 8 * 1024
const MAX_CHUNK_LINE_BYTES = 4096
const MAX_INTERIM_RESPONSES = 32
const LF = 10
const CR = 13
const EMPTY = Buffer.alloc(0)
const NO_TRAILERS: readonly string[] = []

const CHUNK_LINE = /^([0-9A-Fa-f]{1,12})(?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?\r?$/

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk-line' | 'chunk-data' | 'chunk-end' | 'trailers'

/** The index after a line end at the start of bytes. */
const afterLineEnd = (bytes: Buffer): number => {
  const lf = bytes[0] === CR ? 1 : 0
  if (lf >= bytes.length) return PARTIAL
  return bytes[lf] === LF ? lf + 1 : INVALID
}

/** Reads the responses of one connection, one after the other. */
export class ResponseParser {
  #state: State = 'idle'
  #method = ''
  #sink: ResponseSink | undefined
  #pending = EMPTY
  #remaining = 0
  #begun = false
  #interims = 0

  /** Whether no response is expected. */
  get isIdle(): boolean {
    return this.#state === 'idle'
  }

  /** Whether any byte of the expected response has arrived. */
  get hasBegun(): boolean {
    return this.#begun
  }

  /** A request with this method has been written; its response goes to `sink`. */
  begin(method: string, sink: ResponseSink): void {
    this.#state = 'head'
    this.#method = method
    this.#sink = sink
    this.#begun = false
    this.#interims = 0
    this.#pending = EMPTY
  }

  /** Takes bytes; the buffer is not kept after the call. Throws {@link BadResponse}; the connection must then be destroyed. */
  take(bytes: Buffer): void {
    this.#begun = true
    let rest = bytes
    if (this.#pending.length > 0) {
      rest = Buffer.concat([this.#pending, bytes])
      this.#pending = EMPTY
    }
    while (rest.length > 0) rest = this.#step(rest)
  }

  /** The upstream closed its side. Returns whether this completes the response. */
  finish(): boolean {
    if (this.#state !== 'close') return this.#state === 'idle'
    this.#end(NO_TRAILERS)
    return true
  }

  #end(trailers: readonly string[]) {
    this.#state = 'idle'
    const ended = this.#sink
    this.#sink = undefined
    ended?.onEnd(trailers)
  }

  #keep(bytes: Buffer): Buffer {
    this.#pending = Buffer.from(bytes)
    return EMPTY
  }

  #takeHead(bytes: Buffer): Buffer {
    const found = readResponseHead(bytes, this.#method)
    if (found === undefined) return this.#keep(bytes)
    const { head, end: bodyAt, text } = found
    if (head.status < 200) {
      if (head.status === 101) throw new BadResponse('unasked upgrade')
      if (++this.#interims > MAX_INTERIM_RESPONSES) throw new BadResponse('endless interim responses')
      this.#sink?.onInterim(head.status, head.headers)
      return bytes.subarray(bodyAt)
    }
    const bodyEnd = bodyAt + Math.max(0, head.contentLength)
    const isWhole = head.framing === 'none' || (head.framing === 'length' && bodyEnd <= text.length)
    if (!isWhole) return this.#startBody(head, bytes.subarray(bodyAt))
    this.#state = 'idle'
    const ended = this.#sink
    this.#sink = undefined
    ended?.onHead(head, text.slice(bodyAt, bodyEnd))
    ended?.onEnd(NO_TRAILERS)
    return bodyEnd === bytes.length ? EMPTY : bytes.subarray(bodyEnd)
  }

  #startBody(head: ResponseHead, rest: Buffer): Buffer {
    this.#state = head.framing === 'chunked' ? 'chunk-line' : head.framing === 'close' ? 'close' : 'length'
    this.#remaining = head.contentLength
    this.#sink?.onHead(head, undefined)
    return rest
  }

  #takeCounted(bytes: Buffer): Buffer {
    const size = Math.min(this.#remaining, bytes.length)
    this.#remaining -= size
    this.#sink?.onBody(bytes.subarray(0, size))
    if (this.#remaining === 0) {
      if (this.#state === 'length') this.#end(NO_TRAILERS)
      else this.#state = 'chunk-end'
    }
    return bytes.subarray(size)
  }

  #takeChunkLine(bytes: Buffer): Buffer {
    const at = bytes.indexOf(LF)
    if ((at === -1 ? bytes.length : at) > MAX_CHUNK_LINE_BYTES) throw new BadResponse('chunk line too long')
    if (at === -1) return this.#keep(bytes)
    const line = CHUNK_LINE.exec(bytes.toString('latin1', 0, at))
    if (line === null) throw new BadResponse('malformed chunk')
    this.#remaining = Number.parseInt(line[1] ?? '', 16)
    this.#state = this.#remaining === 0 ? 'trailers' : 'chunk-data'
    return bytes.subarray(at + 1)
  }

  #takeChunkEnd(bytes: Buffer): Buffer {
    const end = afterLineEnd(bytes)
    if (end === INVALID) throw new BadResponse('malformed chunk end')
    if (end === PARTIAL) return this.#keep(bytes)
    this.#state = 'chunk-line'
    return bytes.subarray(end)
  }

  #takeTrailers(bytes: Buffer): Buffer {
    const fields: string[] = []
    const end = readFieldLines(bytes.toString('latin1', 0, Math.min(bytes.length, MAX_TRAILER_BYTES)), 0, fields)
    if (end === INVALID) throw new BadResponse('malformed trailers')
    if (end === PARTIAL && bytes.length > MAX_TRAILER_BYTES) throw new BadResponse('trailers too long')
    if (end === PARTIAL) return this.#keep(bytes)
    this.#end(fields)
    return bytes.subarray(end)
  }

  #step(bytes: Buffer): Buffer {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(bytes)
      case 'length':
      case 'chunk-data':
        return this.#takeCounted(bytes)
      case 'chunk-line':
        return this.#takeChunkLine(bytes)
      case 'chunk-end':
        return this.#takeChunkEnd(bytes)
      case 'trailers':
        return this.#takeTrailers(bytes)
      case 'close':
        this.#sink?.onBody(bytes)
        return EMPTY
      case 'idle':
        throw new UnaskedBytes()
    }
  }
}
