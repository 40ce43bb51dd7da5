// Whatever ends one side of a WebSocket, the other gets its close code, what came before is delivered, and nothing stays open.
// Ends of rights within a second, on two instances: test/account/endings.test.ts.
import t, { type Test } from 'tap'
import { shiftClocks } from '../support/clocks.ts'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { measureWork, within } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import {
  buildFrame,
  closeCodeIn,
  closePayload,
  rawWebSocket,
  startWebSocketUpstream,
  switchingProtocols,
  upgradeText
} from '../support/raw-websocket.ts'
import { actor, openStore, person } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

/** One route to one backend. */
const live = (url: string, websocket: object = {}, more: object = {}) =>
  routesTo(url, [{ path: '/ws', websocket, ...more }])

const startLive = (t: Test, url: string, websocket = {}, env = {}) =>
  startGateway(t, { postgres, config: live(url, websocket), env })

/** An upstream of bytes: it accepts, then the test speaks. */
const world = async (t: Test, websocket = {}, env = {}) => {
  const upstream = await startWebSocketUpstream(t)
  const gateway = await startLive(t, upstream.url, websocket, env)
  const open = async (user = {}, version = 0, behind = Buffer.alloc(0)) => {
    const token = await gateway.tokenFor(user, { ver: version })
    const before = upstream.peers.length
    const raw = await rawWebSocket(gateway.port, { headers: { authorization: `Bearer ${token}` }, behind })
    await until(() => upstream.peers.length > before, 'joined')
    const peer = upstream.peers[before]
    if (peer === undefined) throw new Error('no peer')
    return { raw, peer, token }
  }
  const quiet = () => until(async () => upstream.open() === 0 && (await gateway.openStreams()).total === 0, 'quiet')
  const swap = async (more: object) => {
    gateway.writeRoutes(live(upstream.url, websocket, more))
    await gateway.gateway.reload()
  }
  return { upstream, gateway, open, quiet, swap }
}

const logout = async (gateway: World, token: string) => {
  const { status } = await gateway.fetch('/auth/logout', { method: 'POST', token })
  if (status !== 204) throw new Error(`logout was answered ${status}`)
}

// WS-14, WS-16
t.test('a side that vanishes ends the other: 1011 when it was the upstream, 1001 when the client', async t => {
  const { open, quiet, gateway } = await world(t)
  const first = await open()
  first.peer.socket.resetAndDestroy()
  await first.raw.closed
  t.equal(first.raw.closeCode(), 1011)
  const second = await open()
  second.raw.socket.resetAndDestroy()
  await until(() => closeCodeIn(second.peer.received) !== undefined, 'told')
  t.equal(closeCodeIn(second.peer.received), 1001)
  await quiet()

  // While the client takes nothing, the reset is not read, but a write fails.
  const { raw, peer } = await open()
  raw.socket.pause()
  for (let i = 0; i < 30; i++) peer.socket.write(buildFrame(2, Buffer.alloc(1_000_000), false))
  const taken = () => peer.socket.bytesWritten - peer.socket.writableLength
  let before = -1
  await until(async () => {
    const isStalled = taken() === before
    before = taken()
    await gateway.fetch('/health')
    return isStalled
  }, 'stalled')
  peer.socket.resetAndDestroy()
  raw.send(1, 'into the void')
  t.ok(await within(quiet(), 5000), 'at once, not when it has been stalled for a minute')
})

t.test('a client that leaves at the moment at which its upgrade is accepted leaves nothing open', async t => {
  const upstream = await startRawUpstream(t)
  upstream.respond(() => undefined)
  const gateway = await startLive(t, upstream.url)
  const client = await gateway.connect()
  client.send(upgradeText({ headers: { authorization: `Bearer ${await gateway.tokenFor()}` } }))
  const { head, socket } = await upstream.request()
  // The gateway gets both in one turn, in this order.
  client.destroy()
  socket.write(switchingProtocols(head))
  const over = until(async () => upstream.open() === 0 && (await gateway.openStreams()).total === 0, 'over')
  t.ok(await within(over, 5000), 'at once, not when pings have not been answered')
})

// WS-11, WS-13
t.test('what a client does wrong ends in 1002, 1007 or 1009 and a clean close upstream', async t => {
  const { open, quiet } = await world(t, { maxMessage: 1000 })
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
    await until(() => closeCodeIn(peer.received) === 1001, `${name}: told`)
  }
  await quiet()
})

t.test('another route that a path may be read as ends a socket when it no longer admits it', async t => {
  const { users } = await openStore(t, postgres, postgres.url)
  const upstream = await startWebSocketUpstream(t)
  const configFor = (role: string) =>
    routesTo(upstream.url, [
      { path: '/api/*', websocket: {} },
      { path: '/api/reports', roles: [role], websocket: {} }
    ])
  const gateway = await startGateway(t, { postgres, config: configFor('Supervisor') })
  const { user } = await users.syncPerson(person('eva'))
  const give = async (...profiles: string[]) => {
    await users.setAccess(actor, user.id, { profiles, areas: ['Oeste'], areaPrincipal: 'Oeste' })
    return (await users.loadPerson(user.id))?.version ?? 0
  }
  await users.createArea(actor, 'Oeste')
  const open = async (ver: number, profiles: string[]) => {
    const token = await gateway.tokenFor({ id: user.id, username: user.username, profiles }, { ver })
    return rawWebSocket(gateway.port, { path: '/api/reports.json', headers: { authorization: `Bearer ${token}` } })
  }
  const demoted = await open(await give('Supervisor'), ['Supervisor'])
  t.match(demoted.head(), '101')
  const version = await give('Agente')
  await demoted.closed
  t.equal(demoted.closeCode(), 4403)
  t.match((await open(version, ['Agente'])).head(), '400')

  const reloaded = await open(await give('Supervisor'), ['Supervisor'])
  gateway.writeRoutes(configFor('Admin'))
  t.ok(await gateway.gateway.reload())
  await reloaded.closed
  t.equal(reloaded.closeCode(), 4403)
})

// RV-51
t.test('a reload ends sockets whose route no longer takes them', async t => {
  const { open, gateway, upstream, swap } = await world(t)
  for (const more of [{ upstream: 'raw' }, { external: true }]) {
    const { raw } = await open()
    gateway.writeRoutes(routesTo(upstream.url, [{ path: '/ws', ...more }]))
    t.ok(await gateway.gateway.reload())
    await raw.closed
    t.equal(raw.closeCode(), 4403)
    await swap({})
  }
})

t.test('an end within a large frame waits for its rest, and nothing of the next one is delivered', async t => {
  const clocks = shiftClocks(t)
  const { open, gateway } = await world(t)
  const { raw, peer, token } = await open()
  const frame = buildFrame(2, Buffer.alloc(1000, 1), false)
  peer.socket.write(frame.subarray(0, 500))
  await until(() => raw.frames().length === 500, 'half')
  const go = clocks.stopMonotonic()
  await logout(gateway, token)
  await new Promise(resolve => setImmediate(() => setImmediate(resolve)))
  peer.socket.write(Buffer.concat([frame.subarray(500), buildFrame(1, Buffer.from('secret'), false)]))
  await until(() => raw.closeCode() === 4401, 'told')
  t.notMatch(raw.frames().toString('latin1'), 'secret')
  go()
  const second = await open()
  second.peer.socket.write(frame.subarray(0, 500))
  await until(() => second.raw.frames().length === 500, 'half')
  await logout(gateway, second.token)
  t.ok(await within(second.raw.closed, 1000), 'a frame that is never finished does not hold the socket')
})

// WS-15
t.test('a silent side is pinged, and dead after two pings without an answer', async t => {
  const clocks = shiftClocks(t)
  const { open, quiet } = await world(t)
  const { raw, peer } = await open()
  const pings = () => raw.frames().filter(byte => byte === 0x89).length
  for (const round of [1, 2]) {
    clocks.monotonicMs += 31_000
    // Only the upstream answers.
    peer.socket.write(buildFrame(1, Buffer.from(`alive ${round}`), false))
    await until(() => raw.frames().includes(`alive ${round}`) && pings() === round, `ping ${round}`)
  }
  clocks.monotonicMs += 31_000
  await raw.closed
  await until(() => closeCodeIn(peer.received) === 1001, 'the upstream is told')
  clocks.monotonicMs += 5000
  await quiet()
})

t.test('idle time and lifetime of a route end a socket with 1001', async t => {
  const clocks = shiftClocks(t)
  const { open } = await world(t, { idleTimeout: '5s', maxLifetime: '60s' })
  const idle = await open()
  clocks.monotonicMs += 5001
  await until(() => idle.raw.closeCode() === 1001, 'idle')
  const lived = await open()
  clocks.wallMs += 60_001
  await until(() => lived.raw.closeCode() === 1001, 'lifetime over')
})

// WS-17
t.test('draining spreads 1012 over the time given, and sockets that ignore it are cut', async t => {
  const { open, gateway, upstream } = await world(t, {}, { DRAIN_TIMEOUT: '2s' })
  const sockets: Awaited<ReturnType<typeof open>>[] = []
  for (let i = 0; i < 20; i++) sockets.push(await open())
  const told = () => sockets.filter(({ raw }) => raw.closeCode() === 1012).length
  const drained = gateway.gateway.close()
  await until(() => told() > 0, 'the first is told')
  t.ok(told() < 20, 'not all at once')
  t.ok(await within(Promise.all(sockets.map(({ raw }) => raw.closed)), 2500))
  t.equal(told(), 20)
  await drained
  await until(() => upstream.open() === 0, 'no upstream socket is left')
})

const text = (words: string, isMasked: boolean) => buildFrame(1, Buffer.from(words), isMasked)

t.test('a message in front of a malformed frame is delivered, from either side', async t => {
  const { open } = await world(t)
  const malformed = Buffer.concat([text('last words', true), Buffer.from([0x83, 0x80, 0, 0, 0, 0])])
  const first = await open()
  first.raw.socket.write(malformed)
  await until(() => first.raw.closeCode() === 1002, 'closed')
  await until(() => first.peer.received.length > 16, 'delivered')
  const second = await open()
  second.peer.socket.write(Buffer.concat([text('last words', false), Buffer.from([0x83, 0x00])]))
  await until(() => second.raw.closeCode() === 1011, 'closed')
  t.match(second.raw.frames().toString('latin1'), 'last words')
  const behind = await open({}, 0, malformed)
  await until(() => behind.raw.closeCode() === 1002, 'closed')
})

// RW-34, RV-113
t.test("a backend's message over maxMessage is named to both sides and logged", async t => {
  const { open, gateway } = await world(t, { maxMessage: 1000 })
  const { raw, peer } = await open()
  peer.socket.write(buildFrame(1, Buffer.alloc(1001, 'x'), false))
  await until(() => raw.closeCode() === 1011, 'closed')
  t.match(raw.frames().toString('latin1'), 'upstream message too big')
  t.match(await gateway.logged(({ side }) => side === 'upstream'), {
    ...{ level: 40, code: 1009, reason: 'message too big', upstream: 'raw', route: '/ws', maxMessage: 1000 }
  })
  await until(() => closeCodeIn(peer.received) === 1009, 'told')
})

// WS-21, RW-06
t.test('floods of pings, of one-byte messages and of fragments end their senders, and /health stays quick', async t => {
  const clocks = shiftClocks(t)
  const { open, gateway } = await world(t)
  const frame = (first: number) => Buffer.from([first, 0x81, 0, 0, 0, 0, 120])
  const floods = {
    pings: Buffer.alloc(60_000 * 6, Buffer.from([0x89, 0x80, 0, 0, 0, 0])),
    messages: Buffer.alloc(60_000 * 7, frame(0x81)),
    fragments: Buffer.concat([frame(0x01), Buffer.alloc(60_000 * 7, frame(0x00))])
  }
  for (const [name, bytes] of Object.entries(floods)) {
    const sockets: Awaited<ReturnType<typeof open>>['raw'][] = []
    for (let i = 0; i < 20; i++) sockets.push((await open()).raw)
    // All of it within one second, however slow the machine is.
    const go = clocks.stopMonotonic()
    for (const { socket } of sockets) socket.write(bytes)
    // The gateway is in this process: what it does before it answers counts, whatever else the machine does.
    const work = measureWork()
    t.equal((await gateway.fetch('/health')).status, 200)
    const workMs = work()
    t.ok(workMs < 1000, `${name}: /health after ${workMs} ms of work`)
    for (const { closeCode } of sockets) await until(() => closeCode() !== undefined, name)
    go()
    await Promise.all(sockets.map(({ closed }) => closed))
    t.same(new Set(sockets.map(({ closeCode }) => closeCode())), new Set([1008]), name)
  }
})

t.test('more messages within a second than the route allows end the connection; a steady talker stays', async t => {
  const { open } = await world(t, { messagesPerSecond: 10 })
  const steady = await open()
  for (let i = 0; i < 5; i++) steady.raw.send(1, 'x')
  const { raw } = await open()
  for (let i = 0; i < 25; i++) raw.send(1, 'x')
  await until(() => raw.closeCode() === 1008, 'closed')
  steady.peer.socket.write(text('here', false))
  await until(() => steady.raw.frames().includes('here'), 'alive')
  steady.raw.socket.destroy()
})
