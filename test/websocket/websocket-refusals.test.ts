// An upgrade that may not pass is refused in plain HTTP before any 101, and leaves nothing open.
import type net from 'node:net'
import t, { type Test } from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { type RawRequest, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols, type UpgradeOptions } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const postgres = await startPostgres(t)

type Answer = (socket: net.Socket, request: string) => unknown

const accept: Answer = (socket, request) => socket.write(switchingProtocols(request))

const world = async (t: Test, answer: Answer, { route = {}, env = {} }: { route?: object; env?: object } = {}) => {
  const upstream = await startRawUpstream(t)
  const respond = (next: Answer) =>
    upstream.respond(
      ({ socket, head }) =>
        () =>
          void next(socket, head)
    )
  respond(answer)
  const gateway = await startGateway(t, {
    postgres,
    env: { PUBLIC_URL: 'http://gateway.test', ...env },
    config: routesTo(upstream.url, [
      { path: '/ws', websocket: { origins: ['https://app.example.org'] }, ...route },
      { path: '/hasty', websocket: {}, timeout: '300ms' }
    ])
  })
  const token = await gateway.tokenFor({ id: 7 })
  const ask = async ({ headers = {}, ...options }: UpgradeOptions = {}) => {
    const raw = await rawWebSocket(gateway.port, {
      ...options,
      headers: { authorization: `Bearer ${token}`, ...headers }
    })
    return { raw, status: Number(raw.head().split(' ')[1]) }
  }
  return { upstream, respond, gateway, ask, token }
}

// WS-02
t.test('no token, a bad one, an expired one or a missing role never reach the upstream', async t => {
  const { gateway, upstream, ask } = await world(t, accept, { route: { roles: ['Admin'] } })
  const expired = await gateway.tokenFor({ profiles: ['Admin'] }, { exp: Math.floor(Date.now() / 1000) - 1 })
  t.equal((await ask({ headers: { authorization: '' } })).status, 401)
  t.equal((await ask({ headers: { authorization: 'Bearer nonsense' } })).status, 401)
  t.equal((await ask({ headers: { authorization: `Bearer ${expired}` } })).status, 401)
  t.equal((await ask()).status, 403)
  t.equal((await ask({ path: '/elsewhere' })).status, 404)
  const token = await gateway.tokenFor()
  const both = { authorization: `Bearer ${token}`, 'sec-websocket-protocol': 'bearer, another.token.here' }
  t.equal((await ask({ headers: both })).status, 400, 'two tokens that disagree')
  t.equal((await ask({ headers: { authorization: '', 'sec-websocket-protocol': 'bearer' } })).status, 400)
  t.equal(upstream.accepted(), 0)
})

// WS-01
t.test('an Origin passes only when it is exactly one of ours or the route’s', async t => {
  const { ask } = await world(t, accept)
  for (const origin of words`
    http://evil.example null http://gateway.test.evil HTTP://GATEWAY.TEST http://gateway.test:81
  `) {
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
    [{ 'sec-websocket-extensions': ' , ' }, 400],
    // RFC 9110 §5.6.1.2
    [{ 'sec-websocket-extensions': ', permessage-deflate,,x-other,' }, 101],
    [{ 'content-length': '3' }, 400]
  ]
  for (const [headers, status] of cases) t.equal((await ask({ headers })).status, status, JSON.stringify(headers))
  const old = `GET /ws HTTP/1.0\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer ${token}\r\n\r\n`
  t.equal((await ask({ request: old })).status, 400)
  const { raw } = await ask({ headers: { 'sec-websocket-version': '8' } })
  for (const line of [/^sec-websocket-version: 13$/im, /^upgrade: websocket$/im, /^connection: upgrade$/im])
    t.match(raw.head(), line)
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
    t.notMatch(raw.frames().toString(), /xxx/)
  }
  await until(() => upstream.open() === 0, 'no upstream socket is left')
  t.equal((await gateway.openStreams()).total, 0)
})

// SM-19
t.test('a backend may ignore an upgrade (RFC 9110 §7.8): its response passes, and no other follows', async t => {
  const { ask, upstream, respond, gateway } = await world(t, accept)
  const page = '<p>not a socket</p>'
  for (const response of [
    `Content-Length: ${page.length}\r\n\r\n${page}`,
    `Transfer-Encoding: chunked\r\n\r\n13\r\n${page}\r\n0\r\n\r\n`
  ]) {
    respond(socket => socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n${response}`))
    const { raw, status } = await ask()
    t.equal(status, 200)
    await raw.closed
    t.match(raw.head(), /content-type: text\/html\r\n.*cache-control: private\r\n/is)
    t.match(raw.frames().toString(), page)
    await until(() => upstream.open() === 0, 'what was asked to switch carries no other request')
  }
  respond(socket => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n')
    setImmediate(() => socket.destroy())
  })
  const { raw } = await ask()
  await raw.closed
  t.notMatch(raw.frames().toString(), '0\r\n\r\n', 'what breaks off is not completed')
  t.equal((await gateway.openStreams()).total, 0)
})

t.test('an upstream may spell its switch as RFC 6455 §4.1 lets it', async t => {
  const { ask, respond } = await world(t, accept)
  for (const [from, to] of [
    ['Upgrade: websocket', 'upgrade: WebSocket'],
    ['Connection: Upgrade', 'Connection: keep-alive, upgrade'],
    ['Connection: Upgrade', 'Connection: x\r\nConnection: Upgrade']
  ] as const) {
    respond((socket, request) => socket.write(switchingProtocols(request).replace(from, to)))
    const { raw, status } = await ask()
    t.equal(status, 101, to)
    raw.socket.destroy()
  }
})

// WS-07, WS-08
t.test('nonsense, silence and absence of the upstream are 502 and 504', async t => {
  const also = (fields: string): Answer => {
    return (socket, request) => socket.write(switchingProtocols(request, fields))
  }
  const instead = (from: string, to: string): Answer => {
    return (socket, request) => socket.write(switchingProtocols(request).replace(from, to))
  }
  const answers: [string, Answer, number][] = [
    ['no HTTP', socket => socket.end('SSH-2.0-x\r\n\r\n'), 502],
    ['a wrong accept', instead('Sec-WebSocket-Accept: ', 'Sec-WebSocket-Accept: A'), 502],
    ['another protocol', instead('Upgrade: websocket', 'Upgrade: h2c'), 502],
    ['no Connection: Upgrade', instead('Connection: Upgrade', 'Connection: x'), 502],
    ['two upgrades', also('Upgrade: websocket\r\n'), 502],
    ['an extension that was not offered', also('Sec-WebSocket-Extensions: permessage-deflate\r\n'), 502],
    ['a subprotocol that was not offered', also('Sec-WebSocket-Protocol: chat\r\n'), 502],
    ['two of those offered', also('Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n'), 502],
    ['a head without end', socket => socket.write(`HTTP/1.1 101 S\r\n${'x: y\r\n'.repeat(10_000)}`), 502],
    ['a reset', socket => socket.resetAndDestroy(), 502]
  ]
  const { ask, upstream, respond } = await world(t, accept)
  for (const [name, answer, status] of answers) {
    respond(answer)
    t.equal((await ask({ headers: { 'sec-websocket-protocol': 'a, b' } })).status, status, name)
    await until(() => upstream.open() === 0, `${name}: closed`)
  }
  respond(() => undefined)
  t.equal((await ask({ path: '/hasty' })).status, 504, 'silence')
  await until(() => upstream.open() === 0, 'silence: closed')
  await upstream.close()
  const { raw, status } = await ask()
  t.equal(status, 502)
  await raw.closed
  t.notMatch(raw.received().toString(), /127\.0\.0\.1|ECONN/)
})

const CLIENTS = 30

/** Upgrades that the upstream holds in its hand, unanswered. */
const pendingUpgrades = async (t: Test, env: object = {}) => {
  const waiting: Pick<RawRequest, 'socket' | 'head'>[] = []
  const hold: Answer = (socket, head) => waiting.push({ socket, head })
  const opened = await world(t, hold, { env, route: { timeout: '60s' } })
  const clients: net.Socket[] = []
  const answers = Array.from({ length: CLIENTS }, () =>
    rawWebSocket(opened.gateway.port, {
      headers: { authorization: `Bearer ${opened.token}` },
      onConnecting: socket => clients.push(socket)
    })
  )
  await until(() => waiting.length === CLIENTS, 'all are asked for')
  return { ...opened, waiting, clients, answers }
}

// WS-16
t.test('a token that ends between request and 101 opens nothing', async t => {
  const { gateway, upstream, token, waiting, answers } = await pendingUpgrades(t)
  t.equal((await gateway.fetch('/auth/logout', { method: 'POST', token })).status, 204)
  for (const { socket, head } of waiting) accept(socket, head)
  for (const raw of await Promise.all(answers)) t.match(raw.head(), /^HTTP\/1\.1 401 /, 'logged out meanwhile')
  await until(() => upstream.open() === 0, 'no upstream socket is left')
  t.equal((await gateway.openStreams()).total, 0)
})

// WS-16
t.test('clients that vanish between request and 101 leave nothing behind', async t => {
  // Of 16384: as many as there are clients.
  const env = { STREAMS_PER_USER: '0.185%' }
  const { gateway, upstream, respond, ask, waiting, clients, answers } = await pendingUpgrades(t, env)
  for (const [index, { socket, head }] of waiting.entries()) {
    // Half of them cross the upstream's 101 on its way.
    if (index % 2 === 0) accept(socket, head)
    clients[index]?.resetAndDestroy()
  }
  await Promise.all(answers)
  await until(() => upstream.open() === 0, 'no upstream socket is left')
  await until(async () => (await gateway.openStreams()).total === 0, 'no stream is left')
  respond(accept)
  const next = await Promise.all(Array.from({ length: CLIENTS }, () => ask()))
  t.same([...new Set(next.map(({ status }) => status))], [101], 'every place is free again')
  t.equal((await gateway.openStreams()).total, CLIENTS)
  t.equal((await ask()).status, 429, 'and no place is counted twice')
})
