// Responses are framed for their clients, and written in turn; what is under way ends with its client.
import t from 'tap'
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
  const sink = {
    isDraining: false,
    isBodyDue: false,
    ...state,
    send(more: string) {
      text += more
    },
    sendBytes(before: string, bytes: Buffer, after: string) {
      text += before + bytes.toString() + after
      return true
    },
    onEnded: () => undefined,
    cut: () => undefined
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
  t.same(written({ isHead: true }, act(200, 2)), { text: `HTTP/1.1 200 OK\r\n${kept}\r\n`, keepAlive: true })
  for (const status of [204, 304]) t.notMatch(written({}, act(status)).text, /ab|chunked/, String(status))
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
