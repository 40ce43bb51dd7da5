// Targets over a reload: what stays of those that are still there, and of those that are not; ages and hosts of their connections.
import type { Socket } from 'node:net'
import t from 'tap'
import type { Upstream } from '../../gateway/routes/upstream.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { inUse, upstreamAt } from '../support/routes.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const open = (upstream: Record<string, unknown>) => ({
  upstreams: { app: upstream },
  routes: [{ path: '/open/*', upstream: 'app', public: true }]
})

const checksOf = async (world: World) =>
  ((await (await world.fetch('/health')).json()) as { checks: Record<string, string> }).checks

const reload = async (world: World, config: Parameters<World['writeRoutes']>[0]) => {
  world.writeRoutes(config)
  if (!(await world.gateway.reload())) throw new Error('the route files have mistakes')
}

t.test('an upstream that has left the files is neither checked nor listed, whatever its requests do', async t => {
  // RV-06
  const [removed, kept] = [await startRawUpstream(t), await startRawUpstream(t)]
  let hanging: Socket | undefined
  removed.respond(({ target, socket }) => {
    if (target !== '/open/hangs') return OK
    hanging = socket
    return undefined
  })
  const healthCheck = { path: '/up', interval: '20ms' }
  const world = await startGateway(t, { postgres, config: open({ url: removed.url, healthCheck }) })
  await until(() => removed.requests.length > 1)
  const answer = world.fetch('/open/hangs')
  await until(() => hanging !== undefined)
  await reload(world, {
    upstreams: { other: { url: kept.url, healthCheck } },
    routes: [{ path: '/other', upstream: 'other', public: true }]
  })
  hanging?.destroy()
  t.equal((await answer).status, 502)
  const before = removed.requests.length
  await removed.close()
  const checks = kept.requests.length
  await until(() => kept.requests.length > checks + 10, 'as many checks of the other one')
  t.equal(removed.requests.length, before)
  t.equal((await checksOf(world)).upstreams, 'ok')
  t.notOk(world.log.some(({ msg }) => msg === 'an upstream target is down'))
})

t.test('a target that is down stays down over a reload, and a warm connection stays warm', async t => {
  // RV-12
  const living = await startRawUpstream(t)
  living.respond(() => OK)
  const dead = `http://127.0.0.1:${await freePort()}`
  const targets = [dead, living.url]
  const world = await startGateway(t, { postgres, config: open({ targets }) })
  const isDown = () => world.log.filter(({ msg }) => msg === 'an upstream target is down').length
  await until(async () => {
    t.equal((await world.fetch('/open/x')).status, 200)
    return isDown() > 0
  })
  const third = await startRawUpstream(t)
  third.respond(() => OK)
  const client = await world.connect()
  t.teardown(() => client.destroy())
  const post = async () => {
    client.send('POST /open/x HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhello')
    return (await client.response()).status
  }
  t.equal(await post(), 200)
  const accepted = living.accepted()
  for (const changed of [
    { targets, timeout: '29s' },
    { targets: [...targets, third.url], timeout: '29s' },
    { targets, idleTimeout: '1m', connectTimeout: '1s', outlier: { errors: 9 } }
  ]) {
    await reload(world, open(changed))
    for (let n = 0; n < 4; n++) t.equal(await post(), 200)
    t.equal(isDown(), 1)
  }
  t.equal(living.accepted(), accepted)
})

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
  t.teardown(() => client.destroy())
  const ask = async () => {
    client.send('GET /open/x HTTP/1.1\r\nHost: gw\r\n\r\n')
    t.equal((await client.response()).status, 200)
  }
  await ask()
  clocks.monotonicMs += 19_000
  await ask()
  t.equal(raw.accepted(), 1)
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
