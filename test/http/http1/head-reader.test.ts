// SM-30, SM-22, SM-12, SM-06
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { readHead } from '../../../gateway/http/head.ts'
import { HeadReader, MAX_REQUEST_HEAD_BYTES } from '../../../gateway/http/http1/head-reader.ts'
import { bodyLengthOf } from '../../../gateway/http/http1/intake.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

const read = (text: string) => new HeadReader().read(Buffer.from(text, 'latin1'))

t.test('a head is read as it was sent, without the blanks around its values', async t => {
  const text = 'GET /a?b=%2F HTTP/1.1\r\nHost: gw \t\r\nX-Empty:\r\nX-Blank:   \r\nx-UMLAUT: \xe4\r\n\r\nrest'
  t.same(read(text), {
    method: 'GET',
    target: '/a?b=%2F',
    versionMajor: 1,
    versionMinor: 1,
    fields: ['Host', 'gw', 'X-Empty', '', 'X-Blank', '', 'x-UMLAUT', '\xe4'],
    end: text.length - 4
  })
})

t.test('a head is the same however its bytes are split, and what follows it is left alone', async t => {
  const text = '\r\n\r\nPUT /a\xe4 HTTP/1.0\r\nHost: gw\r\nA:\tb c \r\n\r\n'
  const bytes = Buffer.from(`${text}GET /b HTTP/1.1\r\n\r\n`, 'latin1')
  const expected = read(bytes.toString('latin1'))
  t.match(expected, { method: 'PUT', target: '/a\xe4', fields: ['Host', 'gw', 'A', 'b c'], end: text.length })
  for (let first = 0; first < text.length; first++)
    for (let second = first; second < text.length; second++) {
      const reader = new HeadReader()
      const early = [reader.read(bytes.subarray(0, first)), reader.read(bytes.subarray(0, second))]
      t.strictSame([...early, reader.read(bytes)], [undefined, undefined, expected], `${first}, ${second}`)
    }
})

t.test('what is no head, or too long a one, is refused; what may become one is awaited', async t => {
  const refused = [
    'GET  /a HTTP/1.1\r\n\r\n',
    'GET /a  HTTP/1.1\r\n\r\n',
    'GET\t/a HTTP/1.1\r\n\r\n',
    '\n\nGET /a HTTP/1.1\r\n\r\n',
    '\r\r\nGET /a HTTP/1.1\r\n\r\n',
    'DESCRIBE /a RTSP/1.0\r\n\r\n',
    'GET /a HTTP/1.2\r\n\r\n',
    'GET /a HTTP/1.1\nHost: a\n\n',
    'GET /a HTTP/1.1\r\nA : b\r\n\r\n',
    'GET /a HTTP/1.1\r\nA: b\r\n c\r\n\r\n',
    'GET /a HTTP/1.1\r\nA: b\0c\r\n\r\n',
    'GET /a HTTP/1.1\r\nA: b\rC: d\r\n\r\n',
    'NONSENSE\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'get /a HTTP/1.1\r\n\r\n',
    'FOO /a HTTP/1.1\r\n\r\n',
    'GET a HTTP/1.1\r\n\r\n',
    'GET ?a HTTP/1.1\r\n\r\n',
    'GET a:80 HTTP/1.1\r\n\r\n',
    'GET HTTP/1.1\r\n\r\n',
    'GET /a HTTP/1.1\r\nA: b\n\r\n',
    'GET /a HTTP/1.1\r\n: b\r\n\r\n',
    '\x16\x03\x01'
  ]
  for (const text of refused) t.equal(read(text), 'malformed', JSON.stringify(text))
  t.match(read('\r\nGET /a HTTP/1.1\r\n\r\n'), { end: 21 }, 'an empty line before it is skipped (RFC 9112 §2.2)')
  t.equal(read('GET /a HT'), undefined)
  const longest = `GET /a HTTP/1.1\r\nA: ${'a'.repeat(MAX_REQUEST_HEAD_BYTES - 24)}\r\n\r\n`
  t.match(read(longest), { end: MAX_REQUEST_HEAD_BYTES })
  t.equal(read(longest.replace('A: ', 'A: a')), 'too-large')
})

t.test('of a long line that arrives byte by byte only the start is read each time', async t => {
  const lines = ['GET /', 'A: ', 'A'].map(start => start + 'a'.repeat(4000))
  const bytes = Buffer.from(`${lines[0]} HTTP/1.1\r\n${lines[1]}\r\n${lines[2]}:\r\n\r\n`)
  const reads = t.capture(Buffer.prototype, 'toString', Buffer.prototype.toString)
  const reader = new HeadReader()
  for (let length = 1; length < bytes.length; length++) t.equal(reader.read(bytes.subarray(0, length)), undefined)
  t.match(reader.read(bytes), { end: bytes.length })
  const read = reads().reduce((sum, call) => sum + ('returned' in call ? String(call.returned).length : 0), 0)
  t.ok(read < 300 * bytes.length, `${read} characters`)
})

t.test('an incomplete head holds little more than its bytes', async t => {
  const bytes = Buffer.from(`GET / HTTP/1.1\r\n${Array.from({ length: 2000 }, (_, i) => `${i}:b\r\n`).join('')}`)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  const readers = Array.from({ length: 200 }, () => new HeadReader())
  for (const reader of readers) t.equal(reader.read(bytes), undefined)
  collectGarbage()
  const each = (process.memoryUsage().heapUsed - before) / readers.length
  t.ok(each < bytes.length, `${Math.round(each)} bytes`)
  t.match(readers[0]?.read(Buffer.from(`${bytes}\r\n`)), { method: 'GET', fields: { length: 4000 } })
})

t.test('a body whose end two servers could find in two places is refused', async t => {
  const lengthOf = (...fields: string[]) => bodyLengthOf(readHead(fields))
  t.equal(lengthOf(), 0)
  t.equal(lengthOf('Content-Length', '007'), 7)
  t.equal(lengthOf('Transfer-Encoding', 'Chunked'), -3)
  t.equal(lengthOf('Transfer-Encoding', 'gzip,\tchunked'), -3, 'refused by another step')
  for (const value of ['', '+1', '-1', '1,1', '1, 1', '0x1', '1e3', ' 1', '9007199254740993'])
    t.equal(lengthOf('Content-Length', value), -1, JSON.stringify(value))
  t.equal(lengthOf('Content-Length', '1', 'content-length', '1'), -1)
  t.equal(lengthOf('Content-Length', '1', 'Transfer-Encoding', 'chunked'), -1)
  for (const value of ['', 'xchunked', 'chunked, gzip', 'chunked;q=1', 'identity'])
    t.equal(lengthOf('Transfer-Encoding', value), -1, JSON.stringify(value))
})
