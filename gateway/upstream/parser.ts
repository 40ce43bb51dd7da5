// Parses bytes from an upstream into validated HTTP/1.1 responses (RFC 9112 §4, §6, §7).
import { parseFieldLines } from './field-lines.ts'

/** How the body ends (RFC 9112 §6.3). */
type Framing = 'none' | 'length' | 'chunked' | 'close'

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  /** `[name, value, …]` as received. */
  readonly headers: readonly string[]
  readonly framing: Framing
  /** Bytes of body with framing `length`, otherwise -1. */
  readonly contentLength: number
  /** Whether the upstream will keep the connection (RFC 9112 §9.3), and nothing of this response can follow on it. */
  readonly keepAlive: boolean
}

export interface ResponseSink {
  /** A 1xx other than 101 (RFC 9110 §15.2). */
  onInterim(status: number, headers: readonly string[]): void
  /** `whole`: the complete body as Latin-1 text if it arrived together with the head, so that one write is enough. */
  onHead(head: ResponseHead, whole: string | undefined): void
  /** A part of the given bytes, valid until `take` returns. */
  onBody(chunk: Buffer): void
  onEnd(trailers: readonly string[]): void
}

export class BadResponse extends Error {}

export const MAX_HEAD_BYTES = 32 * 1024
const MAX_TRAILER_BYTES = 8 * 1024
const MAX_CHUNK_LINE_BYTES = 4096
const MAX_INTERIM_RESPONSES = 32
const PREFIX = 'HTTP/1.'
const HEAD_END = '\r\n\r\n'
/** Only this much is decoded as text: the head must end within it, and a larger body is not a small one. */
const MAX_TEXT_BYTES = MAX_HEAD_BYTES + HEAD_END.length
const EMPTY = Buffer.alloc(0)
const NO_TRAILERS: readonly string[] = []

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r\n/
const CHUNK_LINE = /^([0-9A-Fa-f]{1,12})(?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?$/

const parseFields = (text: string, from: number, end: number): string[] => {
  const fields = parseFieldLines(text, from, end)
  if (fields === undefined) throw new BadResponse('malformed header line')
  return fields
}

interface Lengths {
  contentLength: number
  chunked: boolean
  keepAlive: boolean
  /** A Connection field said so, which no other can revoke (RFC 9112 §9.3). */
  closes: boolean
}

/** Reads the fields that determine framing; anything that two parsers could read differently is refused (RFC 9112 §6.1, §6.3). */
const readLengths = (fields: readonly string[], minor: string): Lengths => {
  const lengths: Lengths = { contentLength: -1, chunked: false, keepAlive: minor === '1', closes: false }
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? ''
    const value = fields[i + 1] ?? ''
    if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (lengths.contentLength !== -1 || !/^\d{1,15}$/.test(value)) throw new BadResponse('bad content-length')
      lengths.contentLength = Number(value)
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') {
      if (lengths.chunked || value.toLowerCase() !== 'chunked' || minor !== '1')
        throw new BadResponse('bad transfer-encoding')
      lengths.chunked = true
    } else if (name.length === 10 && name.toLowerCase() === 'connection') {
      const tokens = value.toLowerCase()
      if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/.test(tokens)) lengths.closes = true
      else if (/(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/.test(tokens) && minor === '0') lengths.keepAlive = true
    }
  }
  if (lengths.chunked && lengths.contentLength !== -1) throw new BadResponse('content-length with transfer-encoding')
  return lengths
}

const framingOf = (status: number, method: string, lengths: Lengths): Framing => {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none'
  if (lengths.chunked) return 'chunked'
  if (lengths.contentLength === -1) return 'close'
  return lengths.contentLength === 0 ? 'none' : 'length'
}

/** Some backends send the body that a response to HEAD, or a 204 or 304, must not have (RFC 9110 §9.3.2, §15.3.5, §15.4.5). */
const announcesMore = (framing: Framing, { chunked, contentLength }: Lengths): boolean =>
  framing === 'none' && (chunked || contentLength > 0)

/** @param text begins with the head @param end the end of its last field line */
export const parseHead = (text: string, method: string, end = text.length): ResponseHead => {
  const line = STATUS_LINE.exec(text)
  if (line === null) throw new BadResponse('malformed status line')
  const status = Number(line[2])
  const headers = parseFields(text, line[0].length, end)
  const lengths = readLengths(headers, line[1] ?? '')
  const framing = framingOf(status, method, lengths)
  return {
    status,
    reason: line[3] ?? '',
    headers,
    framing,
    contentLength: framing === 'length' ? lengths.contentLength : -1,
    keepAlive: lengths.keepAlive && !lengths.closes && framing !== 'close' && !announcesMore(framing, lengths)
  }
}

type State = 'idle' | 'head' | 'length' | 'close' | 'chunk-line' | 'chunk-data' | 'chunk-end' | 'trailers'

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

  #keep(bytes: Buffer, limit: number, what: string): Buffer {
    if (bytes.length > limit) throw new BadResponse(`${what} too long`)
    // The caller reuses its read buffer.
    this.#pending = Buffer.from(bytes)
    return EMPTY
  }

  /** An incomplete head that can no longer become valid is refused now, not when time runs out. */
  #keepHead(bytes: Buffer): Buffer {
    if (!PREFIX.startsWith(bytes.toString('latin1', 0, PREFIX.length))) throw new BadResponse('malformed status line')
    if (/(?:^|[^\r])\n/.test(bytes.toString('latin1', 0, MAX_HEAD_BYTES))) throw new BadResponse('bare LF')
    return this.#keep(bytes, MAX_HEAD_BYTES, 'head')
  }

  #takeHead(bytes: Buffer): Buffer {
    const text = bytes.toString('latin1', 0, Math.min(bytes.length, MAX_TEXT_BYTES))
    const at = text.indexOf(HEAD_END)
    if (at === -1 || at > MAX_HEAD_BYTES) return this.#keepHead(bytes)
    const head = parseHead(text, this.#method, at + 2)
    const bodyAt = at + HEAD_END.length
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
    const at = bytes.indexOf('\r\n')
    if (at === -1) return this.#keep(bytes, MAX_CHUNK_LINE_BYTES, 'chunk line')
    const line = at > MAX_CHUNK_LINE_BYTES ? null : CHUNK_LINE.exec(bytes.toString('latin1', 0, at))
    if (line === null) throw new BadResponse('malformed chunk')
    this.#remaining = Number.parseInt(line[1] ?? '', 16)
    this.#state = this.#remaining === 0 ? 'trailers' : 'chunk-data'
    return bytes.subarray(at + 2)
  }

  #takeChunkEnd(bytes: Buffer): Buffer {
    if (bytes.length < 2) return this.#keep(bytes, 2, 'chunk end')
    if (bytes[0] !== 13 || bytes[1] !== 10) throw new BadResponse('malformed chunk end')
    this.#state = 'chunk-line'
    return bytes.subarray(2)
  }

  #takeTrailers(bytes: Buffer): Buffer {
    if (bytes.length >= 2 && bytes[0] === 13 && bytes[1] === 10) {
      this.#end(NO_TRAILERS)
      return bytes.subarray(2)
    }
    const at = bytes.indexOf(HEAD_END)
    if (at === -1) return this.#keep(bytes, MAX_TRAILER_BYTES, 'trailers')
    this.#end(parseFields(bytes.toString('latin1', 0, at + 2), 0, at + 2))
    return bytes.subarray(at + 4)
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
        throw new BadResponse('bytes that no request asked for')
    }
  }
}
