// Reads field lines from Latin-1 text, and rejects them all for any invalid character (RFC 9110 §5.5, RFC 9112 §5).

/** Results instead of an index. */
export const PARTIAL = -1
export const INVALID = -2

const CHECKED_LENGTH = 256
const LF = 10

const NAME = "[\\w!#$%&'*+.^`|~-]+"
const VALUE = '[\\x21-\\x7e\\x80-\\xff]+(?:[\\t ]+[\\x21-\\x7e\\x80-\\xff]+)*'

// token ":" OWS field-value OWS and the end of the line: no folding, no blank before the colon, no control character.
// No two parts can take the same characters, so a line that does not match costs no more than one that does.
const fieldLine = (lineEnd: string): RegExp => new RegExp(`(${NAME}):[\\t ]*(?:(${VALUE})[\\t ]*)?${lineEnd}`, 'y')

const STRICT_LINE = fieldLine('\\r\\n')
const LAX_LINE = fieldLine('\\r?\\n')

const WHOLE_NAME = new RegExp(`^${NAME}$`)
const WHOLE_VALUE = new RegExp(`^(?:${VALUE})?$`)

/** Whether a field can be written as a line that is read as the same field. */
export const isFieldLine = (name: string, value: string): boolean => WHOLE_NAME.test(name) && WHOLE_VALUE.test(value)

const matches = (line: RegExp, text: string): boolean => {
  line.lastIndex = 0
  return line.test(text)
}

/** Latin-1 text. Of a line without an end only its start is taken, which is enough to check it: the rest may come in tiny pieces. */
export const linesText = (bytes: Buffer, from: number, to: number): string => {
  const lf = bytes.indexOf(LF, from)
  const isComplete = lf !== -1 && lf < to
  return bytes.toString('latin1', from, isComplete ? to : Math.min(to, from + CHECKED_LENGTH))
}

/**
 * Appends `name, value` of each line to `fields`. Returns the index after the empty line behind them; {@link PARTIAL} or
 * {@link INVALID} if there is none, depending on whether more text could bring it.
 * @param isStrict lines end in CRLF; otherwise LF alone will do (RFC 9112 §2.2)
 */
export const readFieldLines = (text: string, from: number, fields: string[], isStrict = false): number => {
  const fieldLine = isStrict ? STRICT_LINE : LAX_LINE
  let at = from
  for (;;) {
    fieldLine.lastIndex = at
    const line = fieldLine.exec(text)
    if (line === null) break
    fields.push(line[1] ?? '', line[2] ?? '')
    at = fieldLine.lastIndex
  }
  if (text.startsWith('\r\n', at)) return at + 2
  if (!isStrict && text.startsWith('\n', at)) return at + 1
  // However the bytes are split, an incomplete line is checked by the same part.
  if (text.includes('\n', at)) return INVALID
  const rest = text.slice(at, at + CHECKED_LENGTH)
  const isStart = rest === '' || rest === '\r' || ['\n', '\r\n', ':\r\n'].some(end => matches(fieldLine, rest + end))
  return isStart ? PARTIAL : INVALID
}

/** `[name, value, …]` of lines that the gateway has written. */
export const parseFieldLines = (lines: string): string[] => {
  const fields: string[] = []
  for (let at = 0, end = lines.indexOf('\r\n'); end !== -1; at = end + 2, end = lines.indexOf('\r\n', at)) {
    const colon = lines.indexOf(': ', at)
    fields.push(lines.slice(at, colon), lines.slice(colon + 2, end))
  }
  return fields
}
