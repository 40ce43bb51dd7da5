// What no route owns is answered, a close frame holds its reason and nothing else, and waves of sockets leave nothing behind.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { closePayload } from '../../gateway/websocket/frames.ts'
import { startGateway } from '../support/gateway.ts'
import { openStreams } from '../support/open-streams.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const backend = new WebSocketServer({ port: 0, host: '127.0.0.1' })
backend.on('connection', socket => {
  socket.on('message', data => socket.send(data))
  socket.on('error', () => undefined)
})
t.teardown(() => {
  for (const client of backend.clients) client.terminate()
  backend.close()
})
await once(backend, 'listening')
const { port } = backend.address() as AddressInfo
const gateway = await startGateway(t, {
  env: { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%' },
  config: {
    upstreams: { backend: { url: `http://127.0.0.1:${port}` } },
    routes: [{ path: '/ws', upstream: 'backend', websocket: {} }]
  }
})
const authorization = `Bearer ${await gateway.tokenFor()}`
const count = async () => (await openStreams(gateway)).total

// WS-19
t.test('an upgrade of a path that no route owns is answered, however spelled, and its connection ended', async t => {
  for (const path of ['/nowhere', '/%77s/x', '/%57S', '/', '/socket.io/?EIO=4&transport=websocket']) {
    const raw = await rawWebSocket(gateway.port, { path, headers: { authorization } })
    t.match(raw.head(), /^HTTP\/1\.1 (?:400|404) /, path)
    raw.socket.end()
    await raw.closed
  }
  t.equal(backend.clients.size, 0)
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
      const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/ws`, { headers: { authorization } })
      socket.on('error', () => undefined)
      await new Promise(resolve => socket.once('open', resolve))
      const answer = new Promise<string>(resolve => socket.once('message', data => resolve(String(data))))
      socket.send(`wave ${wave}`)
      t.equal(await answer, `wave ${wave}`)
      return socket
    })
    const sockets = await Promise.all(opened)
    t.equal(await count(), SOCKETS)
    // In turn: the client vanishes, the client closes, the backend vanishes.
    const legs = [...backend.clients]
    for (const [i, socket] of sockets.entries()) {
      if (i % 3 === 0) socket.terminate()
      else if (i % 3 === 1) socket.close(4000)
    }
    for (const leg of legs) if (Math.random() < 0.3) leg.terminate()
    for (const socket of sockets.filter((_, i) => i % 3 === 2)) socket.close()
    await until(async () => backend.clients.size === 0 && (await count()) === 0, `wave ${wave} is gone`)
  }
  // Asking for the list keeps a connection or two for the next question.
  await until(() => resources() <= before + 4, 'every handle and timer is given back')
})
