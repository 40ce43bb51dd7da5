// Heads of requests and responses are read and written right, without a connection; a refusal finds its words.

import t from 'tap'
import * as errors from '../../gateway/errors.ts'
import { answerRefusal, secondsLeft, wantsPage } from '../../gateway/http/answer.ts'
import {
  createCrossOrigins,
  crossOriginFields,
  PREFLIGHT_METHODS,
  preflightFields
} from '../../gateway/http/cross-origin.ts'
import { headerKind } from '../../gateway/http/fields.ts'
import { forwardsLeft, readHead } from '../../gateway/http/head.ts'
import { Outbox } from '../../gateway/http/http1/outbox.ts'
import { Http1Response } from '../../gateway/http/http1/response.ts'
import { isDated } from '../../gateway/http/http1/response-head.ts'
import { readBody } from '../../gateway/http/read-body.ts'
import { fieldValue, fieldValues } from '../../gateway/http/request.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { onThrown } from '../support/thrown.ts'

const headOf = (...fields: string[]) => readHead(fields)

t.test('fields are counted, joined and found by name', async t => {
  t.equal(headOf('Host', 'a', 'HOST', 'b').hosts, 2)
  t.equal(headOf('X-Forwarded-For', '192.0.2.1', 'x-forwarded-for', '192.0.2.2').forwardedFor, '192.0.2.1, 192.0.2.2')
  const fields = ['A', '1', 'b', '2', 'a', '']
  t.equal(fieldValue(fields, 'a'), '1, ')
  t.equal(fieldValue(fields, 'b'), '2')
  t.same(fieldValues(fields, 'a'), ['1', ''])
  t.equal(isDated(['X-Date', 'x', 'DATE', 'x']), true)
  t.equal(isDated(['X-Date', 'x', 'Dada', 'x']), false)
})

t.test('Max-Forwards counts for OPTIONS and TRACE alone (RFC 9110 §7.6.2)', async t => {
  const head = headOf('Max-Forwards', '3')
  t.same(
    ['OPTIONS', 'TRACE', 'GET'].map(method => forwardsLeft(method, head)),
    [3, 3, undefined]
  )
})

t.test('a request id is kept if a trusted proxy sent it', async t => {
  const fields = ['Host', 'gw', 'X-Request-Id', 'from-the-proxy-1']
  t.equal(exchangeOf({ fields, trusted: true }).requestId, 'from-the-proxy-1')
  t.not(exchangeOf({ fields }).requestId, 'from-the-proxy-1')
})

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

t.test('a limit is over in a second at the soonest', async t => {
  const verdict = { allowed: true, limit: 1, remaining: 0 }
  t.same(
    [0, 1, 1000, 1001].map(resetMs => secondsLeft({ ...verdict, resetMs })),
    [1, 1, 1, 2]
  )
})

t.test('fields of one hop and those that name the client stay here, in any spelling; unknown ones pass', async t => {
  const kinds = (names: string[]) => names.map(name => headerKind(name))
  const dropped = [
    'Trailer',
    'Keep-Alive',
    'Forwarded',
    'X_Real_Ip',
    'True-Client-IP',
    'Remote.User',
    'X-Forwarded-For.'
  ]
  t.same(
    kinds(dropped),
    dropped.map(() => 'drop')
  )
  t.same(kinds(['X-Own', 'Accept-Language', 'HOST']), ['pass', 'pass', 'host'])
})

t.test('a page of another origin may send the usual methods, the one that it asks for, and the fields', async t => {
  const asking = (method: string) =>
    preflightFields(
      exchangeOf({
        method: 'OPTIONS',
        fields: [
          'Origin',
          'https://a',
          'Access-Control-Request-Method',
          method,
          'Access-Control-Request-Headers',
          'x-a'
        ]
      })
    )
  const rest = ['access-control-max-age', '600', 'access-control-allow-headers', 'x-a']
  t.same(asking('PUT'), ['access-control-allow-methods', PREFLIGHT_METHODS, ...rest])
  t.same(asking('propfind'), ['access-control-allow-methods', `${PREFLIGHT_METHODS}, PROPFIND`, ...rest])
})

t.test('each refusal of a flood tells what is left at that time', async t => {
  const origins = createCrossOrigins('https://gw.example', 'https://gw.example', [])
  const options = { origins, page: { policy: '', html: () => '' } }
  const error = new errors.RateLimited({})
  const left = (remaining: number) => {
    const exchange = exchangeOf()
    exchange.limit = { allowed: false, limit: 5, remaining, resetMs: 1000 }
    const heads: string[] = []
    Object.assign(exchange.response, { whole: ({ headers }: { headers: string[] }) => heads.push(headers.join(' ')) })
    answerRefusal(exchange, error, options)
    return /x-ratelimit-remaining (\d)/.exec(heads[0] ?? '')?.[1]
  }
  t.same([0, 0, 1].map(left), ['0', '0', '1'])
})

t.test('only a field of this very name is the backend’s own permission', async t => {
  const origins = createCrossOrigins('https://gw.example', 'https://app.example', [])
  const exchange = exchangeOf({ fields: ['Host', 'gw', 'Origin', 'https://app.example'], route: {} })
  t.same(crossOriginFields(exchange, 'A: b\r\nAccess-Control-Allow-Origin: *\r\n', origins), [])
  t.match(crossOriginFields(exchange, 'X-Access-Control-Allow-Origin: *\r\n', origins), ['access-control-allow-origin'])
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

t.test('a navigation is what accepts HTML', async t => {
  const accepts = (accept: string) => wantsPage(exchangeOf({ fields: ['Host', 'gw', 'Accept', accept] }))
  t.same(['text/html', 'a/b, text/html;q=1', 'text/html5', 'x-text/html'].map(accepts), [true, true, false, false])
})

t.test('a body that does not arrive in time, or is too large, is refused', async t => {
  const receiving = (...fields: string[]) => {
    const exchange = exchangeOf({ method: 'POST', fields: ['Host', 'gw', ...fields] })
    exchange.request.isComplete = false
    return exchange
  }
  const slow = { code: 'GW_BAD_REQUEST', statusCode: 408, reason: 'body-too-slow' }
  await t.rejects(readBody(receiving(), { maxBytes: 10, timeoutMs: 1 }), slow)
  const large = { code: 'GW_BODY_TOO_LARGE', reason: 'body-too-large' }
  await t.rejects(readBody(receiving('Content-Length', '11'), { maxBytes: 10, timeoutMs: 1000 }), large)
  const exchange = receiving()
  const read = readBody(exchange, { maxBytes: 3, timeoutMs: 60_000 })
  exchange.request.consumer?.onUpload(Buffer.from('ab'))
  exchange.request.consumer?.onUpload(Buffer.from('c'))
  exchange.request.consumer?.onUploadEnd()
  t.equal(String(await read), 'abc')
})
