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
  /** Whether the upstream will keep the connection (RFC 9112 §9.3), and nothing of this response can follow on it. */
  readonly keepAlive: boolean

  constructor(text: string, fieldsEnd: number, marks: readonly number[], method: string, reason: string) {
    const lengths = readLengths(text, marks)
    const framing = framingOf(statusOf(text), method, lengths)
    this.status = statusOf(text)
    this.reason = reason
    this.text = text
    this.marks = marks
    this.fieldsEnd = fieldsEnd
    this.framing = framing
    this.contentLength = framing === 'length' ? lengths.contentLength : -1
    this.connection = lengths.connection
    this.keepAlive =
      framing !== 'close' && keepsConnection(text, lengths.connection) && !announcesMore(framing, lengths)
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

const digitAt = (text: string, at: number): number => text.charCodeAt(at) - ZERO
const isDigitAt = (text: string, at: number): boolean => digitAt(text, at) >= 0 && digitAt(text, at) <= 9
const isMinor1 = (text: string): boolean => digitAt(text, MINOR_AT) === 1
const statusOf = (text: string): number =>
  digitAt(text, STATUS_AT) * 100 + digitAt(text, STATUS_AT + 1) * 10 + digitAt(text, STATUS_AT + 2)

/** Where the reason phrase ends, which may be absent together with the blank before it; -1: no status line (RFC 9112 §4). */
const reasonEnd = (text: string): number => {
  if (!text.startsWith('HTTP/1.0 ') && !text.startsWith('HTTP/1.1 ')) return -1
  if (digitAt(text, STATUS_AT) < 1 || digitAt(text, STATUS_AT) > 5) return -1
  if (!isDigitAt(text, STATUS_AT + 1) || !isDigitAt(text, STATUS_AT + 2)) return -1
  let at = STATUS_AT + 3
  if (text.charCodeAt(at) === SPACE) while (isTextAt(text, at)) at++
  return text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === LF ? at : -1
}

/** The standard phrase is not kept as a part of the head. */
const reasonOf = (text: string, end: number): string => {
  const standard = standardReason(statusOf(text))
  const isStandard = standard?.length === end - REASON_AT && text.startsWith(standard, REASON_AT)
  return isStandard ? standard : text.slice(REASON_AT, Math.max(REASON_AT, end))
}

interface Lengths {
  contentLength: number
  chunked: boolean
  connection: string
}

/** Reads the fields that determine framing; anything that two parsers could read differently is refused (RFC 9112 §6.1, §6.3). */
const readLengths = (text: string, marks: readonly number[]): Lengths => {
  const lengths: Lengths = { contentLength: -1, chunked: false, connection: '' }
  for (let i = 0; i < marks.length; i += MARKS_PER_LINE) {
    const kind = marks[i]
    if (kind !== BODY_LENGTH && kind !== BODY_CODING && kind !== CONNECTION_OPTIONS) continue
    const start = marks[i + 3] ?? 0
    const end = marks[i + 4] ?? 0
    if (kind === BODY_LENGTH) {
      if (lengths.contentLength !== -1) throw new BadResponse('bad content-length')
      lengths.contentLength = readLength(text, start, end)
    } else if (kind === BODY_CODING) {
      if (lengths.chunked || text.slice(start, end).toLowerCase() !== 'chunked' || !isMinor1(text))
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
const readLength = (text: string, start: number, end: number): number => {
  if (start === end || end - start > 15) throw new BadResponse('bad content-length')
  let length = 0
  for (let at = start; at < end; at++) {
    if (!isDigitAt(text, at)) throw new BadResponse('bad content-length')
    length = length * 10 + digitAt(text, at)
  }
  return length
}

/** No other field can revoke `close` (RFC 9112 §9.3). */
const keepsConnection = (text: string, connection: string): boolean => {
  if (connection === '' || connection === 'keep-alive') return connection !== '' || isMinor1(text)
  if (/(?:^|,)[\t ]*close[\t ]*(?:,|$)/.test(connection)) return false
  return isMinor1(text) || /(?:^|,)[\t ]*keep-alive[\t ]*(?:,|$)/.test(connection)
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
  const lineEnd = reasonEnd(text)
  if (lineEnd === -1) throw new BadResponse('malformed status line')
  const marks = markFieldLines(text, lineEnd + 2, end)
  if (marks === undefined) throw new BadResponse('malformed header line')
  return new ResponseHead(text, end, marks, method, reasonOf(text, lineEnd))
}
