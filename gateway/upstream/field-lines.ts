// Reads field lines from bytes, and rejects them all for any invalid byte (RFC 9110 §5.5, RFC 9112 §5).

const TOKEN = 1
const VISIBLE = 2
const BLANK = 4
const LF = 10
const CR = 13
const COLON = 58

/** Results instead of an index. */
export const PARTIAL = -1
export const INVALID = -2

/** What a byte may be part of, by its code. */
const classes = new Uint8Array(256)
for (const letter of "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
  classes[letter.charCodeAt(0)] = TOKEN
}
for (let code = 0x21; code < 256; code++) if (code !== 0x7f) classes[code] = (classes[code] ?? 0) | VISIBLE
for (const blank of '\t ') classes[blank.charCodeAt(0)] = BLANK

const is = (bytes: Uint8Array, at: number, kind: number): boolean => ((classes[bytes[at] ?? 0] ?? 0) & kind) !== 0

/** Where a reason phrase or field value ends that begins at an index. */
export const skipText = (bytes: Uint8Array, from: number): number => {
  let at = from
  while (is(bytes, at, VISIBLE | BLANK)) at++
  return at
}

/** The index after the end of a line, CRLF or LF alone (RFC 9112 §2.2). */
export const afterLineEnd = (bytes: Uint8Array, at: number): number => {
  const lf = bytes[at] === CR ? at + 1 : at
  if (lf >= bytes.length) return PARTIAL
  return bytes[lf] === LF ? lf + 1 : INVALID
}

/**
 * Appends the positions of lines `token ":" OWS field-value OWS` to `marks`: where each name and value begins and ends. No
 * folding, no blank before the colon, no control byte. Returns the index after the empty line behind them, {@link PARTIAL} or
 * {@link INVALID}. Works on bytes, because V8 takes several times as long to read the characters of a string.
 */
export const markFieldLines = (bytes: Uint8Array, from: number, marks: number[]): number => {
  let at = from
  for (;;) {
    const start = at
    while (is(bytes, at, TOKEN)) at++
    if (at === start) return afterLineEnd(bytes, at)
    if (bytes[at] !== COLON) return at === bytes.length ? PARTIAL : INVALID
    const nameEnd = at++
    while (is(bytes, at, BLANK)) at++
    const valueStart = at
    let valueEnd = skipText(bytes, at)
    at = afterLineEnd(bytes, valueEnd)
    if (at < 0) return at
    while (valueEnd > valueStart && is(bytes, valueEnd - 1, BLANK)) valueEnd--
    marks.push(start, nameEnd, valueStart, valueEnd)
  }
}

/** `[name, value, …]` of marked lines. */
export const markedFields = (text: string, marks: readonly number[]): string[] => {
  const fields: string[] = []
  for (let i = 0; i < marks.length; i += 2) fields.push(text.slice(marks[i], marks[i + 1]))
  return fields
}

/** `[name, value, …]` of lines as Latin-1 text. */
export const parseFieldLines = (text: string): string[] => {
  const marks: number[] = []
  markFieldLines(Buffer.from(`${text}\r\n`, 'latin1'), 0, marks)
  return markedFields(text, marks)
}
