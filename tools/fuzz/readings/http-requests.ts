// Reads the requests of a connection as RFC 9112 alone defines them: strict, slow, independent of every other parser here.
import {
  type Body,
  endsConnection,
  type Field,
  isChunked,
  lineAt,
  type Message,
  readChunks,
  readFields,
  readLength,
  refusalIn,
  refuse,
  TOKEN,
  valuesOf
} from './http-lines.ts'

export interface ReadRequest extends Message {
  readonly method: string
  readonly target: string
  readonly version: string
  /** What a server must answer with 400 although it knows where the message ends: a bad Host, no form of a target. */
  readonly inadmissible: string | undefined
}

export interface Reading {
  /** Every request whose head is whole and tells where its body ends; only the last can be incomplete. */
  readonly requests: readonly ReadRequest[]
  /** Why the bytes behind `requests` are no request; undefined: they are the beginning of one, or there are none. */
  readonly refused: string | undefined
  /** Where the last complete request ends. */
  readonly end: number
}

/** @param bytes Latin-1, all that a client sent on one connection. */
export const readRequests = (bytes: string): Reading => {
  const requests: ReadRequest[] = []
  let end = 0
  const refused = refusalIn(() => {
    for (;;) {
      const head = readHead(bytes, afterEmptyLines(bytes, end))
      if (head === undefined) return
      const body = readBody(bytes, head)
      requests.push({ ...head, ...body })
      if (body.refused !== undefined) refuse(body.refused)
      if (!body.complete) return
      end = body.end
      // What follows is not read (RFC 9112 §9.6).
      if (endsConnection(head)) return
    }
  })
  return { requests, refused, end }
}

// RFC 9112 §2.2: a server ignores at least one empty line before the request line.
const afterEmptyLines = (bytes: string, start: number): number => {
  let at = start
  while (bytes.startsWith('\r\n', at)) at += 2
  return at
}

interface Head extends Omit<ReadRequest, keyof Body> {
  /** Where the body begins. */
  readonly end: number
}

/** Undefined while the head is incomplete. */
const readHead = (bytes: string, start: number): Head | undefined => {
  const found = lineAt(bytes, start, '\r\n')
  if (found === undefined) return undefined
  const [, method = '', target = '', version = ''] =
    /^([^ ]+) ([^\x00-\x20\x7f]+) (HTTP\/1\.\d)$/.exec(found.line) ?? refuse('no request line')
  if (!TOKEN.test(method)) refuse('the method is no token')
  if (method === 'CONNECT') refuse('CONNECT is for proxies that tunnel')
  const section = readFields(bytes, found.next, '\r\n')
  if (section === undefined) return undefined
  const inadmissible = targetFault(method, target) ?? hostFault(version, section.fields)
  return { method, target, version, inadmissible, ...section }
}

// §3.2: one of four forms. Characters that RFC 3986 does not allow but browsers send in a path (`|`, `{`), and other programs in a
// query (raw UTF-8), are let pass.
const targetFault = (method: string, target: string): string | undefined => {
  if (target.includes('#') || /[^!-~]/.test(target.split('?', 1)[0] ?? '')) return 'a character that no target has'
  if (target.startsWith('/') || (target === '*' && method === 'OPTIONS')) return undefined
  return /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/?#]/.test(target) ? undefined : 'no form of a request target'
}

// §3.2: exactly one in HTTP/1.1, never a second one; uri-host and an optional port (RFC 9110 §7.2).
const hostFault = (version: string, fields: readonly Field[]): string | undefined => {
  const hosts = valuesOf(fields, 'host')
  if (hosts.length > 1 || (hosts.length === 0 && version !== 'HTTP/1.0')) return 'not one Host'
  const isHost = /^(?:\[[0-9A-Fa-f:.]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::\d*)?$/.test(hosts[0] ?? '')
  return isHost ? undefined : 'no Host'
}

const readBody = (bytes: string, head: Head): Body => {
  if (isChunked(head)) return readChunks(bytes, head.end, '\r\n')
  const [length = '0', ...more] = valuesOf(head.fields, 'content-length')
  if (more.length > 0) refuse('more than one Content-Length')
  if (!/^\d+$/.test(length)) refuse('no Content-Length')
  // Exact, or beyond every message.
  return readLength(bytes, head.end, Number(length))
}
