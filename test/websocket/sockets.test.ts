// What no route owns is answered, waves of sockets leave nothing behind, a reload checks open streams again, and Admins see and end them.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { closePayload } from '../../gateway/websocket/frames.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

// One backend: WebSocket at /live, events at /events.
const late = { isAsked: false, answer: () => {} }
const backend = createServer((req, res) => {
  const answer = () => {
    const length = req.url?.startsWith('/sized') === true ? { 'content-length': 1000 } : {}
    res.writeHead(200, { 'content-type': 'text/event-stream', ...length })
    res.write(`data: ${req.headers['x-user-username']}\n\n`)
  }
  if (req.url?.startsWith('/late') === true) Object.assign(late, { isAsked: true, answer })
  else if (/^\/(?:events|sized)/.test(req.url ?? '')) answer()
  else res.end('ok')
})
const live = new WebSocketServer({ noServer: true })
live.on('connection', (socket, req) => {
  socket.send(`hello ${req.headers['x-user-username']}`)
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  socket.on('error', () => undefined)
})
backend.on('upgrade', (req, socket, head) => {
  if (req.url?.startsWith('/live') === true)
    live.handleUpgrade(req, socket, head, ws => live.emit('connection', ws, req))
})
const port = await listen(t, backend)

const config = routesTo(`http://127.0.0.1:${port}`, [
  { path: '/live', roles: ['Agente'], websocket: {} },
  { path: '/events', roles: ['Agente'] },
  { path: '/sized', roles: ['Agente'] }
])
const env = { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' }
const world = await startGateway(t, { postgres, config, env })
const token = await world.tokenFor()
const authorization = `Bearer ${token}`
const count = async () => (await world.openStreams()).total

const open = (token: string) =>
  new WebSocket(`ws://127.0.0.1:${world.port}/live`, { headers: { authorization: `Bearer ${token}` } })

const next = (socket: WebSocket) =>
  new Promise<string>(resolve => socket.once('message', data => resolve(String(data))))
const closed = (socket: WebSocket) => new Promise<number>(resolve => socket.once('close', code => resolve(code)))

// WS-19
t.test('an upgrade of a path that no route owns is answered, however spelled, and its connection ended', async t => {
  for (const path of ['/nowhere', '/%6Cive/x', '/%4Cive', '/', '/socket.io/?EIO=4&transport=websocket']) {
    const raw = await rawWebSocket(world.port, { path, headers: { authorization } })
    t.match(raw.head(), /^HTTP\/1\.1 (?:400|404) /, path)
    raw.socket.end()
    await raw.closed
  }
  t.equal(live.clients.size, 0)
})

// WS-36
t.test('a close frame holds its code and its reason, and not a byte of other memory', async t => {
  for (const reason of ['', 'bye', 'até já', '☃'.repeat(41)]) {
    const payload = closePayload(1011, reason)
    t.ok(payload.equals(Buffer.concat([Buffer.from([0x03, 0xf3]), Buffer.from(reason)])), reason)
  }
  // @ts-expect-error: a typed array would be written as its text, or as memory behind it
  t.throws(() => closePayload(1011, new Float32Array(20)), { name: 'TypeError' })
})

const WAVES = 4
const SOCKETS = 60

// WS-37
t.test('waves of sockets, cut on either side and all back at once, leave no socket, stream or timer', async t => {
  const resources = () => process.getActiveResourcesInfo().filter(name => name !== 'Immediate').length
  await count()
  const before = resources()
  for (let wave = 0; wave < WAVES; wave++) {
    const opened = Array.from({ length: SOCKETS }, async () => {
      const socket = open(token)
      socket.on('error', () => undefined)
      await new Promise(resolve => socket.once('open', resolve))
      let echo = ''
      socket.on('message', data => {
        echo = String(data)
      })
      socket.send(`wave ${wave}`)
      await until(() => echo === `wave ${wave}`, 'echoed')
      return socket
    })
    const sockets = await Promise.all(opened)
    t.equal(await count(), SOCKETS)
    // In turn: the client vanishes, the client closes, the backend vanishes.
    const legs = [...live.clients]
    for (const [i, socket] of sockets.entries()) {
      if (i % 3 === 0) socket.terminate()
      else if (i % 3 === 1) socket.close(4000)
    }
    for (const leg of legs) if (Math.random() < 0.3) leg.terminate()
    for (const socket of sockets.filter((_, i) => i % 3 === 2)) socket.close()
    await until(async () => live.clients.size === 0 && (await count()) === 0, `wave ${wave} is gone`)
  }
  // Asking for the list keeps a connection or two for the next question.
  await until(() => resources() <= before + 4, 'every handle and timer is given back')
})

// RW-60
t.test('a reload checks a stream by the method that opened it, and one that is just opening too', async t => {
  const backendRoute = (path: string, role: string, methods?: string[]) => ({
    ...{ path, upstream: 'raw', roles: [role] },
    ...(methods === undefined ? {} : { methods })
  })
  const load = async (...routes: object[]) => {
    world.writeRoutes({ ...config, routes: [...config.routes.filter(({ path }) => path !== '/events'), ...routes] })
    t.ok(await world.gateway.reload())
  }
  const [get, post] = [backendRoute('/events', 'Admin'), backendRoute('/events', 'Agente', ['POST'])]
  await load(get, post, backendRoute('/late', 'Agente'))
  const token = await world.tokenFor({ id: 47 })
  const stream = (await world.fetch('/events', { method: 'POST', token })).body?.getReader()
  t.match(await stream?.read(), { done: false })
  const end = stream?.read()
  const opening = world.fetch('/late', { token })
  await until(() => late.isAsked, 'asked')

  await load(get, post, backendRoute('/late', 'Admin'))
  late.answer()
  t.equal((await opening).status, 403, 'its route has changed meanwhile')
  t.equal(await Promise.race([end?.then(() => 'over'), world.fetch('/health').then(() => 'open')]), 'open')

  await load(backendRoute('/events', 'Agente'), backendRoute('/events', 'Admin', ['POST']))
  t.match(await end, { done: true })
  world.writeRoutes(config)
  await world.gateway.reload()
})

t.test('an Admin sees open streams and ends one', async t => {
  // AD-09
  const socket = open(await world.tokenFor({ id: 44, username: 'rui' }))
  await next(socket)
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const item = (await world.openStreams()).items.find(({ user }) => user?.username === 'rui')
  t.ok(item)
  const gone = closed(socket)
  const end = async (id: string | undefined) =>
    (await world.fetch(`/auth/admin/sockets/${id}`, { method: 'DELETE', token: admin })).status
  await postgres.query('ALTER TABLE audit_events RENAME TO audit_elsewhere')
  t.equal(await end(item?.id), 500)
  await postgres.query('ALTER TABLE audit_elsewhere RENAME TO audit_events')
  socket.send('still here')
  t.equal(await Promise.race([next(socket), gone]), 'still here', 'nothing is ended without an entry in the audit log')
  t.equal(await end(item?.id), 204)
  t.equal(await gone, 4403)
  t.equal(await end('nothing'), 404)
  t.same(
    await postgres.query("SELECT target FROM audit_events WHERE action = 'stream.end'"),
    [{ target: `stream:${item?.id}` }],
    'nor is there an entry for nothing'
  )
})

t.test('an event stream whose length was announced ends with its connection', async t => {
  const own = await world.tokenFor({ id: 46, username: 'eva' })
  const connection = await world.connect()
  connection.send(`GET /sized HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${own}\r\n\r\n`)
  const find = async () => (await world.openStreams()).items.find(({ user }) => user?.username === 'eva')
  await until(async () => (await find()) !== undefined)
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  await world.fetch(`/auth/admin/sockets/${(await find())?.id}`, { method: 'DELETE', token: admin })
  connection.send('GET /health HTTP/1.1\r\nHost: gw\r\n\r\n')
  const received = await connection.closed()
  t.match(received, /data: eva/)
  t.equal(received.match(/HTTP\/1\.1/g)?.length, 1, 'no other response is taken for the rest of it')
})

/** The timers of a process's connections that were accepted at one port, or lead to another, by Linux: 2 is that of keep-alive. */
const timersOf = async (accepted: number, dialled: number): Promise<string[]> =>
  (await readFile('/proc/net/tcp', 'utf8')).split('\n').flatMap(line => {
    const [, local = '', remote = '', state, , timer = ''] = line.trim().split(/\s+/)
    const portOf = (address: string) => Number.parseInt(address.split(':')[1] ?? '', 16)
    return state === '01' && (portOf(local) === accepted || portOf(remote) === dialled) ? [timer.slice(0, 2)] : []
  })

t.test('an event stream in which nothing happens does not outlive a client or backend that vanishes', async t => {
  const connection = await world.connect()
  connection.send(`GET /events HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  await until(async () => (await world.openStreams()).total === 1)
  // Until what was sent last is acknowledged, another timer runs.
  await until(async () => {
    const timers = await timersOf(world.port, port)
    return timers.length >= 2 && timers.every(timer => timer === '02')
  }, 'both connections are probed')
  connection.send('')
  t.equal((await world.openStreams()).total, 1)
})
