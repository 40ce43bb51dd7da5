// Requests and responses pass as they were sent, within the times that backends have, and whatever breaks is visibly broken.
import type net from 'node:net'
import t from 'tap'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway } from '../support/gateway.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { words } from '../support/words.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: {
    upstreams: {
      raw: { url: raw.url, timeout: '400ms', idleTimeout: '400ms' },
      patient: { url: raw.url, timeout: '400ms' },
      strict: { url: raw.url, timeout: '400ms', idleTimeout: '500ms' }
    },
    routes: [
      { path: '/patient', upstream: 'patient', public: true },
      { path: '/strict', upstream: 'strict', public: true },
      { path: '/longer', upstream: 'strict', public: true, timeout: '10s' },
      { path: '/api/*', upstream: 'raw' },
      { path: '/open/*', upstream: 'raw', public: true }
    ]
  }
})
const token = await world.tokenFor({ profiles: ['Admin'] })
const auth = `Authorization: Bearer ${token}\r\n`
/** What the backend received last. */
const received = () => raw.requests.at(-1)

const get = (path: string, more = '') => `GET ${path} HTTP/1.1\r\nHost: gw\r\n${more}\r\n`

t.test('a request passes with its path, query, fields and body, and its answer comes back', async t => {
  raw.respond(() => 'HTTP/1.1 201 Made\r\nContent-Length: 5\r\nX-A: b\r\nX-A: c\r\n\r\nhello')
  const answer = await world.raw(
    `POST /api/a%20b?q=%2F&x=1 HTTP/1.1\r\nHost: gw\r\n${auth}X-Custom: yes\r\nContent-Length: 3\r\n\r\nabc`
  )
  t.match(answer, { status: 201, body: 'hello', headers: { 'x-a': 'b, c' } })
  t.match(answer.head, /^HTTP\/1\.1 201 Made/)
  const request = received()
  t.equal(request?.head.split('\r\n')[0], 'POST /api/a%20b?q=%2F&x=1 HTTP/1.1')
  t.equal(request?.body, 'abc')
  t.ok(request?.headers.some(([name, value]) => name === 'X-Custom' && value === 'yes'))
  t.notOk(
    request?.headers.some(([name]) => name.toLowerCase() === 'authorization'),
    'the token stays here'
  ) // HD-20
})

t.test('chunked bodies pass both ways, without extensions and without the trailers of a request', async t => {
  raw.respond(({ body }) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`)
  const connection = await world.connect()
  connection.send(`POST /api/x HTTP/1.1\r\nHost: gw\r\n${auth}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n`)
  connection.send('4;ext=1\r\ndefg\r\n0\r\nX-User-Id: 1\r\n\r\n')
  const answer = await connection.response()
  t.match(answer, { status: 200, body: 'abcdefg', complete: true })
  t.notMatch(raw.received(), /x-user-id: 1\r\n\r\n$/i, 'trailers of the request end here') // HD-25
  t.notMatch(raw.received(), /ext=1/) // SM-06
})

t.test('HEAD, 204 and 304 have no body, and the connection stays in step', async t => {
  // SM-27, HD-23
  const answers = [
    'HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTrailer: x\r\n\r\n',
    'HTTP/1.1 204 No Content\r\nTrailer: x\r\n\r\n',
    'HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: "x"\r\n\r\n',
    OK
  ]
  raw.respond(() => answers.shift())
  const connection = await world.connect()
  connection.send(`HEAD /api/x HTTP/1.1\r\nHost: gw\r\n${auth}\r\n`)
  t.match(await connection.response({ head: true }), { status: 200, headers: { 'content-length': '100' } })
  connection.send(get('/api/x', auth))
  t.match(await connection.response(), { status: 204 })
  connection.send(get('/api/x', auth))
  t.match(await connection.response(), { status: 304, headers: { etag: '"x"' } })
  connection.send(get('/api/x', auth))
  t.match(await connection.response(), { status: 200, body: 'ok' })
})

t.test('an upload with Expect is authorised before it is asked for', async t => {
  // SM-16, SM-17
  raw.respond(() => OK)
  const refused = await world.connect()
  refused.send('POST /api/x HTTP/1.1\r\nHost: gw\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n')
  t.match(await refused.response(), { status: 401 })
  refused.destroy()
  const connection = await world.connect()
  connection.send(`POST /api/x HTTP/1.1\r\nHost: gw\r\n${auth}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n`)
  t.match(await connection.response(), { status: 100 })
  connection.send('ab')
  t.match(await connection.response(), { status: 200 })
  t.equal(received()?.body, 'ab')
  t.notOk(received()?.headers.some(([name]) => name.toLowerCase() === 'expect'))
  connection.destroy()
  t.match(await world.raw(get('/open/x', 'Expect: foo\r\n')), { status: 417 })
})

t.test('early hints pass, other interim answers are dropped', async t => {
  // SM-26
  raw.respond(
    () =>
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 199 What\r\n\r\n${OK}`
  )
  const connection = await world.connect()
  connection.send(get('/api/x', auth))
  t.match(await connection.response(), { status: 103, headers: { link: '</a.css>; rel=preload' } })
  t.match(await connection.response(), { status: 200, body: 'ok' })
})

t.test('an event stream passes at once and outlives both timeouts of its upstream', async t => {
  let upstream: net.Socket | undefined
  raw.respond(({ target }) => {
    if (target === '/api/silent') return undefined
    return socket => {
      upstream = socket
      socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n')
    }
  })
  const connection = await world.connect()
  connection.send(get('/api/events', auth))
  await connection.sees('text/event-stream')
  upstream?.write('data: one\n\n')
  await connection.sees('data: one')
  t.equal((await world.fetch('/api/silent', { token })).status, 504, 'what was asked later has timed out')
  upstream?.write('data: two\n\n')
  await connection.sees('data: two')
  connection.destroy()
  await new Promise(resolve => upstream?.on('close', resolve))
})

t.test('an upstream that is away or silent gives 502 or 504 and no detail', async t => {
  // RX-10, RX-12
  raw.respond(() => undefined)
  t.match(await world.raw(get('/api/x', auth)), { status: 504, body: /GW_UPSTREAM_TIMEOUT/ })
  raw.respond(() => socket => socket.destroy())
  const reset = await world.raw(get('/api/x', auth))
  t.match(reset, { status: 502, body: /GW_UPSTREAM_UNREACHABLE/ })
  t.notMatch(reset.body + reset.head, /127\.0\.0\.1|ECONN|socket/i)
})

t.test('a request is not repeated, and a connection closed meanwhile is not used', async t => {
  // RX-08, RX-09
  const before = raw.requests.length
  raw.respond(() => 'HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n')
  t.match(await world.raw(get('/api/a', auth)), { status: 503 })
  t.equal(raw.requests.length, before + 1)
  raw.respond(
    ({ socket }) =>
      () =>
        socket.end(OK)
  )
  t.match(await world.raw(get('/api/b', auth)), { status: 200 })
  t.match(await world.raw(get('/api/c', auth)), { status: 200 })
  t.equal(raw.requests.length, before + 3)
})

t.test('hop-by-hop fields end here in both directions', async t => {
  // HD-05, HD-06, HD-07, HD-22, SM-20
  raw.respond(
    () =>
      'HTTP/1.1 200 OK\r\nConnection: keep-alive, x-secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=99\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nok'
  )
  const answer = await world.raw(
    get(
      '/api/x',
      `${auth}Connection: close, x-user-id, X-Private, authorization\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nTE: trailers\r\nProxy-Authorization: Basic eA==\r\nProxy-Connection: x\r\n`
    )
  )
  t.equal(answer.status, 200)
  for (const name of ['x-secret', 'upgrade', 'proxy-authenticate']) t.notOk(name in answer.headers, name)
  const names = received()?.headers.map(([name]) => name.toLowerCase()) ?? []
  for (const name of words`x-private keep-alive upgrade http2-settings proxy-authorization proxy-connection`)
    t.notOk(names.includes(name), name)
  t.ok(names.includes('x-user-id'), 'what the client names in Connection does not take ours away')
})

const HEAD = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab'
const PAUSE_MS = 1200

t.test('an answer that has begun may pause for longer than the backend may take to begin it', async t => {
  // RW-33
  raw.respond(() => socket => {
    socket.write(HEAD)
    setTimeout(() => socket.write('cd'), PAUSE_MS)
  })
  const answer = await world.fetch('/patient')
  t.equal(answer.status, 200)
  t.equal(await answer.text(), 'abcd')
})

t.test('an answer that pauses for longer than idleTimeout is broken off, and the log says so', async t => {
  // RW-33
  for (const path of ['/strict', '/longer']) {
    raw.respond(() => socket => void socket.write(HEAD))
    const answer = await world.fetch(path)
    t.equal(answer.status, 200)
    await t.rejects(answer.text(), path)
    const line = await world.logged(({ route, reason }) => route === path && reason !== undefined)
    t.match(line, { reason: 'upstream-stalled' }, path)
  }
})

t.test('the time for which the gateway stood still is no silence of its backend', async t => {
  const standStill = () => {
    const over = performance.now() + PAUSE_MS
    while (performance.now() < over);
  }
  raw.respond(() => {
    // The answer is on its way when the gateway looks at the clock again.
    standStill()
    return OK
  })
  t.equal((await world.fetch('/strict')).status, 200)
  raw.respond(() => socket => {
    socket.write(HEAD)
    setImmediate(() => {
      standStill()
      socket.write('cd')
    })
  })
  t.equal(await (await world.fetch('/strict')).text(), 'abcd')
})

t.test('however many early hints arrive over time, only some pass', async t => {
  // SM-26
  const clocks = shiftClocks(t)
  let upstream: net.Socket | undefined
  raw.respond(() => socket => {
    upstream = socket
    upstream.write('HTTP/1.1 103 Early Hints\r\nLink: </first>\r\n\r\n'.repeat(20))
  })
  const connection = await world.connect()
  connection.send(get('/open/x'))
  await connection.sees('</first>')
  clocks.monotonicMs += 10_000
  upstream?.write(`HTTP/1.1 103 Early Hints\r\nLink: </later>\r\n\r\n`.repeat(20) + OK)
  const received = await connection.sees('200 OK')
  t.equal(received.split('103 Early Hints').length - 1, 32)
})
