// What administrators see of the state of one instance, and of several together.
// DF-17, RX-20
import t, { type Test } from 'tap'
import { mergeStatus, type OwnStatus } from '../../gateway/admin/status.ts'
import { Forbidden } from '../../gateway/errors.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { addTraffic, createTraffic } from '../../gateway/observe/traffic.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { adminCall, postLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const startWorld = async (test: Test) => {
  const raw = await startRawUpstream(test)
  const dead = `http://127.0.0.1:${await freePort()}`
  const config = {
    upstreams: { app: { targets: [raw.url, dead] }, dead: { url: dead } },
    routes: [
      { path: '/api/*', upstream: 'app', roles: ['Admin'] },
      { path: '/dead', upstream: 'dead', public: true }
    ]
  }
  const world = await startGateway(test, { postgres, config })
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const call = adminCall(world, token)
  return { raw, dead, config, world, token, ask: (path: string) => call('GET', path) }
}

t.test('an Admin sees upstreams and their targets, limiter, reload, audit chain and streams', async t => {
  const { raw, dead, config, world, token, ask } = await startWorld(t)
  for (let i = 0; i < 4; i++) t.equal((await world.fetch('/api/x', { token })).status, 200)
  await world.fetch('/dead')
  const { status, body } = await ask('status')
  t.equal(status, 200)
  t.match(body, {
    status: 'degraded',
    checks: { database: 'ok', upstreams: 'degraded', routes: 'ok' },
    startedAt: /^\d{4}-\d\d-\d\dT.*Z$/,
    limiter: { mode: 'memory', reason: '', commands: 0 },
    reload: { ok: true, checksum: /^[0-9a-f]{64}$/, complaints: only() },
    audit: { state: String, entries: Number },
    streams: { websocket: 0, socketio: 0, sse: 0 },
    insecure: only()
  })
  t.match(body.upstreams, [
    {
      name: 'app',
      targets: [
        { url: raw.url, state: 'up', reason: '', busy: 0, connections: Number, faults: { unreachable: 0 } },
        { url: dead, state: 'down', reason: 'unreachable', connections: 0 }
      ]
    },
    { name: 'dead', targets: [{ url: dead, state: 'down', faults: { unreachable: 1 } }] }
  ])

  world.writeRoutes({ ...config, routes: [{ path: 'x', upstream: 'app' }] })
  await world.gateway.reload()
  t.match((await ask('status')).body.reload, {
    ok: false,
    checksum: body.reload.checksum,
    complaints: [{ file: /routes\.yaml$/, line: Number, column: Number, message: String }]
  })
})

t.test('the audit chain is read in the background, and health, metrics and status say what was found', async t => {
  // AD-08
  const url = await postgres.newDatabase()
  const start = () => startGateway(t, { postgres: { url }, env: { OPS_PORT: '0' } })
  const checked = async (world: World) => {
    let health: Awaited<ReturnType<World['health']>> & { auditCheckedAt?: string } = { status: '', checks: {} }
    await until(async () => {
      health = await world.health()
      return health.checks.audit !== 'unknown'
    })
    return health
  }
  const world = await start()
  const whole = await checked(world)
  t.match(whole, { status: 'ok', checks: { audit: 'ok' }, auditCheckedAt: /^\d{4}-/ })
  const { body } = await adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))('GET', 'status')
  t.match(body.audit, { state: 'ok', firstBroken: null, checkedAt: whole.auditCheckedAt })

  await postgres.query('ALTER TABLE audit_events DISABLE TRIGGER ALL', [], url)
  const forged = "SELECT 1000000, now(), 1, 'maria', 'login', '', null, null, '', '', null, '', '', 'x'"
  await postgres.query(`INSERT INTO audit_events ${forged}`, [], url)
  const next = await start()
  t.match(await checked(next), { status: 'degraded', checks: { audit: 'broken' } })
  const metrics = await (await fetch(`http://127.0.0.1:${next.gateway.opsPort}/metrics`)).text()
  t.match(metrics, /^portaria_audit_chain_ok 0$/m)
  t.match(metrics, /^portaria_audit_checked_timestamp_seconds \d/m)
  t.match(await next.logged(({ reason }) => reason === 'audit-broken'), { level: 50, firstBroken: Number })
})

t.test('traffic tells of requests by decision and code, of latency and of logins', async t => {
  const { world, token, ask } = await startWorld(t)
  const before = Date.now()
  await world.fetch('/api/1', { token })
  await world.fetch('/api/2', { token: await world.tokenFor({ profiles: ['Agente'] }) })
  await world.fetch('/dead')
  await postLogin(world, 'maria')
  await until(() => world.log.filter(line => line.msg === 'request').length >= 4)
  const { body } = await ask(`traffic?since=${new Date(before - 5000).toISOString()}`)
  const points = body.points as Record<string, number>[]
  const sum = (name: string) => points.reduce((total, point) => total + (point[name] ?? 0), 0)
  t.match([sum('requests'), sum('allowed'), sum('refused'), sum('failed'), sum('loginsRefused')], [4, 1, 2, 1, 1])
  t.match(Object.assign({}, ...points.map(({ codes }) => codes)), {
    GW_FORBIDDEN: 1,
    GW_UPSTREAM_UNREACHABLE: 1,
    GW_LOGIN_FAILED: 1
  })
  t.ok(points.some(({ p50Ms = 0, p95Ms = 0 }) => p50Ms > 0 && p95Ms >= p50Ms))
  t.equal(body.stepMs, 5000)

  const iso = await ask(`traffic?since=${new Date(Date.now() + 60_000).toISOString()}`)
  t.same(iso.body.points, [], 'nothing from the future')
  t.equal((await ask('traffic')).status, 200)
  for (const since of ['yesterday', '2026-02-99T00:00:00Z', '1e9', '1780000000000', ''])
    t.equal((await ask(`traffic?since=${since}`)).status, 400, since)
  t.equal((await ask('traffic?until=1')).status, 400)
})

t.test('an hour of traffic is kept, in steps of five seconds, and no more', async t => {
  let now = 1_000_000_000_000
  const traffic = createTraffic(() => now)
  const exchange = (ms: number, error?: Exchange['error']) =>
    ({ startedAt: 0, headMs: ms, error }) as unknown as Exchange
  for (let i = 1; i <= 100; i++) traffic.record(exchange(i), 0)
  traffic.record(exchange(1, new Forbidden()), 0)
  const since = (at: number) => addTraffic([traffic.counts(at)])
  const [point] = since(0)
  t.match(point, { at: now, requests: 101, allowed: 100, refused: 1, codes: { GW_FORBIDDEN: 1 } })
  t.ok(Math.abs((point?.p50Ms ?? 0) - 50) <= 12.5, `p50 ${point?.p50Ms}`)
  t.ok(Math.abs((point?.p95Ms ?? 0) - 95) <= 24, `p95 ${point?.p95Ms}`)
  for (let i = 0; i < 2000; i++) {
    now += 5000
    traffic.record(exchange(1e9), 0)
  }
  t.equal(since(0).length, 720)
  t.equal(since(now).length, 1)
  now -= 719 * 5000
  traffic.recordLogin(true)
  t.equal(since(0).length, 720, 'a clock set back opens no step twice')
  t.match(since(0)[0], { at: now, logins: 1 }, 'and what happens then counts at once')
})

t.test('what happened more than an hour ago is not counted, however little has happened since', async t => {
  let now = 1_000_000_000_000
  const traffic = createTraffic(() => now)
  traffic.recordLogin(true)
  now += 59 * 60_000
  t.match(addTraffic([traffic.counts(0)]), [{ logins: 1 }])
  now += 60_000
  t.strictSame(traffic.counts(0), [])
})

t.test('the state of several instances is the sum of what is counted and the worst of what can be wrong', async t => {
  const faults = { reset: 1, 'bad-response': 0, timeout: 0, unreachable: 0 }
  const target = { url: 'http://a', state: 'up' as const, since: 's', reason: '', busy: 1, connections: 2, faults }
  const well: OwnStatus = {
    status: 'ok',
    checks: { database: 'ok', directory: 'insecure', audit: 'unknown' },
    startedAt: '2026-01-02T00:00:00.000Z',
    upstreams: [{ name: 'up', targets: [target] }],
    limiter: { mode: 'redis', since: 's', reason: '', commands: 3, entries: 4, forgotten: 1, leases: 5 },
    reload: { ok: true, loadedAt: 'l', checksum: 'c', routes: 9, complaints: [] },
    audit: { state: 'unknown', entries: 0, firstBroken: null, checkedAt: '' },
    revocations: { known: 2, stalenessMs: 10 },
    streams: { websocket: 1, sse: 2 },
    insecure: ['LDAP_INSECURE']
  }
  const worst = {
    status: 'degraded',
    startedAt: '2026-01-01T00:00:00.000Z',
    limiter: { ...well.limiter, mode: 'degraded' as const, reason: 'timeout' },
    reload: { ...well.reload, ok: false },
    audit: { ...well.audit, state: 'broken' as const, firstBroken: 7 }
  }
  const down = { ...target, state: 'down' as const, reason: 'refused' }
  const unwell: OwnStatus = {
    ...well,
    ...worst,
    checks: { database: 'degraded', directory: 'ok', audit: 'broken' },
    upstreams: [{ name: 'up', targets: [down] }],
    revocations: { known: 3, stalenessMs: 5 },
    insecure: ['CLOUDIDP_INSECURE', 'LDAP_INSECURE']
  }
  const [one, two] = [
    { name: 'a:1', body: well },
    { name: 'b:2', body: unwell }
  ]
  const merged = {
    ...worst,
    checks: { database: 'degraded', directory: 'insecure', audit: 'broken' },
    upstreams: [{ targets: [{ ...down, busy: 2, connections: 4, faults: { reset: 2 }, instances: only('b:2') }] }],
    limiter: { ...worst.limiter, commands: 6, entries: 8, forgotten: 2, leases: 10 },
    revocations: { known: 3, stalenessMs: 10 },
    streams: { websocket: 2, sse: 4 },
    insecure: ['CLOUDIDP_INSECURE', 'LDAP_INSECURE']
  }
  t.match(mergeStatus(well, [one, two], []), merged)
  t.match(mergeStatus(unwell, [two, one], []), merged)
  t.match(mergeStatus(well, [one], ['c:3']), { ...well, missing: ['c:3'] })
  t.match(mergeStatus(well, [one, two], []).instances, [
    { instance: 'a:1', status: 'ok', limiter: 'redis', checksum: 'c', checks: well.checks },
    { instance: 'b:2', status: 'degraded', limiter: 'degraded', checks: unwell.checks }
  ])
})
