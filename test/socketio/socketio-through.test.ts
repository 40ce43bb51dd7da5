// A stock Socket.IO server and client behave through the gateway as they do without it. That sessions end with their rights:
// test/account/endings.test.ts.

import type net from 'node:net'
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client'
import t, { type Test } from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { acceptOf, buildFrame, closePayload, rawWebSocket } from '../support/raw-websocket.ts'
import { once, startStockServer } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const startServer = async (t: Test, options: object = {}) => {
  const recovery = { connectionStateRecovery: {}, pingInterval: 2000 }
  const { sockets, port } = await startStockServer(t, { ...recovery, ...options })
  const auths: unknown[] = []
  sockets.use((_socket, next) => next())
  const messaging = sockets.of('/messaging')
  messaging.on('connection', socket => {
    auths.push(socket.handshake.auth)
    socket.on('echo', (...args: unknown[]) => {
      const ack = args.at(-1)
      if (typeof ack === 'function') ack(...args.slice(0, -1))
      else socket.emit('echo', ...args)
    })
    socket.on('join', (room: string, ack: () => void) => {
      socket.join(room)
      ack()
    })
    socket.on('tell', (room: string, ...args: unknown[]) => void messaging.to(room).emit('told', ...args))
    socket.on('ask', async (ack: (answers: unknown) => void) => {
      ack(await socket.timeout(20_000).emitWithAck('question', 21, Buffer.from('bin')))
    })
    socket.on('leave-me', () => socket.disconnect())
    socket.emit('hello', 'qr-code')
  })
  sockets.of('/other').on('connection', socket => {
    socket.emit('hello', 'other')
    socket.on('echo', (x: unknown, ack: (x: unknown) => void) => ack(x))
  })
  sockets.of(/^\/dyn-\d+$/).on('connection', socket => {
    socket.emit('hello', socket.nsp.name)
  })
  return { port, sockets, auths }
}

const SOCKETIO = {
  namespaces: {
    '/messaging': { roles: ['Agente'] },
    '/other': {},
    '/admin': { roles: ['Admin'] },
    '/^\\/dyn-[0-9]+$/': {}
  }
}

const startChat = (t: Test, ports: readonly number[], path = '/socket.io/') =>
  startGateway(t, {
    postgres,
    config: routesTo({ targets: ports.map(port => `http://127.0.0.1:${port}`) }, [
      { path: `${path}*`, socketio: SOCKETIO }
    ])
  })

const TRANSPORTS = {
  websocket: ['websocket'],
  polling: ['polling'],
  'polling, then the upgrade': ['polling', 'websocket']
}

const world = async (t: Test, path = '/socket.io/', options: object = {}) => {
  const upstream = await startServer(t, { path, ...options })
  const gateway = await startChat(t, [upstream.port], path)
  const connect = (namespace: string, options: Partial<ManagerOptions & SocketOptions>, base = gateway.url) => {
    const client = io(base + namespace, { forceNew: true, reconnection: false, path, ...options })
    t.teardown(() => client.disconnect())
    return client
  }
  return { upstream, gateway, connect }
}

for (const [name, transports] of Object.entries(TRANSPORTS)) {
  t.test(`by ${name}: events, acks, binary, rooms and server-side questions pass as without a gateway`, async t => {
    const { upstream, gateway, connect } = await world(t)
    const token = await gateway.tokenFor({ id: 7 })
    const results: unknown[][] = []
    for (const base of [gateway.url, `http://127.0.0.1:${upstream.port}`]) {
      const seen: unknown[] = []
      const client = connect('/messaging', { transports, auth: { token, mine: 1 } }, base)
      client.on('question', (n: number, bytes: Buffer, ack: (x: unknown) => void) => ack([n * 2, bytes]))
      // Behind the arguments of an event stands its place for recovery, which differs each time.
      const first = async (event: string) => (await once(client, event)).slice(0, -1)
      seen.push(await first('hello'))
      seen.push(await client.emitWithAck('echo', 'text', { deep: [1, null, 'é'] }))
      seen.push(await client.emitWithAck('echo', Buffer.from([1, 2, 3]), { b: Buffer.alloc(5000, 7) }))
      client.emit('echo', Buffer.from('loose'))
      seen.push(await first('echo'))
      await client.emitWithAck('join', 'room')
      client.emit('tell', 'room', 'all', Buffer.from('xyz'))
      seen.push(await first('told'))
      seen.push(await client.emitWithAck('ask'))
      // While a POST is under way, a client drops volatile events.
      await until(() => client.io.engine.transport.writable)
      client.volatile.emit('echo', 'volatile')
      seen.push(await first('echo'))
      if (transports.length === 2) await until(() => client.io.engine.transport.name === 'websocket', 'upgraded')
      seen.push(client.io.engine.transport.name, await client.emitWithAck('echo', 'x'.repeat(200_000)))
      client.emit('leave-me')
      seen.push(await once(client, 'disconnect').then(([reason]) => reason))
      results.push(seen)
    }
    t.same(results[0], results[1])
    const [auth] = upstream.auths
    t.match(auth, { mine: 1, user: { id: 7, username: 'maria' } })
    t.notOk(Object.hasOwn(auth as object, 'token'), 'the token stays here')
  })

  t.test(`by ${name}: several namespaces share a connection and each is checked`, async t => {
    const { gateway, connect } = await world(t)
    const token = await gateway.tokenFor({ id: 7 })
    const messaging = connect('/messaging', { transports, auth: { token } })
    await once(messaging, 'hello')
    const admin = messaging.io.socket('/admin', { auth: { token } })
    const other = messaging.io.socket('/other', { auth: { token } })
    const dynamic = messaging.io.socket('/dyn-5', { auth: { token } })
    const unknown = messaging.io.socket('/unlisted', { auth: { token } })
    const [refused, hello, dyn, nowhere] = await Promise.all([
      once(admin, 'connect_error'),
      once(other, 'hello'),
      once(dynamic, 'hello'),
      once(unknown, 'connect_error')
    ])
    t.match(refused, [{ data: { code: 'GW_FORBIDDEN', statusCode: 403 } }])
    t.match(nowhere, [{ data: { code: 'GW_NO_ROUTE', statusCode: 404 } }])
    t.equal(hello[0], 'other')
    t.equal(dyn[0], '/dyn-5')
    t.same(await other.emitWithAck('echo', 5), 5)
    other.disconnect()
    t.same(await messaging.emitWithAck('echo', 'still'), 'still')
  })
}

t.test('a broken connection is recovered for the same person and for nobody else', async t => {
  const { gateway, connect } = await world(t)
  const mine = await gateway.tokenFor({ id: 7 })
  const client = connect('/messaging', { transports: ['websocket'], auth: { token: mine } })
  await once(client, 'hello')
  const before = client.id
  const broken = once(client, 'disconnect')
  client.io.engine.close()
  await broken
  client.connect()
  await once(client, 'connect')
  t.ok(client.recovered)
  t.equal(client.id, before)
  client.io.engine.close()
  client.auth = { token: await gateway.tokenFor({ id: 99 }) }
  client.connect()
  await once(client, 'connect')
  t.notOk(client.recovered, 'the recovery id of somebody else brings nothing back')
})

t.test('a custom path works', async t => {
  const { gateway, connect } = await world(t, '/chat/io/')
  const client = connect('/other', { auth: { token: await gateway.tokenFor({ id: 7 }) } })
  t.equal((await once(client, 'hello'))[0], 'other')
})

t.test('with several targets a session stays with the one that knows it', async t => {
  const first = await startServer(t)
  const second = await startServer(t)
  const gateway = await startChat(t, [first.port, second.port])
  const token = await gateway.tokenFor({ id: 7 })
  const clients: Socket[] = []
  t.teardown(() => {
    for (const client of clients) client.disconnect()
  })
  for (let i = 0; i < 6; i++) {
    const client = io(`${gateway.url}/messaging`, { forceNew: true, auth: { token } })
    clients.push(client)
    await once(client, 'hello')
    await until(() => client.io.engine.transport.name === 'websocket', 'upgraded')
    t.same(await client.emitWithAck('echo', i), i)
  }
  t.equal(first.auths.length, 3)
  t.equal(second.auths.length, 3)
})

t.test('a WebSocket that breaks in the middle of an upgrade does not leave a stock client waiting', async t => {
  // RW-77
  const { upstream, gateway, connect } = await world(t, '/socket.io/', { pingTimeout: 600_000 })
  const token = await gateway.tokenFor({ id: 7 })
  let broken = 0
  upstream.sockets.engine.on('connection', engine =>
    engine.once('upgrading', ({ socket }: { socket: { terminate(): void } }) => {
      if (broken++ === 0) socket.terminate()
    })
  )
  const client = connect('/messaging', { auth: { token }, reconnection: true, reconnectionDelay: 1 })
  await until(() => broken === 2, 'a new session is upgraded')
  await until(() => client.connected && client.io.engine.transport.name === 'websocket')
  t.equal(await client.emitWithAck('echo', 'again'), 'again')
})

/** A session whose client has been told that its WebSocket works, and an upstream of which the test says what it does next. */
const probed = async (t: Test) => {
  const upstream = await startRawUpstream(t)
  const polls: net.Socket[] = []
  const posted: string[] = []
  const opened = '0{"sid":"sid-1","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000}'
  const sockets: net.Socket[] = []
  upstream.respond(({ method, target, body, headers, socket }) => {
    const key = headers.find(([name]) => name.toLowerCase() === 'sec-websocket-key')?.[1]
    if (method === 'POST') posted.push(body)
    if (method === 'POST') return answerOf('ok')
    if (!target.includes('sid=')) return answerOf(opened)
    if (key === undefined) return void polls.push(socket)
    sockets.push(socket)
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${acceptOf(key)}\r\n`
    const head = Buffer.from(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n`)
    return Buffer.concat([head, buildFrame(1, Buffer.from('3probe'), false)])
  })
  const gateway = await startChat(t, [upstream.port])
  const session = `/socket.io/?EIO=4&sid=sid-1&transport=`
  const ask = async (path: string) => (await gateway.fetch(path)).text()
  t.equal(await ask('/socket.io/?EIO=4&transport=polling'), opened)
  const answer = ask(`${session}polling`)
  await until(() => polls.length === 1, 'polls')
  const client = await rawWebSocket(gateway.port, { path: `${session}websocket` })
  client.send(1, '2probe')
  await until(() => client.frames().includes('3probe'), 'probed')
  const post = (body: string) => gateway.fetch(`${session}polling`, { method: 'POST', body })
  return { client, answer, post, posted, poll: polls[0] as net.Socket, socket: sockets[0] as net.Socket }
}

const answerOf = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`

// RW-78
t.test('a WebSocket that is tried ends at once with a session that is not to come back', async t => {
  const { client, answer, post, poll } = await probed(t)
  poll.write(answerOf('6'))
  t.equal(await answer, '6')
  t.equal((await post('x')).status, 400)
  await until(() => client.closeCode() !== undefined, 'closed, although the upgrade is not complete')
  t.equal(client.closeCode(), 1008)
  client.close(1008)
  await client.closed
})

const BREAKS: Readonly<Record<string, (socket: net.Socket) => unknown>> = {
  'breaks off': socket => socket.destroy(),
  closes: socket => socket.write(buildFrame(8, closePayload(1000, ''), false))
}

for (const [name, end] of Object.entries(BREAKS)) {
  // RW-78
  t.test(`a poll is not answered as if nothing had happened while the WebSocket that is tried ${name}`, async t => {
    const { client, answer, posted, poll, socket } = await probed(t)
    end(socket)
    await until(() => client.closeCode() !== undefined || posted.includes('1'), 'known to either side')
    poll.write(answerOf('6'))
    t.equal(await answer, '1', 'a stock client connects again')
    client.socket.destroy()
  })

  t.test(`a client with answered polls completes an upgrade that ${name}, and then learns of it`, async t => {
    const { client, answer, posted, poll, socket } = await probed(t)
    poll.write(answerOf('6'))
    t.equal(await answer, '6')
    end(socket)
    await until(() => posted.includes('1'), 'the session is over')
    t.equal(client.closeCode(), undefined)
    client.send(1, '5')
    await until(() => client.closeCode() !== undefined, 'closed')
    t.equal(client.closeCode(), 1011)
    client.close(1011)
    await client.closed
  })
}
