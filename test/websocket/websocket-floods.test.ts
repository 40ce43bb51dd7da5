// What one side does wrong costs that side: faults are told by their names, floods end, and the rest is delivered.
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import t, { type Test } from 'tap'
import { acceptOf, buildFrame } from '../support/frames.ts'
import { startGateway } from '../support/gateway.ts'
import { measureWork } from '../support/own-time.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const world = async (t: Test, websocket: object = {}) => {
  const received: Buffer[] = []
  const sockets: Socket[] = []
  const backend = createServer((_req, res) => res.end('ok'))
  backend.on('upgrade', (req, socket: Socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.on('data', bytes => received.push(bytes))
    const accept = acceptOf(req.headers['sec-websocket-key'] ?? '')
    socket.write(
      `HTTP/1.1 101 S\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: ${accept}\r\n\r\n`
    )
  })
  const port = await listen(t, backend)
  const gateway = await startGateway(t, {
    postgres,
    config: {
      upstreams: { backend: { url: `http://127.0.0.1:${port}` } },
      routes: [{ path: '/live', upstream: 'backend', websocket }]
    }
  })
  const authorization = `Bearer ${await gateway.tokenFor()}`
  const open = async (behind?: Buffer) => {
    const before = sockets.length
    const client = await rawWebSocket(gateway.port, {
      path: '/live',
      headers: { authorization },
      ...(behind === undefined ? {} : { behind })
    })
    const upstream = sockets[before]
    if (upstream === undefined) throw new Error('no upstream socket')
    return { client, upstream }
  }
  return { gateway, open, received: () => Buffer.concat(received) }
}

const unmasked = (text: string) => buildFrame(1, Buffer.from(text), false)
const MALFORMED = Buffer.from([0x83, 0x00])

t.test('a message in front of a malformed frame is delivered, from either side', async t => {
  const { open, received } = await world(t)
  const first = await open()
  first.client.socket.write(
    Buffer.concat([buildFrame(1, Buffer.from('last words'), true), Buffer.from([0x83, 0x80, 0, 0, 0, 0])])
  )
  await until(() => first.client.closeCode() === 1002, 'closed')
  await until(() => received().length > 16, 'delivered')
  const second = await open()
  second.upstream.write(Buffer.concat([unmasked('last words'), MALFORMED]))
  await until(() => second.client.closeCode() === 1011, 'closed')
  t.match(second.client.frames().toString('latin1'), 'last words')
  const behind = await open(
    Buffer.concat([buildFrame(1, Buffer.from('early'), true), Buffer.from([0x83, 0x80, 0, 0, 0, 0])])
  )
  await until(() => behind.client.closeCode() === 1002, 'closed')
})

// RW-34, RV-113
t.test("a backend's message over maxMessage is named to both sides and logged", async t => {
  const { open, gateway, received } = await world(t, { maxMessage: 1000 })
  const { client, upstream } = await open()
  upstream.write(buildFrame(1, Buffer.alloc(1001, 'x'), false))
  await until(() => client.closeCode() === 1011, 'closed')
  t.match(client.frames().toString('latin1'), 'upstream message too big')
  const line = await gateway.logged(({ side }) => side === 'upstream')
  t.match(line, {
    level: 40,
    code: 1009,
    reason: 'message too big',
    upstream: 'backend',
    route: '/live',
    maxMessage: 1000
  })
  await until(() => received().length >= 8, 'told')
  const [mask, code] = [received().subarray(2, 6), received().subarray(6, 8)]
  t.equal(Buffer.from(code.map((byte, i) => byte ^ (mask[i] ?? 0))).readUInt16BE(), 1009)
})

// WS-21, RW-06
t.test('floods of pings, of one-byte messages and of fragments end their senders, and /health stays quick', async t => {
  const { open, gateway } = await world(t)
  const frame = (first: number) => Buffer.from([first, 0x81, 0, 0, 0, 0, 120])
  const floods = {
    pings: Buffer.alloc(140_000 * 6, Buffer.from([0x89, 0x80, 0, 0, 0, 0])),
    messages: Buffer.alloc(140_000 * 7, frame(0x81)),
    fragments: Buffer.concat([frame(0x01), Buffer.alloc(140_000 * 7, frame(0x00))])
  }
  for (const [name, bytes] of Object.entries(floods)) {
    const sockets = await Promise.all(Array.from({ length: 20 }, () => open()))
    for (const { client } of sockets) client.socket.write(bytes)
    // The gateway is in this process: what it does before it answers counts, whatever else the machine does.
    const work = measureWork()
    t.equal((await gateway.fetch('/health')).status, 200)
    const workMs = work()
    t.ok(workMs < 1000, `${name}: /health after ${workMs} ms of work`)
    await Promise.all(sockets.map(({ client }) => client.closed))
    t.ok(
      sockets.every(({ client }) => client.closeCode() === 1008 || client.closeCode() === undefined),
      name
    )
  }
})

t.test('more messages within a second than the route allows end the connection; a steady talker stays', async t => {
  const { open } = await world(t, { messagesPerSecond: 10 })
  const steady = await open()
  for (let i = 0; i < 5; i++) steady.client.send(1, 'x')
  const { client } = await open()
  for (let i = 0; i < 25; i++) client.send(1, 'x')
  await until(() => client.closeCode() === 1008, 'closed')
  steady.upstream.write(buildFrame(1, Buffer.from('here'), false))
  await until(() => steady.client.frames().includes('here'), 'alive')
  steady.client.socket.destroy()
})
