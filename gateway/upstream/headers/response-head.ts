// Parses the head of an upstream's response: status line, fields, and how the body ends (RFC 9112 §4–§6).
import { standardReason } from '../../http/server/response-head.ts'
import { isTextAt, MARKS_PER_LINE, markedFields, markFieldLines } from '../field-lines.ts'
import { BODY_CODING, BODY_LENGTH, CONNECTION_OPTIONS } from './response-fields.ts'

/** How the body ends (RFC 9112 §6.3). */
type Framing = 'none' | 'length' | 'chunked' | 'close'

export class ResponseHead {
  readonly status: number
  readonly reason: string
  /** Begins with the head. */
  readonly text: string
  /** Of the field lines in `text`, as `markFieldLines` gives them. */
  readonly marks: readonly number[]
  readonly fieldsEnd: number
  readonly framing: Framing
  /** Bytes of body with framing `length`, otherwise -1. */
  readonly contentLength: number
  /** All Connection fields joined, lower case. */
  readonly connection: string
  /** Whether the upstream will keep the connection (RFC 9112 §9.3). */
  readonly keepAlive: boolean
  /** Some backends send the body that a response to HEAD, or a 204 or 304, must not have (RFC 9110 §9.3.2, §15.3.5, §15.4.5). */
  readonly announcesMore: boolean

  /** @param lineEnd the end of the status line, before its CRLF */
  constructor(text: string, bytes: Uint8Array, lineEnd: number, fieldsEnd: number, marks: number[], method: string) {
    const status = statusOf(bytes)
    const lengths = readLengths(text, bytes, marks)
    const framing = framingOf(status, method, lengths)
    const keeps = keepsConnection(digitAt(bytes, MINOR_AT), lengths.connection)
    this.status = status
    this.reason = reasonOf(text, status, lineEnd)
    this.text = text
    this.marks = marks
    this.fieldsEnd = fieldsEnd
    this.framing = framing
    this.contentLength = framing === 'length' ? lengths.contentLength : -1
    this.connection = lengths.connection
    this.keepAlive = keeps && framing !== 'close'
    this.announcesMore = framing === 'none' && (lengths.chunked || lengths.contentLength > 0)
  }

  /** `[name, value, …]` as received. */
  get headers(): readonly string[] {
    return markedFields(this.text, this.marks)
  }
}

export class BadResponse extends Error {}

const MINOR_AT = 7
const STATUS_AT = 9
const REASON_AT = 13
const ZERO = 48
const CR = 13
const LF = 10
const SPACE = 32

const digitAt = (bytes: Uint8Array, at: number): number => (bytes[at] ?? 0) - ZERO
const isDigitAt = (bytes: Uint8Array, at: number): boolean => digitAt(bytes, at) >= 0 && digitAt(bytes, at) <= 9
const isMinor1 = (bytes: Uint8Array): boolean => digitAt(bytes, MINOR_AT) === 1
const statusOf = (bytes: Uint8Array): number =>
  digitAt(bytes, STATUS_AT) * 100 + digitAt(bytes, STATUS_AT + 1) * 10 + digitAt(bytes, STATUS_AT + 2)

/** Where the reason phrase ends, which may be absent together with the blank before it; -1: no status line (RFC 9112 §4). */
const reasonEnd = (text: string, bytes: Uint8Array): number => {
  if (!text.startsWith('HTTP/1.0 ') && !text.startsWith('HTTP/1.1 ')) return -1
  if (digitAt(bytes, STATUS_AT) < 1 || digitAt(bytes, STATUS_AT) > 5) return -1
  if (!isDigitAt(bytes, STATUS_AT + 1) || !isDigitAt(bytes, STATUS_AT + 2)) return -1
  let at = STATUS_AT + 3
  if (bytes[at] === SPACE) while (isTextAt(bytes, at)) at++
  return bytes[at] === CR && bytes[at + 1] === LF ? at : -1
}

/** The standard phrase is not kept as a part of the head. */
const reasonOf = (text: string, status: number, end: number): string => {
  const standard = standardReason(status)
  const isStandard = standard?.length === end - REASON_AT && text.startsWith(standard, REASON_AT)
  return isStandard ? standard : text.slice(REASON_AT, Math.max(REASON_AT, end))
}

interface Lengths {
  contentLength: number
  chunked: boolean
  connection: string
}

/** Reads the fields that determine framing; anything that two parsers could read differently is refused (RFC 9112 §6.1, §6.3). */
const readLengths = (text: string, bytes: Uint8Array, marks: readonly number[]): Lengths => {
  const lengths: Lengths = { contentLength: -1, chunked: false, connection: '' }
  for (let i = 0; i < marks.length; i += MARKS_PER_LINE) {
    const kind = marks[i]
    if (kind !== BODY_LENGTH && kind !== BODY_CODING && kind !== CONNECTION_OPTIONS) continue
    const start = marks[i + 3] ?? 0
    const end = marks[i + 4] ?? 0
    if (kind === BODY_LENGTH) {
      if (lengths.contentLength !== -1) throw new BadResponse('bad content-length')
      lengths.contentLength = readLength(bytes, start, end)
    } else if (kind === BODY_CODING) {
      if (lengths.chunked || text.slice(start, end).toLowerCase() !== 'chunked' || !isMinor1(bytes))
        throw new BadResponse('bad transfer-encoding')
      lengths.chunked = true
    } else {
      const value = text.slice(start, end).toLowerCase()
      lengths.connection = lengths.connection === '' ? value : `${lengths.connection},${value}`
    }
  }
  if (lengths.chunked && lengths.contentLength !== -1) throw new BadResponse('content-length with transfer-encoding')
  return lengths
}

/** 1 to 15 digits. */
const readLength = (bytes: Uint8Array, start: number, end: number): number => {
  if (start === end || end - start > 15) throw new BadResponse('bad content-length')
  let length = 0
  for (let at = start; at < end; at++) {
    if (!isDigitAt(bytes, at)) throw new BadResponse('bad content-length')
    length = length * 10 + digitAt(bytes, at)
  }
  return length
}

/** No other field can revoke `close` (RFC 9112 §9.3). */
const keepsConnection = (minor: number, connection: string): boolean => {
  if (connection === '' || connection === 'keep-alive') return connection !== '' || minor === 1
  if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/.test(connection)) return false
  return minor === 1 || /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/.test(connection)
}

const framingOf = (status: number, method: string, lengths: Lengths): Framing => {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none'
  if (lengths.chunked) return 'chunked'
  if (lengths.contentLength === -1) return 'close'
  return lengths.contentLength === 0 ? 'none' : 'length'
}

/**
 * @param text begins with the head
 * @param end the end of its last field line
 * @param bytes the same as `text`
 */
export const parseHead = (
  text: string,
  method: string,
  end = text.length,
  bytes: Uint8Array = Buffer.from(text, 'latin1')
): ResponseHead => {
  const lineEnd = reasonEnd(text, bytes)
  if (lineEnd === -1) throw new BadResponse('malformed status line')
  const marks = markFieldLines(bytes, lineEnd + 2, end)
  if (marks === undefined) throw new BadResponse('malformed header line')
  return new ResponseHead(text, bytes, lineEnd, end, marks, method)
}
