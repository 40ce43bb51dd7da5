import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from 'socket.io'
import { io } from 'socket.io-client'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { startGateway } from '../support/gateway.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

// One backend: WebSocket at /live, events at /events, Socket.IO with the namespace /messaging.
const late = { isAsked: false, answer: () => {} }
const backend = createServer((req, res) => {
  const answer = () => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(`data: ${req.headers['x-user-username']}\n\n`)
  }
  if (req.url?.startsWith('/late') === true) Object.assign(late, { isAsked: true, answer })
  else if (req.url?.startsWith('/events') === true) answer()
  else res.end('ok')
})
const live = new WebSocketServer({ noServer: true })
live.on('connection', (socket, req) => {
  socket.send(`hello ${req.headers['x-user-username']}`)
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
})
const messaging = new Server(backend, { destroyUpgrade: false })
messaging.of('/messaging').on('connection', socket => {
  socket.emit('qr', `qr for ${socket.handshake.auth.user.username}, token ${socket.handshake.auth.token}`)
})
backend.on('upgrade', (req, socket, head) => {
  if (req.url?.startsWith('/live') === true)
    live.handleUpgrade(req, socket, head, ws => live.emit('connection', ws, req))
})
await new Promise<void>(resolve => backend.listen(0, '127.0.0.1', resolve))
t.teardown(() => {
  messaging.close()
  backend.closeAllConnections()
  backend.close()
})

const config = {
  upstreams: { backend: { url: `http://127.0.0.1:${(backend.address() as AddressInfo).port}` } },
  routes: [
    { path: '/live', upstream: 'backend', roles: ['Agente'], websocket: {} },
    { path: '/events', upstream: 'backend', roles: ['Agente'] },
    {
      path: '/socket.io/*',
      upstream: 'backend',
      socketio: { namespaces: { '/messaging': { roles: ['Agente', 'Admin'] } } }
    }
  ]
}
const world = await startGateway(t, { postgres, config })

const open = (token: string | undefined, options: { origin?: string; protocols?: string[]; path?: string } = {}) =>
  new WebSocket(`ws://127.0.0.1:${world.port}${options.path ?? '/live'}`, options.protocols ?? [], {
    ...(options.origin === undefined ? {} : { origin: options.origin }),
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` }
  })

const next = (socket: WebSocket) =>
  new Promise<string>(resolve => socket.once('message', data => resolve(String(data))))
const closed = (socket: WebSocket) => new Promise<number>(resolve => socket.once('close', code => resolve(code)))
const refused = (socket: WebSocket) =>
  new Promise<number>(resolve => {
    socket.on('error', () => undefined)
    socket.once('unexpected-response', (_req, res) => {
      resolve(res.statusCode ?? 0)
      res.resume()
    })
  })

t.test('a WebSocket is decided before any 101, and carries the identity', async t => {
  // WS-01, WS-02, WS-04, HD-34
  const token = await world.tokenFor({ username: 'ana' })
  const socket = open(token)
  t.equal(await next(socket), 'hello ana')
  socket.close()
  const byProtocol = open(undefined, { protocols: ['bearer', token] })
  t.equal(await next(byProtocol), 'hello ana')
  t.equal(byProtocol.protocol, 'bearer')
  byProtocol.close()
  t.equal(await refused(open(undefined)), 401)
  t.equal(await refused(open(await world.tokenFor({ profiles: ['Supervisor'] }))), 403)
  t.equal(await refused(open(token, { origin: 'https://evil.example' })), 403)
  t.equal(await refused(open(token, { path: '/nothing' })), 404)
  t.equal(
    await refused(open(undefined, { path: `/live?access_token=${token}` })),
    401,
    'no token in the query unless the route says so'
  )
  t.notMatch(world.logText(), token)
  const line = await world.logged(({ path, status }) => path === '/live' && status === 101)
  t.match(line, { decision: 'allow', reason: undefined })
})

t.test(
  'logout ends the WebSocket, the event stream and the Socket.IO connection of that login, and no other',
  async t => {
    // WS-05, RX-22
    const { token, other } = { token: await world.tokenFor({ id: 41 }), other: await world.tokenFor({ id: 42 }) }
    const [socket, kept] = [open(token), open(other)]
    await Promise.all([next(socket), next(kept)])
    const events = await world.fetch('/events', { token })
    const stream = events.body?.getReader()
    await stream?.read()
    const chat = io(`http://127.0.0.1:${world.port}/messaging`, {
      auth: { token },
      reconnection: false,
      transports: ['websocket']
    })
    t.match(await new Promise(resolve => chat.once('qr', resolve)), /^qr for maria, token undefined$/)
    const ends = [closed(socket), new Promise(resolve => chat.once('disconnect', resolve)), stream?.read()]
    const ownTimeMs = measureOwnTime()
    t.equal((await world.fetch('/auth/logout', { method: 'POST', token })).status, 204)
    const [code, , end] = await Promise.all(ends)
    t.ok(ownTimeMs() < 1000)
    t.equal(code, 4401)
    t.same(end, { done: true, value: undefined })
    const echo = next(kept)
    kept.send('still here')
    t.equal(await echo, 'still here')
    kept.close()
  }
)

t.test('a reload ends exactly what it no longer allows', async t => {
  // Both first: what the backend says at once must find a listener.
  const tokens = [await world.tokenFor({ id: 43 }), await world.tokenFor({ id: 45, profiles: ['Agente', 'Admin'] })]
  const [socket, kept] = [open(tokens[0]), open(tokens[1])]
  await Promise.all([next(socket), next(kept)])
  const gone = closed(socket)
  world.writeRoutes({
    ...config,
    routes: config.routes.map(route => (route.path === '/live' ? { ...route, roles: ['Admin'] } : route))
  })
  await world.gateway.reload()
  t.equal(await gone, 4403)
  const echo = next(kept)
  kept.send('still here')
  t.equal(await echo, 'still here')
  kept.close()
  world.writeRoutes(config)
  await world.gateway.reload()
})

// RW-60
t.test('a reload checks a stream by the method that opened it, and one that is just opening too', async t => {
  const backendRoute = (path: string, role: string, methods?: string[]) => ({
    ...{ path, upstream: 'backend', roles: [role] },
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

t.test('without a valid token no event of a namespace arrives, in either transport', async t => {
  // WS-23, WS-26
  for (const transports of [['websocket'], ['polling']]) {
    for (const auth of [{}, { token: 'x' }, { token: await world.tokenFor({ profiles: ['Supervisor'] }) }]) {
      const chat = io(`http://127.0.0.1:${world.port}/messaging`, {
        auth,
        reconnection: false,
        transports,
        forceNew: true
      })
      const seen: string[] = []
      chat.onAny(event => seen.push(event))
      const error = await new Promise<Error & { data?: { code: string } }>(resolve =>
        chat.once('connect_error', resolve)
      )
      t.match(error.data?.code, /^GW_(UNAUTHENTICATED|FORBIDDEN)$/)
      t.same(seen, [])
      chat.disconnect()
    }
  }
})

t.test('an Admin sees open streams and ends one', async t => {
  // AD-09
  const socket = open(await world.tokenFor({ id: 44, username: 'rui' }))
  await next(socket)
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const list = (await (await world.fetch('/auth/admin/sockets', { token: admin })).json()) as {
    items: { id: string; user: { username: string } }[]
  }
  const item = list.items.find(({ user }) => user.username === 'rui')
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

t.test('a gateway that stops tells its sockets so', async t => {
  const leaving = await startGateway(t, { postgres, config })
  const socket = new WebSocket(`ws://127.0.0.1:${leaving.port}/live`, {
    headers: { authorization: `Bearer ${await world.tokenFor()}` }
  })
  await next(socket)
  const gone = closed(socket)
  await leaving.gateway.close()
  t.equal(await gone, 1012)
})
