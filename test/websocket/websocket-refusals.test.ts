// An upgrade that may not pass is refused in plain HTTP before any 101, and leaves nothing open.
import type net from 'node:net'
import t, { type Test } from 'tap'
import { acceptOf } from '../../gateway/websocket/handshake.ts'
import { rawWebSocket, type UpgradeOptions } from '../support/raw-websocket.ts'
import { routeAt, upstreamAt, WEBSOCKET } from '../support/routes.ts'
import { startHarness, startRawUpstream } from '../support/socket-harness.ts'
import { until } from '../support/until.ts'

const world = async (t: Test, answer: (socket: net.Socket, request: string) => void, more = {}, harness = {}) => {
  const upstream = await startRawUpstream(t, socket => {
    socket.once('data', bytes => answer(socket, bytes.toString('latin1')))
  })
  const gateway = await startHarness(t, {
    ...harness,
    routes: [
      routeAt(
        '/ws',
        { ...upstreamAt(upstream.port), timeoutMs: 300 },
        { websocket: { ...WEBSOCKET, origins: ['https://app.example.org'] }, ...more }
      )
    ]
  })
  const token = await gateway.tokenFor()
  const ask = async ({ headers = {}, ...options }: UpgradeOptions = {}) => {
    const raw = await rawWebSocket(gateway.port, {
      ...options,
      headers: { authorization: `Bearer ${token}`, ...headers }
    })
    return { raw, status: Number(raw.head().split(' ')[1]) }
  }
  return { upstream, gateway, ask, token }
}

const keyOf = (request: string) => /sec-websocket-key: (.*)\r\n/.exec(request)?.[1] ?? ''

const accept = (socket: net.Socket, request: string, more = '') =>
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptOf(keyOf(request))}\r\n${more}\r\n`
  )

// WS-02
t.test('no token, a bad one, an expired one or a missing role never reach the upstream', async t => {
  const { gateway, upstream, ask } = await world(t, accept, { roles: ['Admin'] })
  t.equal((await ask({ headers: { authorization: '' } })).status, 401)
  t.equal((await ask({ headers: { authorization: 'Bearer nonsense' } })).status, 401)
  t.equal((await ask()).status, 403)
  t.equal((await ask({ path: '/elsewhere' })).status, 404)
  const token = await gateway.tokenFor()
  const both = { authorization: `Bearer ${token}`, 'sec-websocket-protocol': 'bearer, another.token.here' }
  t.equal((await ask({ headers: both })).status, 400, 'two tokens that disagree')
  t.equal((await ask({ headers: { authorization: '', 'sec-websocket-protocol': 'bearer' } })).status, 400)
  t.equal(upstream.sockets.size, 0)
})

// WS-01
t.test('an Origin passes only when it is exactly one of ours or the route’s', async t => {
  const { ask } = await world(t, accept)
  for (const origin of [
    'http://evil.example',
    'null',
    'http://gateway.test.evil',
    'HTTP://GATEWAY.TEST',
    'http://gateway.test:81'
  ]) {
    t.equal((await ask({ headers: { origin } })).status, 403, origin)
  }
  for (const origin of ['http://gateway.test', 'https://app.example.org', '']) {
    t.equal((await ask({ headers: { origin } })).status, 101, origin)
  }
})

// WS-18
t.test('faulty handshakes are 400 or 426', async t => {
  const { ask, token } = await world(t, accept)
  const cases: [Record<string, string>, number][] = [
    [{ 'sec-websocket-key': '' }, 400],
    [{ 'sec-websocket-key': 'short' }, 400],
    [{ 'sec-websocket-version': '7' }, 426],
    [{ 'sec-websocket-version': '13, 8' }, 426],
    [{ 'sec-websocket-protocol': 'a,,b' }, 400],
    [{ 'sec-websocket-protocol': 'a, a' }, 400],
    [{ 'sec-websocket-extensions': 'permessage-deflate; =' }, 400],
    [{ 'content-length': '3' }, 400]
  ]
  for (const [headers, status] of cases) t.equal((await ask({ headers })).status, status, JSON.stringify(headers))
  const old = `GET /ws HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer ${token}\r\n\r\n`
  t.equal((await ask({ request: old })).status, 400)
  const { raw } = await ask({ headers: { 'sec-websocket-version': '8' } })
  t.match(raw.head(), /sec-websocket-version: 13/i)
})

// WS-06, SM-19
t.test('a refusing upstream gives its status, not its body, and its sockets are closed at once', async t => {
  const { ask, upstream, gateway } = await world(t, socket =>
    socket.write(
      `HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 100000\r\n\r\n${'x'.repeat(1000)}`
    )
  )
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask()))
  for (const { raw, status } of answers) {
    t.equal(status, 401)
    await raw.closed
    t.equal(raw.frames().length, 0)
  }
  await until(() => upstream.sockets.size === 0, 'no upstream socket is left')
  t.equal(gateway.relays.size, 0)
  t.equal(gateway.streams.list(1, 10).total, 0)
})

// WS-07, WS-08
t.test('nonsense, silence and absence of the upstream are 502 and 504', async t => {
  const answers: [string, (socket: net.Socket, request: string) => void, number][] = [
    ['no HTTP', socket => socket.end('SSH-2.0-x\r\n\r\n'), 502],
    ['a 200', socket => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'), 502],
    [
      'a wrong accept',
      socket =>
        socket.write(
          'HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: AAAA\r\n\r\n'
        ),
      502
    ],
    [
      'an extension nobody offered',
      (socket, request) => accept(socket, request, 'Sec-WebSocket-Extensions: permessage-deflate\r\n'),
      502
    ],
    [
      'a subprotocol nobody offered',
      (socket, request) => accept(socket, request, 'Sec-WebSocket-Protocol: chat\r\n'),
      502
    ],
    ['a head without end', socket => socket.write(`HTTP/1.1 101 S\r\n${'x: y\r\n'.repeat(10_000)}`), 502],
    ['a reset', socket => socket.resetAndDestroy(), 502],
    ['silence', () => undefined, 504]
  ]
  for (const [name, answer, status] of answers) {
    const { ask, upstream } = await world(t, answer)
    t.equal((await ask()).status, status, name)
    await until(() => upstream.sockets.size === 0, 'closed')
  }
  const { ask, upstream } = await world(t, accept)
  await new Promise(resolve => upstream.server.close(resolve))
  const { raw, status } = await ask()
  t.equal(status, 502)
  await raw.closed
  t.notMatch(raw.received().toString(), /127\.0\.0\.1|ECONN/)
})

// WS-20
t.test('one person, one address and all together can have only so many sockets', async t => {
  const { ask, gateway } = await world(t, accept, {}, { shares: { perUser: 3 / 16_384, perIp: 5 / 16_384 } })
  for (let i = 0; i < 3; i++) t.equal((await ask()).status, 101)
  t.equal((await ask()).status, 429)
  const other = { authorization: `Bearer ${await gateway.tokenFor({ id: 8 })}` }
  for (let i = 0; i < 2; i++) t.equal((await ask({ headers: other })).status, 101)
  const { raw, status } = await ask({ headers: other })
  t.equal(status, 429)
  t.match(raw.head(), /retry-after: 10/i)
})

// WS-16
t.test('clients that vanish between request and 101 leave nothing behind', async t => {
  const waiting: [net.Socket, string][] = []
  const { gateway, upstream, token } = await world(t, (socket, request) => waiting.push([socket, request]))
  const pending = Array.from({ length: 30 }, () =>
    rawWebSocket(gateway.port, { headers: { authorization: `Bearer ${token}` } })
  )
  await until(() => waiting.length > 0, 'asked')
  const early = rawWebSocket(gateway.port, { headers: { authorization: `Bearer ${token}` } })
  await until(() => waiting.length === 31, 'all asked')
  gateway.revocations.learn({ tokens: [{ jti: gateway.verified.identify(token).tokenId, expiresAt: 9e9 }] })
  for (const [socket, request] of waiting) accept(socket, request)
  for (const raw of await Promise.all([...pending, early])) t.match(raw.head(), /^HTTP\/1\.1 401 /, 'revoked meanwhile')
  await until(() => upstream.sockets.size === 0, 'no upstream socket is left')
  const { gateway: next, token: fresh } = await world(t, () => undefined)
  const vanishing = rawWebSocket(next.port, { headers: { authorization: `Bearer ${fresh}` } })
  setTimeout(() => void vanishing.then(() => undefined), 0)
  t.equal(next.streams.list(1, 1).total, 0)
})
