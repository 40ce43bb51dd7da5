// Responses are framed for their clients, and written in turn; chunked bodies are read in linear time. What is under way ends with its client.
// SM-22, SM-12, SM-06
import t from 'tap'
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../../gateway/http/chunked-body.ts'
import { Http1Response } from '../../gateway/http/http1/response.ts'
import { Outbox } from '../../gateway/http/outbox.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { onThrown } from '../support/thrown.ts'

t.test('what is under way is aborted once, when the client is gone or its body is malformed', async t => {
  for (const end of ['onClosed', 'onBodyFault'] as const) {
    const exchange = exchangeOf()
    let aborted = 0
    exchange.underway = { abort: () => void aborted++ }
    exchange[end]()
    exchange[end]()
    t.equal(aborted, 1, end)
  }
})

/** What a response writes, and whether its connection stays open. */
const written = (
  asked: { isHead?: boolean; versionMinor?: number },
  act: (response: Http1Response) => void,
  state: { isDraining?: boolean; isBodyDue?: boolean } = {}
) => {
  let text = ''
  const outbox = {
    send(more: string) {
      text += more
    },
    sendBytes(before: string, bytes: Buffer, after: string) {
      text += before + bytes.toString() + after
      return true
    }
  }
  const sink = {
    isDraining: false,
    isBodyDue: false,
    ...state,
    outbox,
    onEnded: () => undefined,
    destroy: () => undefined
  }
  const response = new Http1Response(sink, { isHead: false, versionMinor: 1, keepAlive: true, ...asked })
  act(response)
  return { text, keepAlive: response.keepAlive }
}

t.test('a response is framed for its client, and has a body only where it may (RFC 9112 §6)', async t => {
  const act =
    (status: number, length = -1) =>
    (response: Http1Response) => {
      response.begin({ status, headers: ['Date', 'x'] }, length)
      response.write(Buffer.from('ab'))
      response.end()
    }
  const kept = 'Date: x\r\nconnection: keep-alive\r\nkeep-alive: timeout=75\r\n'
  t.same(written({}, act(200)), {
    text: `HTTP/1.1 200 OK\r\n${kept}transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n`,
    keepAlive: true
  })
  t.same(written({ versionMinor: 0 }, act(200)), {
    text: 'HTTP/1.1 200 OK\r\nDate: x\r\nconnection: close\r\n\r\nab',
    keepAlive: false
  })
  t.equal(written({}, act(200, 2)).text, `HTTP/1.1 200 OK\r\n${kept}\r\nab`)
  const whole = (response: Http1Response) => response.whole({ status: 200, headers: ['Date', 'x'] }, 'ab')
  t.same(written({ isHead: true }, whole), { text: `HTTP/1.1 200 OK\r\n${kept}\r\n`, keepAlive: true })
  for (const state of [{ isDraining: true }, { isBodyDue: true }])
    t.match(written({}, act(200), state), { text: /\r\nconnection: close\r\n/, keepAlive: false })
})

t.test('while a client takes nothing, one write waits for its turn', async t => {
  const writes: string[] = []
  const outlet = {
    writableLength: 1,
    write: (data: string | Uint8Array) => writes.push(data.length === 0 ? 'turn' : 'bytes') > 0,
    cork: () => undefined,
    uncork: () => undefined
  }
  const outbox = new Outbox(outlet as never, { flushSoon: () => undefined, onTaken: () => undefined, onThrown })
  for (let i = 0; i < 3; i++) t.equal(outbox.sendBytes('', Buffer.alloc(10_000), ''), false)
  t.same(writes, ['bytes', 'turn', 'bytes', 'bytes'])
})

t.test('what one read brings of a chunked body is passed on as one piece, however tiny its chunks are', async t => {
  // Each piece is a write of its own to the backend, and thousands of them hold megabytes while it does not read.
  const reader = new ChunkedBody(true)
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
})

t.test('of long trailers that arrive byte by byte only one line is read each time', async t => {
  const reads = t.capture(Buffer.prototype, 'toString', Buffer.prototype.toString)
  const reader = new ChunkedBody(true)
  const take = (text: string) => {
    let end = INCOMPLETE
    for (const byte of Buffer.from(text)) end = reader.take(Buffer.from([byte]), () => undefined)
    return end
  }
  t.equal(take(`0\r\nA: ${'t'.repeat(3000)}\r\n${'B:\r\n'.repeat(1000)}\r`), INCOMPLETE)
  t.equal(take('\n'), 1)
  t.same(reader.trailers.slice(0, 4), ['A', 't'.repeat(3000), 'B', ''])
  t.equal(reader.trailers.length, 2002)
  const read = reads().reduce((sum, call) => sum + ('returned' in call ? String(call.returned).length : 0), 0)
  t.ok(read < 300 * 7000, `${read} characters`)
  const long = new ChunkedBody(true)
  const ends = Array.from({ length: 2100 }, (_, i) =>
    long.take(Buffer.from(i === 0 ? '0\r\n' : 'B:\r\n'), () => undefined)
  )
  t.equal(ends.indexOf(MALFORMED), 2049, 'all lines together are bounded')
})
