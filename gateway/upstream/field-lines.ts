// Parses the field lines of a response head in place, and rejects the whole head for any invalid byte.
import { responseFieldKind } from './headers/response-fields.ts'

const TOKEN = 1
const VISIBLE = 2
const BLANK = 4
const TAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58

/** What a byte may be part of, by its code. */
const classes = new Uint8Array(256)
for (const letter of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
  classes[letter.charCodeAt(0)] = TOKEN
}
for (let code = 0x21; code < 256; code++) if (code !== 0x7f) classes[code] = (classes[code] ?? 0) | VISIBLE
classes[TAB] = BLANK
classes[SPACE] = BLANK

const is = (bytes: Uint8Array, at: number, kind: number): boolean => ((classes[bytes[at] ?? 0] ?? 0) & kind) !== 0

/** Whether a byte may be part of a reason phrase or a field value (RFC 9112 §4, RFC 9110 §5.5). */
export const isTextAt = (bytes: Uint8Array, at: number): boolean => is(bytes, at, VISIBLE | BLANK)

/** Of each line: the kind of its name, where it starts, where its name ends, where its value starts and ends. */
export const MARKS_PER_LINE = 5

/**
 * Marks lines `token ":" OWS field-value OWS CRLF` from an index to another (RFC 9110 §5.5, RFC 9112 §5): no folding, no
 * blank before the colon, no control byte. Undefined if any line is malformed. Linear in the length for any input. V8 takes
 * several times as long to read the characters of a string.
 */
export const markFieldLines = (bytes: Uint8Array, from: number, end: number): number[] | undefined => {
  const marks: number[] = []
  let at = from
  while (at < end) {
    const start = at
    while (is(bytes, at, TOKEN)) at++
    if (at === start || bytes[at] !== COLON) return undefined
    const nameEnd = at++

    while (is(bytes, at, BLANK)) at++
    const valueStart = at
    while (is(bytes, at, VISIBLE | BLANK)) at++
    if (bytes[at] !== CR || bytes[at + 1] !== LF) return undefined
    let valueEnd = at
    while (valueEnd > valueStart && is(bytes, valueEnd - 1, BLANK)) valueEnd--
    at += 2
    marks.push(responseFieldKind(bytes, start, nameEnd), start, nameEnd, valueStart, valueEnd)
  }
  return at === end ? marks : undefined
}

/** `[name, value, …]` of marked lines. */
export const markedFields = (text: string, marks: readonly number[]): string[] => {
  const fields: string[] = []
  for (let i = 0; i < marks.length; i += MARKS_PER_LINE)
    fields.push(text.slice(marks[i + 1], marks[i + 2]), text.slice(marks[i + 3], marks[i + 4]))
  return fields
}

/** `[name, value, …]` of such lines as Latin-1 text; undefined if any is malformed. */
export const parseFieldLines = (text: string): string[] | undefined => {
  const bytes = Buffer.from(text, 'latin1')
  const marks = markFieldLines(bytes, 0, bytes.length)
  // A copy: parts of `text` would keep a whole response in memory.
  return marks === undefined ? undefined : markedFields(bytes.toString('latin1'), marks)
}
