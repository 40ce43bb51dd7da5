// Reads lines, field sections and chunked bodies as RFC 9112 alone defines them, for the models of both directions.

export type Field = readonly [name: string, value: string]

/** What the RFC does not allow, or leaves to a choice between repairing and refusing. */
class Refusal {
  readonly message: string

  // No error: a stack is dear, and refusals are what most inputs come to.
  constructor(message: string) {
    this.message = message
  }
}

export const refuse = (reason: string): never => {
  throw new Refusal(reason)
}

/** Why it was refused, if it was. */
export const refusalIn = (read: () => void): string | undefined => {
  try {
    read()
    return undefined
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}

export const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** What ends a line; after `\n` alone, a CR before it belongs to the end (§2.2). */
type LineEnd = '\r\n' | '\n'

/** A line and where the next begins; undefined while incomplete. A bare CR ends nothing, and is in no line. */
export const lineAt = (bytes: string, at: number, by: LineEnd): { line: string; next: number } | undefined => {
  const end = bytes.indexOf(by, at)
  const text = bytes.slice(at, end === -1 ? undefined : end)
  // What is left may be the first half of a CRLF.
  const line = end === -1 || by === '\n' ? text.replace(/\r$/, '') : text
  if (/[\r\n\0]/.test(line)) refuse('a control character in a line')
  return end === -1 ? undefined : { line, next: end + by.length }
}

/** §5: field-name ":" OWS field-value OWS; no line folding, no whitespace before the colon. */
export const readFields = (bytes: string, start: number, by: LineEnd) => {
  const fields: Field[] = []
  let at = start
  for (;;) {
    const found = lineAt(bytes, at, by)
    if (found === undefined) return undefined
    const { line } = found
    at = found.next
    if (line === '') return { fields, end: at }
    const colon = line.indexOf(':')
    const name = line.slice(0, Math.max(colon, 0))
    if (!TOKEN.test(name)) refuse('no field name')
    const value = trimmed(line.slice(colon + 1))
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) refuse('a control character in a field value')
    fields.push([name, value])
  }
}

export const valuesOf = (fields: readonly Field[], wanted: string): string[] =>
  fields.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value)

const trimmed = (text: string): string => text.replace(/^[ \t]+|[ \t]+$/g, '')

/** The members of a list in all fields of this name (RFC 9110 §5.6.1). */
export const listOf = (fields: readonly Field[], wanted: string): string[] =>
  valuesOf(fields, wanted).flatMap(value => value.split(',').map(trimmed))

/** Whether the connection ends with a message (§9.3). */
export const endsConnection = ({ version, fields }: { version: string; fields: readonly Field[] }): boolean => {
  const options = listOf(fields, 'connection').map(option => option.toLowerCase())
  return options.includes('close') || (version === 'HTTP/1.0' && !options.includes('keep-alive'))
}

/** What is read of a message beside its first line. */
export interface Message {
  /** Names as sent, values without the whitespace around them. */
  readonly fields: readonly Field[]
  /** Latin-1, without its framing; what has arrived of it when `complete` is false. */
  readonly body: string
  readonly trailers: readonly Field[]
  readonly complete: boolean
}

export interface Body extends Omit<Message, 'fields'> {
  readonly refused: string | undefined
  readonly end: number
}

// §7.1.1. What an extension consists of is left open: it is dropped, and ends with its line however it is read. Backends are known
// that send blanks without one.
const CHUNK_LINE = /^([0-9A-Fa-f]+)(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?$/
const LAX_CHUNK_LINE = /^([0-9A-Fa-f]+)[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/

export const readChunks = (bytes: string, start: number, by: LineEnd): Body => {
  let [body, at, trailers]: [string, number, readonly Field[] | undefined] = ['', start, undefined]
  const refused = refusalIn(() => {
    for (;;) {
      const found = lineAt(bytes, at, by)
      if (found === undefined) return
      const size = (by === '\n' ? LAX_CHUNK_LINE : CHUNK_LINE).exec(found.line)?.[1] ?? refuse('no chunk size')
      at = found.next
      const length = Number.parseInt(size, 16)
      if (length === 0) break
      body += bytes.slice(at, at + length)
      const end = lineAt(bytes.slice(0, at + length + 2), at + length, by)
      if (end === undefined) return
      if (end.line !== '') refuse('no line end after a chunk')
      at = end.next
    }
    const section = readFields(bytes, at, by)
    trailers = section?.fields
    at = section?.end ?? at
  })
  return { body, trailers: trailers ?? [], complete: trailers !== undefined, refused, end: at }
}

export const readLength = (bytes: string, start: number, length: number): Body => {
  const end = start + length
  return { body: bytes.slice(start, end), trailers: [], complete: end <= bytes.length, refused: undefined, end }
}

/** §6.3. Where the RFC lets a reader choose between repairing and refusing, this one refuses. */
export const isChunked = ({ version, fields }: { version: string; fields: readonly Field[] }): boolean => {
  const codings = valuesOf(fields, 'transfer-encoding')
  if (codings.length === 0) return false
  if (valuesOf(fields, 'content-length').length > 0) refuse('framed in two ways')
  if (version === 'HTTP/1.0') refuse('Transfer-Encoding in HTTP/1.0')
  if (codings.length > 1 || codings[0]?.toLowerCase() !== 'chunked') refuse('a transfer coding other than chunked')
  return true
}
