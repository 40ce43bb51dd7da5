// Reads the head of an HTTP/2 request as that of the HTTP/1.1 request that a backend gets, by the same rules (RFC 9113 §8.3, §8.8).
import { isFieldLine } from '../field-lines.ts'
import { isRequestLine, MAX_REQUEST_HEAD_BYTES } from '../http1/intake.ts'
import { fieldValue, type ParsedHead } from '../request.ts'
import type { MessageFault } from '../served-connection.ts'

/** Fields that HTTP/2 does not have (RFC 9113 §8.2.2). */
export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'upgrade'
])

/** RFC 9113 §8.3.1. */
const PATH = /^[/*][^\x00-\x20\x7f]*$/

/** What cannot be written as HTTP/1.1, or reads differently then, is malformed. @param raw `[name, value, …]` as received; Latin-1 */
export const readRequestHead = (raw: readonly string[], hasBody: boolean): ParsedHead | MessageFault => {
  const fields: string[] = []
  let method = ''
  let target = ''
  let authority: string | undefined
  let cookie: string | undefined
  let values = 0
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]]
    // References to one entry of the table cost a byte each (RFC 7541 §7.3), so nothing is joined before they are counted.
    values += value.length
    if (values > MAX_REQUEST_HEAD_BYTES) return 'too-large'
    if (name === ':method') method = value
    else if (name === ':path') target = value
    else if (name === ':authority') authority = value
    // Crumbs of one field, so that it can be compressed (RFC 9113 §8.2.3).
    else if (name === 'cookie') cookie = cookie ? `${cookie}${value && '; '}${value}` : value
    else if (CONNECTION_FIELDS.has(name) || (name === 'te' && value.toLowerCase() !== 'trailers')) return 'malformed'
    else if (name !== ':scheme') fields.push(name, value)
  }
  const host = fieldValue(fields, 'host')
  if (authority !== undefined && host === undefined) fields.unshift('host', authority)
  else if (authority !== undefined && normalized(host) !== normalized(authority)) return 'malformed'
  if (cookie !== undefined) fields.push('cookie', cookie)
  if (hasBody && fieldValue(fields, 'content-length') === undefined) fields.push('transfer-encoding', 'chunked')
  return checked({ method, target, versionMajor: 1, versionMinor: 1, fields })
}

/** As hosts of https are compared (RFC 9113 §8.3.1, RFC 3986 §6.2). */
const normalized = (host = ''): string => host.toLowerCase().replace(/:443$/, '')

const checked = (head: ParsedHead): ParsedHead | MessageFault => {
  const { method, target, fields } = head
  if (!isRequestLine(method, target) || !PATH.test(target)) return 'malformed'
  let length = `${method} ${target} HTTP/1.1\r\n\r\n`.length
  for (let i = 0; i < fields.length; i += 2) {
    const [name = '', value = ''] = [fields[i], fields[i + 1]]
    if (!isFieldLine(name, value)) return 'malformed'
    length += name.length + ': '.length + value.length + '\r\n'.length
  }
  return length > MAX_REQUEST_HEAD_BYTES ? 'too-large' : head
}
