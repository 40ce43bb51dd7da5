// A WebSocket behaves through the gateway as it does without it.
import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { buildFrame } from '../../gateway/websocket/frames.ts'
import { startBackends } from '../../tools/matrix/backend.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols } from '../support/raw-websocket.ts'
import { makeFolder } from '../support/server-process.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const startEcho = async (t: Test, options: object = {}) => {
  const backend = http.createServer((_, response) => response.writeHead(426).end())
  const server = new WebSocketServer({ server: backend, perMessageDeflate: true, ...options })
  const requests: IncomingMessage[] = []
  const closes: { code: number; reason: string }[] = []
  const pings: string[] = []
  server.on('connection', (socket, request) => {
    requests.push(request)
    socket.on('message', (data: Buffer, isBinary) => {
      if (!isBinary && data.toString() === 'bye') socket.close(4321, 'upstream says bye')
      else socket.send(data, { binary: isBinary })
    })
    socket.on('ping', data => pings.push(data.toString()))
    socket.on('error', () => undefined)
    socket.on('close', (code, reason) => closes.push({ code, reason: reason.toString() }))
  })
  return { port: await listen(t, backend), server, requests, closes, pings }
}

const startLive = (t: Test, upstream: object, websocket = {}, more = {}) =>
  startGateway(t, {
    postgres,
    config: routesTo(upstream, [{ path: '/ws', websocket, ...more }])
  })

const bearer = async (gateway: { tokenFor(user: { id: number }): Promise<string> }) =>
  `Bearer ${await gateway.tokenFor({ id: 7 })}`

const world = async (t: Test, websocket = {}, more = {}) => {
  const upstream = await startEcho(t)
  const gateway = await startLive(t, { url: `http://127.0.0.1:${upstream.port}` }, websocket, more)
  const token = await gateway.tokenFor({ id: 7 })
  const open = async (
    headers: Record<string, string> = { authorization: `Bearer ${token}` },
    protocols: string[] = []
  ) => {
    const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/ws?room=1`, protocols, { headers })
    t.teardown(() => socket.terminate())
    await once(socket, 'open')
    return socket
  }
  return { upstream, gateway, token, open }
}

const next = async (socket: WebSocket): Promise<{ data: Buffer; isBinary: boolean }> => {
  const [data, isBinary] = await once(socket, 'message')
  return { data, isBinary }
}

t.test('text, binary, empty, fragmented and large messages come back as they went', async t => {
  const { open } = await world(t)
  const socket = await open()
  for (const message of [
    'text é 漢 😀',
    '',
    Buffer.from([0, 255, 1]),
    Buffer.alloc(0),
    Buffer.alloc(900_000, 5),
    'x'.repeat(70_000)
  ]) {
    socket.send(message)
    const { data, isBinary } = await next(socket)
    t.equal(isBinary, typeof message !== 'string')
    t.ok(data.equals(Buffer.from(message)))
  }
  socket.send('one ', { fin: false })
  socket.send('two ', { fin: false })
  socket.ping('between fragments')
  socket.send('three', { fin: true })
  t.equal((await next(socket)).data.toString(), 'one two three')
})

t.test('pings of both sides are answered by the other side, not by the gateway', async t => {
  const { open, upstream } = await world(t)
  const socket = await open()
  socket.ping('from the client')
  const [pong] = await once(socket, 'pong')
  t.equal(pong.toString(), 'from the client')
  t.same(upstream.pings, ['from the client'])
  const [server] = upstream.server.clients
  if (server === undefined) return t.fail('no upstream socket')
  const pinged = once(socket, 'ping')
  server.ping('from the upstream')
  t.equal((await once(server, 'pong'))[0].toString(), 'from the upstream')
  t.equal((await pinged)[0].toString(), 'from the upstream')
})

// WS-14
t.test('close codes and reasons pass both ways, and no code stays no code', async t => {
  const { open, upstream } = await world(t)
  const first = await open()
  first.close(4000, 'done é')
  await once(first, 'close')
  await until(() => upstream.closes.length === 1, 'closed')
  t.same(upstream.closes[0], { code: 4000, reason: 'done é' })
  const second = await open()
  second.send('bye')
  const [code, reason] = await once(second, 'close')
  t.equal(code, 4321)
  t.equal(reason.toString(), 'upstream says bye')
  const third = await open()
  third.close()
  await once(third, 'close')
  await until(() => upstream.closes.length === 3, 'closed')
  t.equal(upstream.closes[2]?.code, 1005)
})

// WS-04, HD-34
t.test('the upstream sees the person, not the token, and negotiates for itself', async t => {
  const { open, upstream, token } = await world(t)
  const byHeader = await open()
  const byProtocol = await open({}, ['bearer', token])
  t.equal(byProtocol.protocol, 'bearer')
  const chosen = await open({}, ['bearer', token, 'chat', 'other'])
  t.equal(chosen.protocol, 'chat', 'what the upstream chose of the rest')
  t.equal(byHeader.extensions, '', 'no compression is negotiated')
  for (const { headers, url } of upstream.requests) {
    t.equal(headers['x-user-id'], '7')
    t.equal(headers['x-user-username'], 'maria')
    t.notMatch(JSON.stringify(headers), token)
    t.equal(headers['sec-websocket-extensions'], undefined)
    t.equal(url, '/ws?room=1')
  }
  t.equal(upstream.requests[1]?.headers['sec-websocket-protocol'], undefined)
  t.equal(upstream.requests[2]?.headers['sec-websocket-protocol'], 'chat, other')
})

// WS-03
t.test('a token in the query counts only where the route says so, and never leaves', async t => {
  const { upstream, gateway, token } = await world(t, { tokenInQuery: true })
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/ws?a=1&access_token=${token}&b=2`)
  await once(socket, 'open')
  socket.terminate()
  t.equal(upstream.requests[0]?.url, '/ws?a=1&b=2')
  const strict = await world(t)
  const refused = await rawWebSocket(strict.gateway.port, { path: `/ws?access_token=${strict.token}` })
  t.match(refused.head(), /^HTTP\/1\.1 401 /)
})

// RV-52
t.test('without Connection: Upgrade, a request is no upgrade', async t => {
  const { gateway, token } = await world(t)
  const authorization = `Bearer ${token}`
  for (const [connection, status] of [
    ['', 426],
    ['close', 426],
    ['keep-alive', 426],
    ['upgraded', 426],
    ['keep-alive, Upgrade', 101]
  ] as const) {
    const { head, socket } = await rawWebSocket(gateway.port, { headers: { authorization, connection } })
    // The backend's own answer to a plain request is 426.
    t.equal(head().slice(9, 12), `${status}`, connection)
    socket.destroy()
  }
})

// RV-53
t.test('beside a token in the subprotocol, no other Authorization reaches the backend', async t => {
  const { open, upstream, token } = await world(t, {}, { forwardToken: true })
  for (const authorization of ['Token x', 'Basic eDp5', 'Bearer "x"', 'Bearer\tx', 'Digest a="b"']) {
    await open({ authorization }, ['bearer', token])
    t.equal(upstream.requests.at(-1)?.headers.authorization, undefined, authorization)
  }
  await open()
  t.equal(upstream.requests.at(-1)?.headers.authorization, `Bearer ${token}`)
})

// SM-31
t.test('bytes behind the handshake are delivered once, in both directions', async t => {
  const got: Buffer[] = []
  const upstream = await startRawUpstream(t)
  upstream.respond(({ head, socket }) => {
    socket.on('data', more => got.push(more))
    return Buffer.concat([Buffer.from(switchingProtocols(head)), buildFrame(1, Buffer.from('early'), false)])
  })
  const gateway = await startLive(t, { url: upstream.url })
  const frame = buildFrame(1, Buffer.from('behind'), true)
  const raw = await rawWebSocket(gateway.port, { headers: { authorization: await bearer(gateway) }, behind: frame })
  await until(() => Buffer.concat(got).length >= frame.length && raw.frames().length > 0, 'both arrive')
  // What would come twice comes before an answer to this.
  raw.send(9, 'last')
  await until(() => Buffer.concat(got).length > frame.length, 'the ping arrives')
  t.ok(Buffer.concat(got).subarray(0, frame.length).equals(frame))
  t.equal(Buffer.concat(got).length, frame.length + buildFrame(9, Buffer.from('last'), true).length)
  t.ok(raw.frames().equals(buildFrame(1, Buffer.from('early'), false)))
})

/** Sends as long as what waits to be sent gets less; the number of messages. */
const sendUntilHeld = async (socket: WebSocket, send: (index: number) => void): Promise<number> => {
  let [sent, heldFor] = [0, 0]
  while (heldFor < 20) {
    const waiting = socket.bufferedAmount
    if (waiting <= 1_000_000) send(sent++)
    else {
      await new Promise(resolve => setTimeout(resolve, 5))
      heldFor = socket.bufferedAmount === waiting ? heldFor + 1 : 0
    }
  }
  return sent
}

// WS-09
t.test('a slow reader slows the writer, memory stays flat, and nothing is lost', async t => {
  const { open, upstream } = await world(t)
  const socket = await open()
  const [server] = upstream.server.clients
  if (server === undefined) return t.fail('no upstream socket')
  socket.pause()
  const before = process.memoryUsage().rss
  const size = 64 * 1024
  const sent = await sendUntilHeld(server, index => {
    const message = Buffer.alloc(size)
    message.writeUInt32BE(index)
    server.send(message)
  })
  t.ok(server.bufferedAmount > 0, 'the writer is held back')
  t.ok(process.memoryUsage().rss - before < 60_000_000, 'nothing piles up')
  let read = 0
  let inOrder = true
  socket.on('message', (data: Buffer) => {
    inOrder &&= data.readUInt32BE() === read && data.length === size
    read++
  })
  socket.resume()
  await until(() => read === sent, 'everything arrives')
  t.ok(inOrder)
})

// WS-10
t.test('an upstream that does not read slows the client', async t => {
  const { open, upstream } = await world(t)
  const socket = await open()
  const [server] = upstream.server.clients
  server?.pause()
  const sent = await sendUntilHeld(socket, () => socket.send(Buffer.alloc(64 * 1024)))
  t.ok(socket.bufferedAmount > 0)
  let back = 0
  socket.on('message', () => back++)
  server?.resume()
  await until(() => back === sent, 'everything comes back')
})

// RX-11, WS-07
t.test('TLS and Unix-socket upstreams work, and a certificate of an unknown authority is a 502', async t => {
  const { backends, caFile } = await startBackends(t, makeFolder(t, 'wss'))
  const gateway = await startGateway(t, {
    postgres,
    config: {
      upstreams: {
        tls: { url: backends.https.url, caFile },
        unix: { url: backends.unix.url },
        doubtful: { url: backends.https.url }
      },
      routes: ['tls', 'unix', 'doubtful'].map(name => ({ path: `/ws/${name}`, upstream: name, websocket: {} }))
    }
  })
  const token = await gateway.tokenFor({ id: 7 })
  for (const path of ['/ws/tls', '/ws/unix']) {
    const socket = await gateway.socket(path, token)
    for (const message of [Buffer.alloc(500_000, 3), Buffer.from('small')]) {
      socket.send(message)
      t.ok((await next(socket)).data.equals(message), path)
    }
    socket.close(1000)
    t.equal((await once(socket, 'close'))[0], 1000)
  }
  const refused = await rawWebSocket(gateway.port, {
    path: '/ws/doubtful',
    headers: { authorization: `Bearer ${token}` }
  })
  t.match(refused.head(), /^HTTP\/1\.1 502 /)
})
