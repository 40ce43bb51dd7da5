// Reads the head of an upstream's response: status line, fields, and how the body ends (RFC 9112 §4–§6).
import { INVALID, PARTIAL, readFieldLines } from '../../http/field-lines.ts'
import { keepsConnection } from '../../http/head.ts'
import { type ResponseFieldKind, responseFieldKind } from './response-fields.ts'

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

export class BadResponse extends Error {}

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

interface Lengths {
  announcedLength: number
  chunked: boolean
  connection: string
}

/** Reads the fields that determine framing; what two parsers could read differently is refused (RFC 9112 §6.1, §6.3). */
const readLengths = (headers: readonly string[], kinds: readonly ResponseFieldKind[], minor: number): Lengths => {
  const lengths: Lengths = { announcedLength: -1, chunked: false, connection: '' }
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

const framingOf = (status: number, method: string, { chunked, announcedLength }: Lengths): Framing => {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none'
  if (chunked) return 'chunked'
  if (announcedLength === -1) return 'close'
  return announcedLength === 0 ? 'none' : 'length'
}

interface FoundHead {
  readonly head: ResponseHead
  /** Where the body begins. */
  readonly end: number
  /** As Latin-1; it ends behind the head, with the bytes at the latest. */
  readonly text: string
}

/**
 * Reads the head at the start of bytes; undefined: more are needed. One that can no longer become valid is refused at once, not
 * when time runs out.
 */
export const readResponseHead = (bytes: Buffer, method: string): FoundHead | undefined => {
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
