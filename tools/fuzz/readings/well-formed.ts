// Makes up well-formed HTTP/1.1 messages with everything in them that parsers may disagree about, and such with one slip.
import type { Random } from '../mutate.ts'

const METHODS = ['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'OPTIONS', 'PATCH', 'PROPFIND', 'QUERY', 'M-SEARCH']
const TARGETS = ['/', '/a', '/a/b?c=d', '/%41?x', 'http://a/b', '/a;b', '/{x}|', '/a?b?c', '/a?b=\xc3\xa7', '/..', '*']
const FIELDS = [
  ...['Accept: */*', 'x:', 'X-Empty: ', 'Cookie: a=b; c="d"', 'X-T:\t v \t', 'X-B: \x80\xff', 'Connection: keep-alive'],
  ...['Connection: x, close', 'Connection: close', 'Upgrade: websocket', 'Connection: Upgrade', 'Expect: 100-continue'],
  ...['TE: trailers', 'Trailer: T', "!#$%&'*+-.^_`|~: 1", 'Content-Type: a/b; c="\\""', 'Authorization: Bearer x']
]
const EXTENSIONS = ['', '', '', ';a', ';a=b', ';a="b;\\""', ' ;a = b', ';a;b=c']
const TRAILERS = ['', '', 'T: 1\r\n', 'X-User-Id: 1\r\nT:\r\n']
const DATA = ['', 'x', 'hello', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', '0\r\n\r\n', '\r\n', '\0\xff']

const chunkedBody = (random: Random): string => {
  const chunks = random
    .some(DATA, 3)
    .filter(data => data !== '')
    .map(data => `${random.pick(['', '0', '00'])}${data.length.toString(16)}${random.pick(EXTENSIONS)}\r\n${data}\r\n`)
  return `${chunks.join('')}${random.pick(['0', '000'])}${random.pick(EXTENSIONS)}\r\n${random.pick(TRAILERS)}\r\n`
}

/** The fields that frame a body, and the body. */
const framed = (random: Random): readonly [fields: string[], body: string] => {
  const kind = random.below(4)
  if (kind === 0)
    return [[random.pick(['Transfer-Encoding: chunked', 'transfer-encoding:CHUNKED'])], chunkedBody(random)]
  if (kind === 1) return [[], '']
  const data = random.pick(DATA)
  return [[`Content-Length: ${random.pick(['', '0', '000'])}${data.length}`], data]
}

export const wellFormedRequest = (random: Random): string => {
  const [framing, body] = framed(random)
  const version = random.below(12) === 0 ? 'HTTP/1.0' : 'HTTP/1.1'
  const fields = [random.pick(['Host: a', 'hOST:[::1]:80', 'Host: a.b:1']), ...random.some(FIELDS, 3), ...framing]
  const lines = random.below(2) === 0 ? fields : fields.toReversed()
  const before = random.below(8) === 0 ? '\r\n' : ''
  return `${before}${random.pick(METHODS)} ${random.pick(TARGETS)} ${version}\r\n${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Instead of a line end: what a reader that looks at half of it takes for one. */
const BROKEN_ENDS = ['\r', '\n', '\rx', 'x\n', '\n\r', '\r\r\n', '\r0', '']

/** Every other time with one line end broken, and nothing else: blind mutations rarely leave the rest whole. */
export const withSlip = (text: string, random: Random): string => {
  const ends = [...text.matchAll(/\r\n/g)]
  const end = ends[random.below(2 * ends.length)]
  return end === undefined ? text : text.slice(0, end.index) + random.pick(BROKEN_ENDS) + text.slice(end.index + 2)
}

const STATUSES = [
  '200 OK',
  '204 No Content',
  '304 Not Modified',
  '404',
  '500 ',
  '206 \x80',
  '100 Continue',
  '103 Early Hints'
]
const RESPONSE_FIELDS = [
  ...['Server: x', 'x:', 'Set-Cookie: a=b', 'Connection: keep-alive', 'Connection: x, close', 'Connection: close'],
  ...['Trailer: T', 'Location: /', 'Content-Type: text/event-stream', 'X-T:\t v \t', 'Keep-Alive: timeout=5']
]

export const wellFormedResponse = (random: Random): string => {
  const status = random.pick(STATUSES)
  const isBare = /^(?:1|204|304)/.test(status)
  const [framing, body] = isBare ? [[], ''] : framed(random)
  const version = random.below(12) === 0 ? 'HTTP/1.0' : 'HTTP/1.1'
  const fields = [...random.some(RESPONSE_FIELDS, 3), ...framing]
  return `${version} ${status}\r\n${fields.map(field => `${field}\r\n`).join('')}\r\n${body}`
}
