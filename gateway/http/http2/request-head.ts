// Reads the head of an HTTP/2 request as that of the HTTP/1.1 request that a backend gets, by the same reader (RFC 9113 §8.3, §8.8).
import { HeadReader } from '../http1/intake.ts'
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

/**
 * What cannot be written as HTTP/1.1, or reads differently once it is, is malformed.
 * @param raw `[name, value, …]` with pseudo-fields, as received; Latin-1
 */
export const readRequestHead = (raw: readonly string[], hasBody: boolean): ParsedHead | MessageFault => {
  const pseudo = new Map<string, string>()
  const cookies: string[] = []
  const fields: string[] = []
  for (let i = 0; i < raw.length; i += 2) {
    const [name = '', value = ''] = [raw[i], raw[i + 1]]
    if (name.startsWith(':')) pseudo.set(name, value)
    else if (name === 'cookie') cookies.push(value)
    else if (CONNECTION_FIELDS.has(name) || (name === 'te' && value !== 'trailers')) return 'malformed'
    else fields.push(name, value)
  }
  const authority = pseudo.get(':authority')
  const host = fieldValue(fields, 'host')
  if (authority !== undefined && host === undefined) fields.unshift('host', authority)
  else if (authority !== undefined && host?.toLowerCase() !== authority.toLowerCase()) return 'malformed'
  // Crumbs of one field, so that it can be compressed (RFC 9113 §8.2.3).
  if (cookies.length > 0) fields.push('cookie', cookies.join('; '))
  if (hasBody && fieldValue(fields, 'content-length') === undefined) fields.push('transfer-encoding', 'chunked')
  return asHttp1(pseudo.get(':method') ?? '', pseudo.get(':path') ?? '', fields)
}

const asHttp1 = (method: string, target: string, fields: readonly string[]): ParsedHead | MessageFault => {
  let text = `${method} ${target} HTTP/1.1\r\n`
  for (let i = 0; i < fields.length; i += 2) text += `${fields[i]}: ${fields[i + 1]}\r\n`
  const bytes = Buffer.from(`${text}\r\n`, 'latin1')
  const read = new HeadReader().read(bytes)
  if (typeof read === 'string') return read
  const isSame =
    read?.end === bytes.length &&
    read.method === method &&
    read.target === target &&
    read.fields.length === fields.length &&
    read.fields.every((part, index) => part === fields[index])
  return isSame ? read : 'malformed'
}
