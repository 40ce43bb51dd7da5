// Reads field lines from Latin-1 text, and rejects them all for any invalid character (RFC 9110 §5.5, RFC 9112 §5).

/** Results instead of an index. */
export const PARTIAL = -1
export const INVALID = -2

// token ":" OWS field-value OWS, then CRLF or LF alone (RFC 9112 §2.2): no folding, no blank before the colon, no control character.
// No two parts can take the same characters, so a line that does not match costs no more than one that does.
const FIELD_LINE =
  /([\w!#$%&'*+.^`|~-]+):[\t ]*(?:([\x21-\x7e\x80-\xff]+(?:[\t ]+[\x21-\x7e\x80-\xff]+)*)[\t ]*)?\r?\n/y

const isFieldLine = (text: string): boolean => {
  FIELD_LINE.lastIndex = 0
  return FIELD_LINE.test(text)
}

/**
 * Appends `name, value` of each line to `fields`. Returns the index after the empty line behind them; {@link PARTIAL} or
 * {@link INVALID} if there is none, depending on whether more text could bring it.
 */
export const readFieldLines = (text: string, from: number, fields: string[]): number => {
  let at = from
  for (;;) {
    FIELD_LINE.lastIndex = at
    const line = FIELD_LINE.exec(text)
    if (line === null) break
    fields.push(line[1] ?? '', line[2] ?? '')
    at = FIELD_LINE.lastIndex
  }
  if (text.startsWith('\r\n', at)) return at + 2
  if (text.startsWith('\n', at)) return at + 1
  const rest = text.slice(at)
  const isStart = rest === '' || rest === '\r' || isFieldLine(`${rest}\n`) || isFieldLine(`${rest}:\n`)
  return isStart ? PARTIAL : INVALID
}

/** `[name, value, …]` of lines. */
export const parseFieldLines = (lines: string): string[] => {
  const fields: string[] = []
  readFieldLines(`${lines}\r\n`, 0, fields)
  return fields
}
