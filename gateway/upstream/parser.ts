// Parses bytes from an upstream into validated HTTP/1.1 responses for who requested them (RFC 9112 §4–§7).
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../http/chunked-body.ts'
import { INVALID, PARTIAL, readFieldLines } from '../http/field-lines.ts'
import { keepsConnection } from '../http/request.ts'
import type { Contained } from '../values/contain.ts'
import { BadResponse, type UpstreamFault } from './faults.ts'
import { type ResponseFieldKind, responseFieldKind } from './headers/response-fields.ts'

/** How the body ends (RFC 9112 §6.3). */
type Framing = 'none' | 'length' | 'chunked' | 'close'

export interface ResponseHead {
  readonly status: number
  readonly reason: string
  /** `[name, value, …]` as received. */
  readonly headers: readonly string[]
  /** One for each of the headers. */
  readonly kinds: readonly ResponseFieldKind[]
  readonly framing: Framing
  /** Content-Length; -1: none. */
  readonly announcedLength: number
  /** Bytes of body with framing `length`, otherwise -1. */
  readonly contentLength: number
  /** All Connection fields joined, lower case. */
  readonly connection: string
  /** Whether the upstream will keep the connection (RFC 9112 §9.3). */
  readonly keepAlive: boolean
  /** Some backends send the body that a response to HEAD, or a 204 or 304, must not have (RFC 9110 §9.3.2, §15.3.5, §15.4.5). */
  readonly announcesMore: boolean
}

/** Only this much is decoded as text: the head must end within it, and a larger body is not a small one. */
const MAX_TEXT_BYTES = 32 * 1024

// HTTP/1.2 and later are read as HTTP/1.1 (RFC 9110 §2.5). The reason may be absent, with the blank before it.
const STATUS_LINE = /HTTP\/1\.(\d) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?\r?\n/y
const SHORTEST = 'HTTP/1.1 200\n'

const statusLineOf = (text: string): RegExpExecArray | null => {
  STATUS_LINE.lastIndex = 0
  return STATUS_LINE.exec(text)
}

const mayBecomeStatusLine = (text: string): boolean =>
  statusLineOf(text + (SHORTEST.slice(text.length) || '\n')) !== null

/** Reads the fields that determine framing; what two parsers could read differently is refused (RFC 9112 §6.1, §6.3). */
const readLengths = (headers: readonly string[], kinds: readonly ResponseFieldKind[], minor: number) => {
  const lengths = { announcedLength: -1, chunked: false, connection: '' }
  for (let i = 0; i < kinds.length; i++) {
    const value = headers[2 * i + 1] ?? ''
    switch (kinds[i]) {
      case 'content-length': {
        const length = readLength(value)
        if (lengths.announcedLength !== -1 && lengths.announcedLength !== length)
          throw new BadResponse('bad content-length')
        lengths.announcedLength = length
        break
      }
      case 'transfer-encoding':
        if (lengths.chunked || value.toLowerCase() !== 'chunked' || minor === 0)
          throw new BadResponse('bad transfer-encoding')
        lengths.chunked = true
        break
      case 'connection':
        lengths.connection += (lengths.connection === '' ? '' : ',') + value.toLowerCase()
    }
  }
  if (lengths.chunked && lengths.announcedLength !== -1) throw new BadResponse('content-length with transfer-encoding')
  return lengths
}

/** 1 to 15 digits; equal ones may be repeated in a list (RFC 9110 §8.6). */
const readLength = (value: string): number => {
  const [, digits] = /^(\d{1,15})(?:[\t ]*,[\t ]*\1)*$/.exec(value) ?? []
  if (digits === undefined) throw new BadResponse('bad content-length')
  return Number(digits)
}

type Lengths = ReturnType<typeof readLengths>

const framingOf = (status: number, method: string, { chunked, announcedLength }: Lengths): Framing => {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none'
  if (chunked) return 'chunked'
  if (announcedLength === -1) return 'close'
  return announcedLength === 0 ? 'none' : 'length'
}

/** Undefined: more bytes are needed. A head that can no longer become valid is refused at once, not when time runs out. */
export const readResponseHead = (bytes: Buffer, method: string) => {
  const text = bytes.toString('latin1', 0, Math.min(bytes.length, MAX_TEXT_BYTES))
  const line = statusLineOf(text)
  if (line === null && !mayBecomeStatusLine(text)) throw new BadResponse('malformed status line')
  const headers: string[] = []
  const end = line === null ? PARTIAL : readFieldLines(text, line[0].length, headers)
  if (end === INVALID) throw new BadResponse('malformed header line')
  if (end === PARTIAL && bytes.length > MAX_TEXT_BYTES) throw new BadResponse('head too long')
  if (line === null || end === PARTIAL) return undefined

  const [, minorDigit, statusDigits, reason = ''] = line
  const [minor, status] = [Number(minorDigit), Number(statusDigits)]
  const kinds: ResponseFieldKind[] = []
  for (let i = 0; i < headers.length; i += 2) kinds.push(responseFieldKind(headers[i] ?? ''))
  const lengths = readLengths(headers, kinds, minor)
  const framing = framingOf(status, method, lengths)
  const head: ResponseHead = {
    status,
    reason,
    headers,
    kinds,
    framing,
    announcedLength: lengths.announcedLength,
    contentLength: framing === 'length' ? lengths.announcedLength : -1,
    connection: lengths.connection,
    keepAlive: framing !== 'close' && keepsConnection(minor, lengths.connection),
    announcesMore: framing === 'none' && (lengths.chunked || lengths.announcedLength > 0)
  }
  /** `end`: where the body begins. `text`: Latin-1; it ends behind the head, with the bytes at the latest. */
  return { head, end, text }
}

// Node's own servers close after 5 s, when a request must not be in transit.
export const DEFAULT_KEEP_ALIVE_MS = 4000

/** How long the upstream keeps the connection when idle, in milliseconds; 0: do not reuse. */
export const keepAliveHint = (head: ResponseHead): number => {
  for (let i = head.kinds.indexOf('keep-alive'); i !== -1; i = head.kinds.indexOf('keep-alive', i + 1)) {
    const seconds = /(?:^|[,\s])timeout=(\d{1,6})/i.exec(head.headers[2 * i + 1] ?? '')?.[1]
    // Half a second of margin for latency.
    if (seconds !== undefined) return Math.max(0, Number(seconds) * 1000 - 500)
  }
  return DEFAULT_KEEP_ALIVE_MS
}

/** Whether a response asks for authentication of the connection instead of the request (RFC 4559 §5). */
export const asksForConnection = ({ headers, kinds }: ResponseHead): boolean =>
  kinds.some((kind, i) => kind === 'authenticate' && bindsConnection(headers[2 * i + 1]))

/** Whether an Authorization or WWW-Authenticate field names a scheme that authenticates the connection. */
export const bindsConnection = (value: string | undefined): boolean =>
  value !== undefined && /(?:^|,)[\t ]*(?:NTLM|Negotiate)(?:[\t ,]|$)/i.test(value)

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
  /**
   * 101: `rest`, valid until this returns, and whatever follows it is of another protocol (RFC 9110 §15.2.2). Absent: the request was
   * not to switch. Takes the connection over, or throws {@link BadResponse}.
   */
  onSwitch?(head: ResponseHead, rest: Buffer): void
}

/** Every request ends in exactly one of `onEnd`, `onSwitch`, `onFault` and `onThrown`. */
export interface Requester extends Pick<ResponseSink, 'onHead'>, Partial<Omit<ResponseSink, 'onHead'>>, Contained {
  /** `nothingSent`: no byte reached the kernel, so it may be sent again. Nothing else is, although RFC 9110 §9.2.2 allows more. */
  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean): void
  /** The connection was not established when it got the request, and is now. */
  onConnected?(): void
  /** The socket accepts bytes again after `write` returned false. */
  onDrain?(): void
}

/** In one period: a backend that is still working may say so for hours. */
const MAX_INTERIM_RESPONSES = 32
const INTERIM_PERIOD_MS = 10_000
const EMPTY = Buffer.alloc(0)
const NO_TRAILERS: readonly string[] = []

type State = 'idle' | 'head' | 'length' | 'chunked' | 'close'

/** Reads the responses of one connection, one after the other. */
export class ResponseParser {
  #state: State = 'idle'
  #method = ''
  #sink: ResponseSink | undefined
  #pending = EMPTY
  #remaining = 0
  #chunked: ChunkedBody | undefined
  #begun = false
  #takenAt = 0
  /** Since the period began. */
  #interims = 0
  #interimsSince = 0

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

  /** Keeps nothing of the buffer. Throws {@link BadResponse}: its connection must end. @param at when they arrived, in monotonic ms */
  take(bytes: Buffer, at: number): void {
    this.#begun = true
    this.#takenAt = at
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

  #takeHead(bytes: Buffer): Buffer {
    const found = readResponseHead(bytes, this.#method)
    if (found === undefined) {
      this.#pending = Buffer.from(bytes)
      return EMPTY
    }
    const { head, end: bodyAt, text } = found
    if (head.status < 200) {
      if (head.status === 101) return this.#switch(head, bytes.subarray(bodyAt))
      this.#countInterim()
      this.#sink?.onInterim(head.status, head.headers)
      return bytes.subarray(bodyAt)
    }
    const { framing } = head
    const bodyEnd = bodyAt + Math.max(0, head.contentLength)
    const isWhole = framing === 'none' || (framing === 'length' && bodyEnd <= text.length)
    if (!isWhole) return this.#startBody(head, framing, bytes.subarray(bodyAt))
    this.#sink?.onHead(head, text.slice(bodyAt, bodyEnd))
    this.#end(NO_TRAILERS)
    return bodyEnd === bytes.length ? EMPTY : bytes.subarray(bodyEnd)
  }

  #countInterim() {
    if (this.#interims === 0 || this.#takenAt - this.#interimsSince >= INTERIM_PERIOD_MS) {
      this.#interims = 0
      this.#interimsSince = this.#takenAt
    }
    if (++this.#interims > MAX_INTERIM_RESPONSES) throw new BadResponse('endless interim responses')
  }

  #switch(head: ResponseHead, rest: Buffer): Buffer {
    const switched = this.#sink
    if (switched?.onSwitch === undefined) throw new BadResponse('unasked upgrade')
    this.#state = 'idle'
    this.#sink = undefined
    switched.onSwitch(head, rest)
    return EMPTY
  }

  #startBody(head: ResponseHead, framing: Exclude<Framing, 'none'>, rest: Buffer): Buffer {
    this.#state = framing
    this.#remaining = head.contentLength
    this.#chunked = framing === 'chunked' ? new ChunkedBody(false) : undefined
    this.#sink?.onHead(head, undefined)
    return rest
  }

  #takeLength(bytes: Buffer): Buffer {
    const size = Math.min(this.#remaining, bytes.length)
    this.#remaining -= size
    this.#sink?.onBody(bytes.subarray(0, size))
    if (this.#remaining === 0) this.#end(NO_TRAILERS)
    return bytes.subarray(size)
  }

  #takeChunks(bytes: Buffer, body: ChunkedBody): Buffer {
    const end = body.take(bytes, data => this.#sink?.onBody(data))
    if (end === MALFORMED) throw new BadResponse('malformed chunked body')
    if (end === INCOMPLETE) return EMPTY
    this.#end(body.trailers)
    return bytes.subarray(end)
  }

  #step(bytes: Buffer): Buffer {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(bytes)
      case 'length':
        return this.#takeLength(bytes)
      case 'chunked':
        return this.#takeChunks(bytes, this.#chunked ?? new ChunkedBody(false))
      case 'close':
        this.#sink?.onBody(bytes)
        return EMPTY
      case 'idle':
        throw new UnaskedBytes()
    }
  }
}
