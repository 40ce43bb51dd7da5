// Whatever ends one side of a WebSocket, the other is told, and nothing stays open.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type net from 'node:net'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { Identity } from '../../gateway/identity.ts'
import { buildFrame, closePayload } from '../../gateway/websocket/frames.ts'
import { acceptOf } from '../../gateway/websocket/handshake.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { person, routeAt, upstreamAt, WEBSOCKET } from '../support/routes.ts'
import { startHarness, startRawUpstream } from '../support/socket-harness.ts'
import { until } from '../support/until.ts'

/** An upstream of bytes: it accepts, then the test speaks. */
const world = async (t: Test, websocket = {}, harness = {}) => {
  const peers: { socket: net.Socket; received: Buffer }[] = []
  const upstream = await startRawUpstream(t, socket => {
    socket.once('data', bytes => {
      const key = /sec-websocket-key: (.*)\r\n/.exec(bytes.toString())?.[1] ?? ''
      const peer = { socket, received: Buffer.alloc(0) }
      socket.on('data', more => {
        peer.received = Buffer.concat([peer.received, more])
      })
      socket.write(
        `HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptOf(key)}\r\n\r\n`
      )
      peers.push(peer)
    })
  })
  const route = routeAt('/ws', upstreamAt(upstream.port), { websocket: { ...WEBSOCKET, ...websocket } })
  const gateway = await startHarness(t, { times: { closeMs: 300 }, ...harness, routes: [route] })
  const open = async (user = {}, version = 0) => {
    const token = await gateway.tokenFor(user, version)
    const raw = await rawWebSocket(gateway.port, { headers: { authorization: `Bearer ${token}` } })
    await until(() => peers.length > 0, 'joined')
    const peer = peers.at(-1)
    if (peer === undefined) throw new Error('no peer')
    return { raw, peer, token }
  }
  const quiet = () =>
    until(
      () => gateway.relays.size === 0 && gateway.streams.list(1, 1).total === 0 && upstream.sockets.size === 0,
      'quiet'
    )
  return { upstream, gateway, open, quiet, route }
}

/** Close code in masked frames from the gateway to an upstream, when a close is the last frame. */
const upstreamCloseCode = (received: Buffer): number | undefined => {
  for (let i = 0; i + 8 <= received.length; i++) {
    if (received[i] !== 0x88) continue
    const length = (received[i + 1] ?? 0) & 127
    if (i + 6 + length !== received.length) continue
    return ((received[i + 6] ?? 0) ^ (received[i + 2] ?? 0)) * 256 + ((received[i + 7] ?? 0) ^ (received[i + 3] ?? 0))
  }
  return undefined
}

// WS-14, WS-16
const endOf = ({ tokenId, expiresAt }: Identity) => ({ jti: tokenId, expiresAt })

t.test(
  'a side that vanishes without a word is told of to the other: 1011 for the upstream, 1001 for the client',
  async t => {
    const { open, quiet } = await world(t)
    const first = await open()
    first.peer.socket.resetAndDestroy()
    await first.raw.closed
    t.equal(first.raw.closeCode(), 1011)
    const second = await open()
    second.raw.socket.resetAndDestroy()
    await until(() => upstreamCloseCode(second.peer.received) !== undefined, 'told')
    t.equal(upstreamCloseCode(second.peer.received), 1001)
    await quiet()
  }
)

t.test('kill -9 of an upstream process is a 1011 for its clients, and no socket is left', async t => {
  const child = fork(new URL('../support/echo-upstream.ts', import.meta.url), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  const gateway = await startHarness(t, { routes: [routeAt('/ws', upstreamAt(port), { websocket: WEBSOCKET })] })
  const authorization = `Bearer ${await gateway.tokenFor()}`
  const sockets = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const socket = new WebSocket(`${gateway.ws}/ws`, { headers: { authorization } })
      await once(socket, 'open')
      return socket
    })
  )
  const codes = Promise.all(sockets.map(async socket => (await once(socket, 'close'))[0]))
  child.kill('SIGKILL')
  t.same(await codes, new Array(10).fill(1011))
  await until(() => gateway.relays.size === 0, 'no relay is left')
})

// WS-11, WS-13
t.test('what a client does wrong ends in 1002, 1007, 1008 or 1009 and a clean close upstream', async t => {
  const { open, quiet } = await world(t, { maxMessageBytes: 1000 })
  const unmasked = buildFrame(1, Buffer.from('hi'), false)
  const reserved = buildFrame(1, Buffer.from('hi'), true)
  reserved[0] = 0xc1
  const cases: [string, Buffer, number][] = [
    ['an unmasked frame', unmasked, 1002],
    ['a reserved bit', reserved, 1002],
    ['a reserved opcode', buildFrame(3, Buffer.alloc(0), true), 1002],
    ['a ping that is too long', buildFrame(9, Buffer.alloc(126), true), 1002],
    ['text that is no UTF-8', buildFrame(1, Buffer.from([0xff, 0xfe]), true), 1007],
    ['close code 1005', buildFrame(8, closePayload(1005, ''), true), 1002],
    ['a close body of one byte', buildFrame(8, Buffer.from([3]), true), 1002],
    ['a close reason that is no UTF-8', buildFrame(8, Buffer.from([3, 0xe8, 0xff]), true), 1007],
    ['a message over the limit', buildFrame(2, Buffer.alloc(1001), true), 1009]
  ]
  for (const [name, bytes, code] of cases) {
    const { raw, peer } = await open()
    raw.socket.write(bytes)
    await raw.closed
    t.equal(raw.closeCode(), code, name)
    await until(() => upstreamCloseCode(peer.received) === 1001, `${name}: told`)
  }
  await quiet()
})

t.test('what an upstream does wrong ends in 1011 for the client', async t => {
  const { open, quiet } = await world(t)
  const { raw, peer } = await open()
  peer.socket.write(buildFrame(1, Buffer.from('masked'), true))
  await raw.closed
  t.equal(raw.closeCode(), 1011)
  await quiet()
})

// WS-05
t.test('expiry, logout, lost role and a reloaded route each end exactly their sockets, within a second', async t => {
  let now = Date.now()
  const access = new Map([
    [1, { user: person({ id: 1, profiles: ['Supervisor'] }), version: 1 }],
    [2, { user: person({ id: 2 }), version: 1 }]
  ])
  const { open, gateway, route } = await world(
    t,
    {},
    {
      now: () => now,
      freshAccess: async (id: number) => access.get(id)
    }
  )
  gateway.swapRoutes([{ ...route, roles: ['Agente'] }])
  const demoted = await open({ id: 1 })
  const renamed = await open({ id: 2 })
  const revoked = await open({ id: 3 })
  const bystander = await open({ id: 4 })
  const started = performance.now()
  gateway.revocations.learn({
    tokens: [endOf(gateway.verified.identify(revoked.token))],
    versions: [
      { userId: 1, version: 1, lowestAccepted: 0 },
      { userId: 2, version: 1, lowestAccepted: 0 }
    ]
  })
  await Promise.all([demoted.raw.closed, revoked.raw.closed].map(closed => closed.then(() => undefined)))
  await until(() => demoted.raw.closeCode() === 4403 && revoked.raw.closeCode() === 4401, 'told', 1000)
  t.ok(performance.now() - started < 2500)
  t.equal(renamed.raw.closeCode(), undefined, 'stale, but still allowed: keeps its stream')
  t.equal(bystander.raw.closeCode(), undefined)
  gateway.swapRoutes([{ ...route, roles: ['Admin'] }])
  await until(() => renamed.raw.closeCode() === 4403 && bystander.raw.closeCode() === 4403, 'told', 1000)
  gateway.swapRoutes([route])
  const old = await open({ id: 5 })
  now += 3_600_001
  gateway.streams.tick()
  await until(() => old.raw.closeCode() === 4401, 'told', 1000)
})

t.test(
  'an end in the middle of a large frame waits for its rest, and nothing of the next one is delivered',
  async t => {
    const { open, gateway } = await world(t)
    const { raw, peer, token } = await open()
    const frame = buildFrame(2, Buffer.alloc(1000, 1), false)
    peer.socket.write(frame.subarray(0, 500))
    await until(() => raw.frames().length === 500, 'half')
    gateway.revocations.learn({ tokens: [endOf(gateway.verified.identify(token))] })
    await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
    peer.socket.write(Buffer.concat([frame.subarray(500), buildFrame(1, Buffer.from('secret'), false)]))
    await until(() => raw.closeCode() === 4401, 'told')
    t.notMatch(raw.frames().toString('latin1'), 'secret')
    const second = await open()
    second.peer.socket.write(frame.subarray(0, 500))
    await until(() => second.raw.frames().length === 500, 'half')
    gateway.revocations.learn({ tokens: [endOf(gateway.verified.identify(second.token))] })
    const started = performance.now()
    await second.raw.closed
    t.ok(performance.now() - started < 1000, 'a frame that is never finished does not hold the socket')
  }
)

// WS-15
t.test('a silent side is pinged, and dead after two pings without an answer', async t => {
  let at = 0
  const { open, gateway, quiet } = await world(t, {}, { monotonic: () => at })
  const { raw, peer } = await open()
  raw.socket.on('data', () => undefined)
  for (let i = 0; i < 2; i++) {
    at += 31_000
    // Only the upstream answers.
    peer.socket.write(buildFrame(1, Buffer.from('alive'), false))
    await until(() => raw.frames().includes('alive'), 'passed')
    gateway.relays.sweep()
  }
  await until(() => raw.frames().filter(byte => byte === 0x89).length >= 2, 'pinged twice')
  at += 31_000
  peer.socket.write(buildFrame(1, Buffer.from('again'), false))
  await until(() => raw.frames().includes('again'), 'passed')
  gateway.relays.sweep()
  await raw.closed
  await until(() => upstreamCloseCode(peer.received) === 1001, 'the upstream is told')
  at += 5000
  gateway.relays.sweep()
  await quiet()
})

t.test('idle time and lifetime of a route end a socket with 1001', async t => {
  let at = 0
  let now = Date.now()
  const { open, gateway } = await world(
    t,
    { idleTimeoutMs: 5000, maxLifetimeMs: 60_000 },
    { monotonic: () => at, now: () => now }
  )
  const idle = await open()
  at += 5001
  gateway.relays.sweep()
  await until(() => idle.raw.closeCode() === 1001, 'idle')
  const lived = await open()
  now += 60_001
  gateway.streams.tick()
  await until(() => lived.raw.closeCode() === 1001, 'lifetime over')
})

// WS-21
t.test('a flood of pings ends in 1008', async t => {
  const { open } = await world(t)
  const { raw, peer } = await open()
  raw.socket.write(Buffer.concat(new Array(500).fill(buildFrame(9, Buffer.from('x'), true))))
  await until(() => raw.closeCode() === 1008, 'told')
  t.ok(peer.received.length < 500 * 7, 'no timer was waited for')
})

// WS-17
t.test('draining spreads 1012 over the time given, and sockets that ignore it are cut', async t => {
  const { open, gateway, quiet } = await world(t, {}, { times: { closeMs: 200 } })
  const sockets = []
  for (let i = 0; i < 20; i++) sockets.push(await open())
  const at: number[] = []
  const started = performance.now()
  for (const { raw } of sockets) void raw.closed.then(() => at.push(performance.now() - started))
  await gateway.streams.drain(1000)
  await Promise.all(sockets.map(({ raw }) => raw.closed))
  t.ok(sockets.every(({ raw }) => raw.closeCode() === 1012))
  t.ok((at.at(-1) ?? 0) - (at[0] ?? 0) > 150, 'not all at once')
  t.ok((at.at(-1) ?? 0) < 1500)
  await quiet()
})

t.test('an administrator sees a socket and can end it', async t => {
  const { open, gateway, quiet } = await world(t)
  const { raw } = await open({ id: 12, username: 'ana' })
  const { items, total } = gateway.streams.list(1, 50)
  t.equal(total, 1)
  t.match(items[0], { kind: 'websocket', user: { id: 12, username: 'ana' }, route: '/ws', ip: '127.0.0.1' })
  t.ok(gateway.streams.end(items[0]?.id ?? ''))
  t.notOk(gateway.streams.end('nobody'))
  await until(() => raw.closeCode() === 4403, 'told')
  raw.close(1000)
  await quiet()
})

t.test('WebSocketServer peers see the close of a gateway end as clean', async t => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  t.teardown(() => new Promise(resolve => server.close(resolve)))
  const route = routeAt('/ws', upstreamAt((server.address() as AddressInfo).port), { websocket: WEBSOCKET })
  const gateway = await startHarness(t, { routes: [route] })
  const token = await gateway.tokenFor()
  const connected = once(server, 'connection')
  const socket = new WebSocket(`${gateway.ws}/ws`, { headers: { authorization: `Bearer ${token}` } })
  await once(socket, 'open')
  const [peer] = (await connected) as [WebSocket]
  const both = Promise.all([once(socket, 'close'), once(peer, 'close')])
  gateway.revocations.learn({ tokens: [endOf(gateway.verified.identify(token))] })
  const [[clientCode], [peerCode]] = await both
  t.equal(clientCode, 4401)
  t.equal(peerCode, 1001)
})
