// SM-30, SM-22, SM-12, SM-06
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import {
  INCOMPLETE,
  Llhttp,
  MALFORMED,
  MAX_REQUEST_HEAD_BYTES,
  TOO_LARGE
} from '../../../gateway/http/server/llhttp.ts'

const ROOT = join(import.meta.dirname, '../../..')
const llhttp = new Llhttp()
const read = (text: string) => llhttp.readHead(Buffer.from(text, 'latin1'))

t.test('llhttp is the build that was judged: its package pinned, its file there, its interface whole', async t => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const { version } = JSON.parse(readFileSync(join(ROOT, 'node_modules/undici/package.json'), 'utf8')) as {
    version: string
  }
  t.equal(
    dependencies.undici,
    '8.12.4',
    'another version is taken by hand, after the tests of test/http and the fuzzers'
  )
  t.equal(version, dependencies.undici)
  const { default: bytes } = await import('undici/lib/llhttp/llhttp_simd-wasm.js')
  const names = WebAssembly.Module.exports(new WebAssembly.Module(bytes)).map(({ name }) => name)
  for (const name of [
    'memory',
    '_initialize',
    'malloc',
    'llhttp_alloc',
    'llhttp_free',
    'llhttp_reset',
    'llhttp_resume',
    'llhttp_execute',
    'llhttp_get_error_pos',
    'llhttp_get_http_major',
    'llhttp_get_http_minor'
  ])
    t.ok(names.includes(name), name)
})

t.test('a head is read as it was sent, without the blanks around its values', async t => {
  const text = 'GET /a?b=%2F HTTP/1.1\r\nHost: gw \t\r\nX-Empty:\r\nX-Blank:   \r\nx-UMLAUT: \xe4\r\n\r\nrest'
  t.equal(read(text), text.length - 4)
  t.same(llhttp.takeHead(), {
    method: 'GET',
    target: '/a?b=%2F',
    versionMajor: 1,
    versionMinor: 1,
    keepAlive: true,
    fields: ['Host', 'gw', 'X-Empty', '', 'X-Blank', '', 'x-UMLAUT', '\xe4']
  })
})

t.test('a connection stays open unless one of its options says close, whatever blanks stand around it', async t => {
  const staysOpen = (version: string, ...connection: readonly string[]) => {
    read(`GET /a HTTP/${version}\r\n${connection.map(value => `Connection:${value}\r\n`).join('')}Host: gw\r\n\r\n`)
    return llhttp.takeHead().keepAlive
  }
  const closed = [' close', ' close \t', '\tClose\t', ' x,\tclose\t, y', ' close\t,upgrade', ' keep-alive, close\t']
  for (const value of closed) {
    t.notOk(staysOpen('1.1', value), JSON.stringify(value))
    t.notOk(staysOpen('1.1', value, ' Upgrade'), `${JSON.stringify(value)}, then another field`)
    t.notOk(staysOpen('1.0', value, ' keep-alive'), `1.0: ${JSON.stringify(value)}`)
  }
  for (const value of ['', ' keep-alive', ' Keep-Alive\t', ' x-close', ' close-not', ' closed, upgrade'])
    t.ok(staysOpen('1.1', value), JSON.stringify(value))
  t.ok(staysOpen('1.0', ' keep-alive'))
  t.notOk(staysOpen('1.0', ' upgrade'))
})

t.test('a field that two copied parts share is one field', async t => {
  for (let length = 1990; length < 2060; length++) {
    const text = `GET /${'p'.repeat(length - 60)} HTTP/1.1\r\nLong-Name-Of-A-Field: value of it\r\nX: ${'v'.repeat(300)}\r\n\r\n`
    t.equal(read(text), text.length)
    t.same(llhttp.takeHead().fields, ['Long-Name-Of-A-Field', 'value of it', 'X', 'v'.repeat(300)])
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
    'GET /a HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    'GET /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n',
    'NONSENSE\r\n\r\n',
    '\x16\x03\x01'
  ]
  for (const text of refused) t.equal(read(text), MALFORMED, JSON.stringify(text))
  t.equal(read('\r\nGET /a HTTP/1.1\r\n\r\n'), 21, 'an empty line before it is skipped (RFC 9112 §2.2)')
  t.equal(read('GET /a HT'), INCOMPLETE)
  const longest = `GET /a HTTP/1.1\r\nA: ${'a'.repeat(MAX_REQUEST_HEAD_BYTES - 24)}\r\n\r\n`
  t.equal(read(longest), MAX_REQUEST_HEAD_BYTES)
  t.equal(read(longest.replace('A: ', 'A: a')), TOO_LARGE)
})

t.test('a chunked body is the same however its bytes are split, and its framing is bounded', async t => {
  const body = '5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
  for (let cut = 0; cut < body.length; cut++) {
    const reader = llhttp.createChunkedReader()
    const bytes = Buffer.from(`${body}GET`)
    let data = ''
    const onData = (part: Buffer) => {
      data += part.toString()
    }
    t.equal(reader.take(bytes.subarray(0, cut), onData), INCOMPLETE)
    t.equal(reader.take(bytes.subarray(cut), onData), body.length - cut)
    t.equal(data, 'hello world')
    reader.release()
  }
  const ends = (text: string) => {
    const reader = llhttp.createChunkedReader()
    const end = reader.take(Buffer.from(text), () => undefined)
    reader.release()
    return end
  }
  t.equal(ends(`1;${'e'.repeat(17_000)}`), MALFORMED)
  t.equal(ends(`0\r\nA: ${'t'.repeat(17_000)}`), MALFORMED)
  t.equal(ends(`1\r\na\r\n1;${'e'.repeat(17_000)}\r\nb\r\n`), MALFORMED, 'between two chunks')
  t.equal(ends('1\r\na\r\n'.repeat(20_000)), INCOMPLETE, 'many small chunks are none of that')
  for (const text of ['0x2\r\nab', '-2\r\n', 'g\r\n', '2\nab', '2\r\nabc\r\n', '10000000000000002\r\n'])
    t.equal(ends(text), MALFORMED, JSON.stringify(text))
})

t.test('what one read brings of a chunked body is passed on as one piece, however tiny its chunks are', async t => {
  // Each piece is a write of its own to the backend, and thousands of them hold megabytes while it does not read.
  const reader = llhttp.createChunkedReader()
  const parts: string[] = []
  const letters = Array.from({ length: 10_000 }, (_, i) => 'abc'.charAt(i % 3))
  const text = letters.map(letter => `1\r\n${letter}\r\n`).join('')
  const bytes = Buffer.from(`${text}0\r\n\r\nGET`)
  t.equal(
    reader.take(bytes, part => parts.push(part.toString())),
    text.length + 5
  )
  t.same(parts, [letters.join('')])
  t.equal(bytes.toString('latin1', text.length + 5), 'GET', 'what follows is as it was')
  reader.release()
})

t.test('a body that is given up while it is read leaves nothing behind', t => {
  const bytes = Buffer.from('1\r\na\r\n')
  const kept = () => {
    const { external, arrayBuffers } = process.memoryUsage()
    return external - arrayBuffers
  }
  const before = kept()
  for (let i = 0; i < 100_000; i++) {
    const reader = llhttp.createChunkedReader()
    reader.take(bytes, () => reader.release())
  }
  t.ok(kept() - before < 1_000_000, `${kept() - before} bytes`)
  t.end()
})
