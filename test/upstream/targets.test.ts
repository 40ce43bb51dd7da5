// What the options for targets do to requests; ages, hosts and TLS of their connections. What stays over a reload: pool-model.test.ts.
import http from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { createUpstreamPool } from '../../gateway/upstream/upstream-pool.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { shiftClocks } from '../support/clocks.ts'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, type RawRequest, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { inUse, targetAt, upstreamAt } from '../support/routes.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const open = (upstream: Record<string, unknown>) =>
  routesTo(upstream, [
    { path: '/open/*', public: true },
    { path: '/socket', public: true, websocket: {} }
  ])

const BUSY = 'HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy'
const text = async (world: World, path = '/open/x') => (await world.fetch(path)).text()
const downs = (world: World) =>
  world.log.filter(({ msg }) => msg === 'an upstream target is down').map(({ target, reason }) => [target, reason])

t.test('a target that answers 503 at once does not attract the traffic', async t => {
  // RV-08
  const [sick, well] = [await startRawUpstream(t), await startRawUpstream(t)]
  sick.respond(() => BUSY)
  well.respond(() => socket => setTimeout(() => socket.write(OK), 50))
  // Whenever its rest is over, it errs twice more.
  const upstream = { targets: [sick.url, well.url], outlier: { for: '1h' } }
  const world = await startGateway(t, { postgres, config: open(upstream) })
  const agent = new http.Agent({ keepAlive: true })
  t.teardown(() => agent.destroy())
  const counts = { 200: 0, 503: 0 }
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      http
        .get(`${world.url}/open/x`, { agent }, res => {
          counts[res.statusCode as 200]++
          res.resume().on('end', resolve)
        })
        .on('error', reject)
    })
  const client = async () => {
    while (counts[200] < 2500) await ask()
  }
  await Promise.all(Array.from({ length: 20 }, client))
  t.ok(counts[503] < 25, JSON.stringify(counts))
  t.same(downs(world)[0], [sick.url, 'status-503'])
})

t.test('a request that waits for too long is refused; without a queue at once, as a socket is', async t => {
  const raw = await startRawUpstream(t)
  let holds: RawRequest | undefined
  raw.respond(request => {
    holds = request
    return undefined
  })
  const limited = { url: raw.url, maxConnections: 1, queue: { max: 5, timeout: '50ms' } }
  const world = await startGateway(t, { postgres, config: open(limited) })
  const reasonOf = async (path: string) => {
    const answer = await world.fetch(path)
    t.match([answer.status, await answer.json()], [503, { code: 'GW_UNAVAILABLE' }])
    return (await world.logged(line => line.msg === 'request' && line.path === path)).reason
  }
  const first = text(world)
  await until(() => holds !== undefined)
  t.equal(await reasonOf('/open/late'), 'upstream-queue-timeout')
  const fields = 'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n'
  const upgrade = await world.raw(
    `GET /socket HTTP/1.1\r\nHost: x\r\n${fields}Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`
  )
  t.equal(upgrade.status, 503)
  world.writeRoutes(open({ ...limited, queue: { max: 0 } }))
  await world.gateway.reload()
  t.equal(await reasonOf('/open/none'), 'upstream-queue-full')
  holds?.socket.write(OK)
  t.equal(await first, 'ok')
  holds = undefined
  const next = text(world)
  await until(() => holds !== undefined)
  const held = holds as RawRequest | undefined
  held?.socket.write(OK)
  t.equal(await next, 'ok')
  await until(() => raw.open() <= 1)
})

t.test('a request reaches the target that is left, however many warm connections are found closed before', async t => {
  const [left, gone] = [await startRawUpstream(t), await startRawUpstream(t)]
  const world = await startGateway(t, { postgres, config: open({ targets: [left.url, gone.url] }) })
  const client = await world.connect()
  const ask = async () => {
    client.send('POST /open/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 4\r\n\r\nbody')
    return (await client.response()).status
  }
  // They take turns.
  t.same([await ask(), await ask()], [200, 200])
  const status = await new Promise((resolve, reject) => {
    setImmediate(() => {
      ask().then(resolve, reject)
      gone.close().catch(reject)
      // When the request leaves the one for the other.
      setImmediate(() => left.requests[0]?.socket.destroy())
    })
  })
  t.equal(status, 200)
  t.same([left.requests.length, gone.requests.length], [2, 1])
})

t.test('a request comes through although its target closes all idle connections at that moment', async t => {
  const raw = await startRawUpstream(t)
  const world = await startGateway(t, { postgres, config: open({ url: raw.url }) })
  const clients = await Promise.all(Array.from({ length: 3 }, () => world.connect()))
  const ask = (client: (typeof clients)[number] | undefined) => {
    client?.send('GET /open/x HTTP/1.1\r\nHost: gw\r\n\r\n')
    return client?.response()
  }
  raw.respond(() => () => undefined)
  const first = clients.map(ask)
  await raw.request(3)
  for (const { socket } of raw.requests) socket.write(OK)
  await Promise.all(first)
  raw.respond(() => OK)
  const answeredAt = performance.now()
  await until(() => performance.now() > answeredAt + 60)
  const answer = await new Promise((resolve, reject) => {
    setImmediate(() => {
      ask(clients[0])?.then(resolve, reject)
      for (const { socket } of raw.requests) socket.destroy()
    })
  })
  t.match(answer, { status: 200 })
})

t.test('a backup is used only while no other target is in service', async t => {
  const [primary, backup] = [await startRawUpstream(t), await startRawUpstream(t)]
  primary.respond(() => OK)
  backup.respond(() => OK)
  const port = await freePort()
  const targets = [primary.url, { url: backup.url, backup: true }]
  const world = await startGateway(t, { postgres, config: open({ targets }) })
  for (let n = 0; n < 10; n++) await text(world)
  t.equal(backup.requests.length, 0)
  world.writeRoutes(open({ targets: [`http://127.0.0.1:${port}`, { url: backup.url, backup: true }] }))
  await world.gateway.reload()
  t.equal(await text(world), 'ok', 'the request that found the primary unreachable')
  t.equal((await world.fetch('/open/x', { method: 'POST' })).status, 200)
  t.equal(backup.requests.length, 2)
  const returned = http.createServer((_, res) => res.end('primary')).listen(port, '127.0.0.1')
  t.teardown(() => {
    returned.closeAllConnections()
    returned.close()
  })
  await until(async () => (await text(world)) === 'primary')
  const before = backup.requests.length
  for (let n = 0; n < 20; n++) t.equal(await text(world), 'primary')
  t.equal(backup.requests.length, before)

  let isHeld = false
  primary.respond(() => {
    isHeld = true
    return undefined
  })
  world.writeRoutes(open({ targets, maxConnections: 1 }))
  await world.gateway.reload()
  world.fetch('/open/held').catch(() => undefined)
  await until(() => isHeld)
  t.match((await rawWebSocket(world.port, { path: '/socket' })).head(), /^HTTP\/1\.1 503 /)
  t.equal(backup.requests.length, before, 'nor does it take the sockets that full targets cannot')
})

t.test('a target goes out after so many failed checks, and comes back after so many that pass', async t => {
  const [raw, other] = [await startRawUpstream(t), await startRawUpstream(t)]
  let status = '204 No Content'
  const asked: string[] = []
  raw.respond(({ target }) => {
    if (target === '/up') asked.push(status)
    return `HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`
  })
  other.respond(() => 'HTTP/1.1 204 No Content\r\n\r\n')
  const healthCheck = { path: '/up', interval: '20ms', status: '204', rise: 3, fall: 3 }
  const world = await startGateway(t, { postgres, config: open({ targets: [raw.url, other.url], healthCheck }) })
  const of = (target: string) => downs(world).filter(([url]) => url === target)
  await until(() => asked.length > 1)
  t.same(of(raw.url), [])
  status = '200 OK'
  await until(() => of(raw.url).length === 1)
  t.same(of(raw.url), [[raw.url, 'check-status']])
  t.equal(asked.filter(one => one === '200 OK').length, 3)
  asked.length = 0
  status = '204 No Content'
  await world.logged(({ msg, target }) => msg === 'an upstream target is up again' && target === raw.url)
  t.equal(asked.filter(one => one === '204 No Content').length, 3)
})

t.test('a check that is not answered in its time has failed', async t => {
  const raw = await startRawUpstream(t)
  raw.respond(({ target }) => (target === '/up' ? undefined : OK))
  const healthCheck = { path: '/up', interval: '20ms', timeout: '20ms', fall: 1 }
  const world = await startGateway(t, { postgres, config: open({ url: raw.url, healthCheck }) })
  await world.logged(({ msg, reason }) => msg === 'an upstream target is down' && reason === 'check-timeout')
})

/** An upstream with a target by name, whose addresses are those in `found`. */
const named = (t: Test, port: number, addresses: string[]) => {
  const found = { addresses }
  const upstreams = createUpstreams({
    lookup: (_, { all }, done) => {
      const addresses = found.addresses.map(address => ({ address, family: 4 }))
      if (all === true) done(null, addresses)
      else done(null, addresses[0]?.address ?? '', 4)
    }
  })
  t.teardown(upstreams.close)
  const authority = `app.example:${port}`
  const target = { ...targetAt(port), url: `http://${authority}`, host: 'app.example', authority }
  const upstream = { ...upstreamAt(), targets: [target] }
  upstreams.retain(inUse(upstream))
  const urls = () => upstreams.status()[0]?.targets.map(status => status.url)
  return { found, upstreams, upstream, target, pool: upstreams.poolOf(upstream), urls }
}

t.test('each address of a name is a target, and the name is followed', async t => {
  const one = await startRawUpstream(t)
  one.respond(() => OK)
  const { found, upstreams, upstream, target, pool, urls } = named(t, one.port, ['127.0.0.1', '127.0.0.2'])
  const { url } = target
  await until(() => urls()?.length === 2)
  t.same(urls(), [`${url} (127.0.0.1)`, `${url} (127.0.0.2)`])
  const used = [pool.acquire(), pool.acquire(), pool.acquire()].map(connection => connection?.target.address)
  t.same(new Set(used), new Set(['127.0.0.1', '127.0.0.2']))
  t.equal(pool.targetAt(`${url} (127.0.0.2)`)?.authority, target.authority, 'requests carry the name')
  found.addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.2']
  await until(() => urls()?.includes(`${url} (127.0.0.3)`) === true)
  t.same(urls(), [`${url} (127.0.0.2)`, `${url} (127.0.0.3)`])
  found.addresses = []
  upstreams.retain(inUse({ ...upstream, timeoutMs: 1 }))
  t.same(urls(), [`${url} (127.0.0.2)`, `${url} (127.0.0.3)`], 'a resolver that is away changes nothing')
})

t.test('localhost is one target, whatever its addresses', async t => {
  const { upstreams, upstream, target } = named(t, 9, ['127.0.0.1', '127.0.0.2'])
  const own = { ...upstreamAt(), name: 'own', targets: [{ ...target, url: 'http://localhost:9', host: 'localhost' }] }
  upstreams.retain(inUse(own, upstream))
  const countOf = (name: string) => upstreams.status().find(one => one.name === name)?.targets.length
  await until(() => countOf(upstream.name) === 2)
  // Names are resolved one after the other.
  upstreams.retain(inUse(own, { ...upstream, name: 'later', targets: [{ ...target, host: 'later.example' }] }))
  await until(() => countOf('later') === 2)
  t.equal(countOf('own'), 1)
})

t.test('of thousands of upstreams, an answer for one name looks at the targets of that name alone', async t => {
  let [looked, asked] = [0, 0]
  const many = Array.from({ length: 100 }, (_, i) => {
    const host = `app${i}.example`
    return {
      ...upstreamAt(),
      targets: [{ ...targetAt(9), url: `http://${host}:9`, host }],
      get name() {
        looked += 1
        return host
      }
    }
  })
  const upstreams = createUpstreams({
    lookup: (_name, _options, done) => {
      asked += 1
      done(null, [{ address: `127.0.0.${asked}`, family: 4 }])
    }
  })
  t.teardown(upstreams.close)
  upstreams.retain(inUse(...many))
  await until(() => asked === many.length)
  await turn()
  t.ok(looked < 1000, `${looked} looks`)
})

t.test('a name that goes from one address to several, and back, keeps what is at that address', async t => {
  const { found, upstreams, upstream, target, pool, urls } = named(t, 9, ['127.0.0.1'])
  const { url } = target
  /** Another name, because those that are new are resolved at once, and with them all others. */
  const resolveAgain = (host: string) =>
    upstreams.retain(inUse(upstream, { ...upstreamAt(), name: host, targets: [{ ...target, host, url: host }] }))
  await turn()
  const only = pool.targetAt(url)
  t.ok(pool.acquire({ only }), 'a session begins')
  pool.members()[0]?.health.failed('unreachable', true)
  found.addresses = ['127.0.0.1', '127.0.0.2']
  resolveAgain('second.example')
  await until(() => urls()?.length === 2)
  t.same(
    upstreams.status()[0]?.targets.map(({ state }) => state),
    ['down', 'up']
  )
  t.equal(pool.acquire({ only })?.target.address, '127.0.0.1', 'the session goes on')
  const later = pool.targetAt(`${url} (127.0.0.2)`)
  found.addresses = ['127.0.0.2']
  resolveAgain('third.example')
  await until(() => urls()?.length === 1)
  t.same(urls(), [url])
  t.equal(pool.acquire({ only: later })?.target.url, url, 'a session at the other address goes on')
})

const memberAt = (port: number, connection: string | undefined) => ({
  ...{ target: targetAt(port), health: { isOut: false, takesTurn: () => true } },
  ...{ busy: () => 0, hasBound: () => false, hasRoom: () => connection !== undefined, acquire: () => connection }
})

t.test('a request that waits goes to a target that is added meanwhile', async t => {
  const members = [memberAt(1, undefined), memberAt(2, undefined)]
  const upstream = { ...upstreamAt(1, 2), queue: { max: 1, timeoutMs: 60_000 } }
  const pool = createUpstreamPool(upstream, () => [...members] as never)
  const given: unknown[] = []
  const [onRefused, onThrown] = [() => t.fail('refused'), () => t.fail('thrown')]
  pool.wait({ onConnection: connection => given.push(connection), onRefused, onThrown }, {})
  members.push(memberAt(3, 'a connection'))
  pool.assemble()
  await until(() => given.length > 0)
  t.same(given, ['a connection'])
})

t.test('a request that waits for another target than the free one holds up no other', async t => {
  const members = [memberAt(1, undefined), memberAt(2, undefined)]
  const queue = { max: 3, timeoutMs: 60_000 }
  const pool = createUpstreamPool({ ...upstreamAt(1, 2), queue }, () => [...members] as never)
  const served: string[] = []
  const [onRefused, onThrown] = [() => t.fail('refused'), () => t.fail('thrown')]
  const wait = (name: string, asked = {}) =>
    pool.wait({ onConnection: () => served.push(name), onRefused, onThrown }, asked) as () => void
  t.teardown(wait('tied', { not: [targetAt(1)] }))
  wait('waiting')
  members[0] = memberAt(1, 'a connection')
  pool.assemble()
  await until(() => served.length > 0)
  wait('arriving')
  await until(() => served.length > 1)
  t.same(served, ['waiting', 'arriving'])
})

t.test('a request that waits since before a reload is served before later ones', async t => {
  const raw = await startRawUpstream(t)
  const upstream = { ...upstreamAt(raw.port), maxConnections: 1, queue: { max: 1, timeoutMs: 60_000 } }
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const served: string[] = []
  const [onRefused, onThrown] = [() => t.fail('refused'), () => t.fail('thrown')]
  const wait = (by: Upstream, name: string) =>
    upstreams.poolOf(by).wait({ onConnection: () => served.push(name), onRefused, onThrown }, {}) as () => void
  upstreams.retain(inUse(upstream))
  const connection = upstreams.poolOf(upstream).acquire()
  wait(upstream, 'before')
  const reloaded = { ...upstream }
  upstreams.retain(inUse(reloaded))
  t.teardown(wait(reloaded, 'after'))
  connection?.destroy()
  await until(() => served.length > 0)
  t.same(served, ['before'])
})

const reload = async (world: World, config: Parameters<World['writeRoutes']>[0]) => {
  world.writeRoutes(config)
  if (!(await world.gateway.reload())) throw new Error('the route files have mistakes')
}

t.test('connections that were made with other TLS settings are used no more', async t => {
  const raw = await startRawUpstream(t)
  const plain = upstreamAt(raw.port)
  const secure: Upstream = { ...plain, targets: plain.targets.map(target => ({ ...target, tls: true })) }
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const openAfter = (upstream: Upstream) => {
    upstreams.retain(inUse(upstream))
    const [status] = upstreams.status()
    return status?.targets.map(({ connections }) => connections)
  }
  upstreams.retain(inUse(secure))
  upstreams.poolOf(secure).acquire()
  t.same(openAfter({ ...secure, timeoutMs: 1 }), [1])
  for (const changed of [{ serverName: 'other' }, { ca: 'other' }, { clientCertificate: { cert: 'a', key: 'b' } }])
    t.same(openAfter({ ...secure, ...changed }), [0])
  t.equal(upstreams.connections(), 1, 'it is in use until its request is over')
})

t.test('a connection to a name is not used again once the name may have another address', async t => {
  // RV-16
  const clocks = shiftClocks(t)
  const raw = await startRawUpstream(t)
  raw.respond(() => OK.replace('\r\n\r\n', '\r\nKeep-Alive: timeout=120\r\n\r\n'))
  const world = await startGateway(t, { postgres, config: open({ url: raw.url.replace('127.0.0.1', 'localhost') }) })
  // On one connection, because the clock that is shifted is also that of new ones, which must send a request in time.
  const client = await world.connect()
  const ask = async () => {
    client.send('GET /open/x HTTP/1.1\r\nHost: gw\r\n\r\n')
    t.equal((await client.response()).status, 200)
  }
  const start = clocks.stopMonotonic()
  await ask()
  clocks.monotonicMs += 19_000
  await ask()
  t.equal(raw.accepted(), 1)
  start()
  clocks.monotonicMs += 2000
  await ask()
  t.equal(raw.accepted(), 2)
})

t.test('checks carry the Host that requests carry, or the one that is set', async t => {
  // RV-17
  const raw = await startRawUpstream(t)
  raw.respond(() => OK)
  const env = { PUBLIC_URL: 'https://shop.example.org' }
  const healthCheck = { path: '/up', interval: '20ms' }
  const config = open({ url: raw.url, preserveHost: true, healthCheck })
  const world = await startGateway(t, { postgres, env, config })
  const hosts = () => raw.requests.map(({ head }) => /^host: (.*)\r$/im.exec(head)?.[1])
  await until(() => hosts().length > 0)
  t.equal(hosts().at(-1), 'shop.example.org')
  await reload(world, open({ url: raw.url, healthCheck }))
  await until(() => hosts().at(-1) === raw.url.slice('http://'.length))
  await reload(world, open({ url: raw.url, healthCheck: { ...healthCheck, host: 'up.example:8443' } }))
  await until(() => hosts().at(-1) === 'up.example:8443')
})
