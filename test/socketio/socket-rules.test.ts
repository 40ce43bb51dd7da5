// Sockets need a route that still carries them, an upgrade that is one, a checked token, and Engine.IO's own path.
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from 'socket.io'
import { io } from 'socket.io-client'
import t from 'tap'
import { WebSocketServer } from 'ws'
import { closeSoon } from '../support/engine-closing.ts'
import { startGateway } from '../support/gateway.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'

/** Answers HTTP, WebSocket and Socket.IO, and keeps the heads of requests. */
const startBackend = async () => {
  const heads: { path: string; authorization: string | undefined }[] = []
  const server = http.createServer((_, res) => res.end('plain'))
  const sockets = new WebSocketServer({ noServer: true })
  const chat = new Server({ transports: ['polling', 'websocket'] })
  chat.attach(server)
  closeSoon(chat.engine)
  chat.of('/chat')
  server.on('request', ({ url = '', headers }) => heads.push({ path: url, authorization: headers.authorization }))
  server.on('upgrade', (request, socket, head) => {
    if (request.url?.startsWith('/socket.io')) return
    heads.push({ path: request.url ?? '', authorization: request.headers.authorization })
    sockets.handleUpgrade(request, socket, head, client => client.on('message', data => client.send(String(data))))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const client of sockets.clients) client.terminate()
    server.closeAllConnections()
    return chat.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, heads }
}

const backend = await startBackend()
const upstreams = { up: { url: backend.url } }
const CHAT = { path: '/socket.io/*', upstream: 'up', socketio: { namespaces: { '/chat': { roles: ['Agente'] } } } }
const world = await startGateway(t, {
  config: {
    upstreams,
    routes: [
      { path: '/ws', upstream: 'up', websocket: {}, forwardToken: true },
      { path: '/ws2', upstream: 'up', websocket: {} },
      CHAT
    ]
  },
  env: { OPS_PORT: '0' }
})
const token = await world.tokenFor()

const bearer = { authorization: `Bearer ${token}` }
const open = (path: string, headers: Record<string, string>) => rawWebSocket(world.port, { path, headers })

// RV-52
t.test('without Connection: Upgrade, a request is no upgrade', async t => {
  for (const connection of ['', 'close', 'keep-alive', 'upgraded']) {
    const { head, socket } = await open('/ws', { ...bearer, connection })
    t.match(head(), /^HTTP\/1\.1 200 /, connection)
    socket.destroy()
  }
  const { head, socket } = await open('/ws', { ...bearer, connection: 'keep-alive, Upgrade' })
  t.match(head(), /^HTTP\/1\.1 101 /)
  socket.destroy()
})

// RV-53
t.test('beside a token in the subprotocol, no other Authorization reaches the backend', async t => {
  for (const authorization of ['Token x', 'Basic eDp5', 'Bearer "x"', 'Bearer\tx', 'Digest a="b"']) {
    const { head, socket } = await open('/ws', { authorization, 'sec-websocket-protocol': `bearer, ${token}` })
    t.match(head(), /^HTTP\/1\.1 101 /)
    t.match(backend.heads.at(-1), { path: '/ws', authorization: undefined }, authorization)
    socket.destroy()
  }
  const { socket } = await open('/ws', bearer)
  t.match(backend.heads.at(-1), bearer)
  socket.destroy()
})

// RV-54
t.test('only the path of Engine.IO itself passes without a token', async t => {
  const before = backend.heads.length
  for (const path of ['/socket.io/jobs/run-now', '/socket.io/x/']) {
    const response = await world.fetch(`${path}?EIO=4&transport=polling`)
    t.equal(response.status, 400)
    t.match(await response.json(), { code: 'GW_BAD_REQUEST' })
  }
  t.equal(backend.heads.length, before)
  t.equal((await world.fetch('/socket.io/?EIO=4&transport=polling')).status, 200)
})

// RV-56
t.test('a refused CONNECT is logged with its namespace, reason and user, and counted', async t => {
  for (const transport of ['polling', 'websocket']) {
    const attempt = (auth: Record<string, unknown>) => {
      const client = io(`${world.url}/chat`, { transports: [transport], auth, forceNew: true, reconnection: false })
      t.teardown(() => client.close())
      return once(client as never, 'connect_error') as Promise<[Error & { data?: unknown }]>
    }
    t.match(await attempt({}), [{ data: { code: 'GW_UNAUTHENTICATED' } }])
    const supervisor = await world.tokenFor({ profiles: ['Supervisor'], username: `s-${transport}` })
    t.match(await attempt({ token: supervisor }), [{ data: { code: 'GW_FORBIDDEN' } }])
    await world.logged(({ msg, user }) => msg === 'refused a Socket.IO CONNECT' && user === `s-${transport}`)
  }
  const lines = world.log.filter(({ msg }) => msg === 'refused a Socket.IO CONNECT')
  t.same(
    lines.map(({ namespace, reason }) => `${namespace} ${reason}`),
    ['/chat no-token', '/chat role-missing', '/chat no-token', '/chat role-missing']
  )
  const metrics = await (await fetch(`http://127.0.0.1:${world.gateway.opsPort}/metrics`)).text()
  t.match(metrics, /portaria_refusals_total\{code="GW_FORBIDDEN",reason="role-missing"\} 2/)
})

// RV-51
t.test('a reload ends sockets whose route no longer takes them', async t => {
  const sockets = [await open('/ws', bearer), await open('/ws2', bearer)]
  world.writeRoutes({ upstreams, routes: [{ path: '/ws', upstream: 'up' }, { path: '/ws2', external: true }, CHAT] })
  t.ok(await world.gateway.reload())
  await Promise.all(sockets.map(({ closed }) => closed))
  t.same(
    sockets.map(({ closeCode }) => closeCode()),
    [4403, 4403]
  )
})
