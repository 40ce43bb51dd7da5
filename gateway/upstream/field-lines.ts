// Parses the field lines of a head into names and values, and rejects the whole head for any invalid byte.

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

const is = (text: string, at: number, kind: number): boolean => ((classes[text.charCodeAt(at)] ?? 0) & kind) !== 0

/**
 * `[name, value, …]` of a Latin-1 text of lines `token ":" OWS field-value OWS CRLF`, from an index to another (RFC 9110
 * §5.5, RFC 9112 §5): no folding, no blank before the colon, no control byte. Undefined if any line is malformed. Linear
 * in the length of the text for any input. V8 takes twice as long on substrings, which is why `end` exists.
 */
export const parseFieldLines = (text: string, from: number, end = text.length): string[] | undefined => {
  const fields: string[] = []
  let at = from
  while (at < end) {
    const nameStart = at
    while (is(text, at, TOKEN)) at++
    if (at === nameStart || text.charCodeAt(at) !== COLON) return undefined
    const nameEnd = at++

    while (is(text, at, BLANK)) at++
    const valueStart = at
    while (is(text, at, VISIBLE | BLANK)) at++
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) return undefined
    let valueEnd = at
    while (valueEnd > valueStart && is(text, valueEnd - 1, BLANK)) valueEnd--
    at += 2
    fields.push(text.slice(nameStart, nameEnd), text.slice(valueStart, valueEnd))
  }
  return at === end ? fields : undefined
}
