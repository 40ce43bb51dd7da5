// AD-21
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { connect } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { createLog } from '../../gateway/observe/logging.ts'
import { startObservation } from '../../gateway/observe/observation.ts'
import { openOpsListener } from '../../gateway/observe/ops-listener.ts'
import { readSettings } from '../../gateway/settings/read-settings.ts'
import { routesTo, startGateway, TEST_SECRET, type World } from '../support/gateway.ts'
import { freePort, listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols } from '../support/raw-websocket.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { succeeds, until } from '../support/until.ts'

const postgres = await startPostgres(t)

const config = (url: string, dead: string) => ({
  upstreams: { app: { url }, dead: { url: dead } },
  routes: [
    { path: '/api/*', upstream: 'app', roles: ['Admin'] },
    { path: '/open/*', upstream: 'app', public: true },
    { path: '/dead', upstream: 'dead', public: true },
    { path: '/ws', upstream: 'app', public: true, websocket: {} }
  ]
})

const startWorld = async (test: Parameters<typeof startRawUpstream>[0], env: Record<string, string> = {}) => {
  const raw = await startRawUpstream(test)
  const dead = `http://127.0.0.1:${await freePort()}`
  const world = await startGateway(test, { postgres, config: config(raw.url, dead), env: { OPS_PORT: '0', ...env } })
  return { raw, dead, world }
}

const ops = (world: World, path: string) => fetch(`http://127.0.0.1:${world.gateway.opsPort}${path}`)

/** `name{labels} value` lines as a map; labels in the order of the text. */
const metricsOf = async (world: World): Promise<Map<string, number>> => {
  const text = await (await ops(world, '/metrics')).text()
  const lines = text.split('\n').filter(line => line !== '' && !line.startsWith('#'))
  return new Map(lines.map(line => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]))
}

/** A finished request is counted when its connection says so, a moment after its answer. */
const logged = (world: World, count: number) =>
  until(() => world.log.filter(line => line.msg === 'request').length >= count)

t.test('requests are counted by route, decision and status, with the times of gateway and upstream', async t => {
  const { world } = await startWorld(t)
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  const agente = await world.tokenFor({ profiles: ['Agente'] })
  await world.fetch('/api/1', { token: admin })
  await world.fetch('/api/2', { token: admin })
  await world.fetch('/api/3', { token: agente })
  await world.fetch('/open/x')
  await world.fetch('/dead')
  await world.fetch('/nowhere')
  await logged(world, 6)
  const metrics = await metricsOf(world)
  t.equal(metrics.get('portaria_requests_total{route="/api/*",decision="allow",status="2xx"}'), 2)
  t.equal(metrics.get('portaria_requests_total{route="/api/*",decision="refuse",status="4xx"}'), 1)
  t.equal(metrics.get('portaria_requests_total{route="/open/*",decision="allow",status="2xx"}'), 1)
  t.equal(metrics.get('portaria_requests_total{route="/dead",decision="fail",status="5xx"}'), 1)
  t.equal(metrics.get('portaria_requests_total{route="other",decision="refuse",status="4xx"}'), 1)
  t.equal(metrics.get('portaria_refusals_total{code="GW_FORBIDDEN",reason="role-missing"}'), 1)
  t.equal(metrics.get('portaria_refusals_total{code="GW_UPSTREAM_UNREACHABLE",reason="upstream-unreachable"}'), 1)
  t.equal(metrics.get('portaria_upstream_duration_seconds_bucket{le="+Inf",route="/api/*"}'), 2)
  t.equal(metrics.get('portaria_upstream_duration_seconds_count{route="/api/*"}'), 2)
  t.equal(metrics.get('portaria_gateway_duration_seconds_count{route="/api/*"}'), 3)
  const bounds = ['0.00025', '0.001', '0.01', '1', '30', '+Inf'].map(
    le => metrics.get(`portaria_gateway_duration_seconds_bucket{le="${le}",route="/api/*"}`) ?? -1
  )
  t.same(
    bounds,
    bounds.toSorted((a, b) => a - b),
    'buckets are cumulative'
  )
  t.equal(metrics.get('portaria_token_cache_misses_total'), 2)
  t.equal(metrics.get('portaria_token_cache_hits_total'), 1)
  t.equal(metrics.get('portaria_tokens_verified_total{key="current"}'), 2)
})

t.test('metrics tell of upstreams, limiter, reloads, streams, lost lines and weakened settings', async t => {
  const { world, raw, dead } = await startWorld(t, { PUBLIC_URL: 'http://portaria.example' })
  await world.fetch('/dead')
  await world.fetch('/open/x')
  const before = await metricsOf(world)
  t.equal(before.get(`portaria_upstream_target_up{upstream="dead",target="${dead}"}`), 0)
  t.equal(before.get(`portaria_upstream_target_up{upstream="app",target="${raw.url}"}`), 1)
  t.equal(before.get(`portaria_upstream_faults_total{upstream="dead",target="${dead}",fault="unreachable"}`), 1)
  t.equal(before.get(`portaria_upstream_connections{upstream="app",target="${raw.url}",state="idle"}`), 1)
  t.equal(before.get('portaria_limiter_mode{mode="memory"}'), 1)
  t.equal(before.get('portaria_log_lines_dropped_total'), 0)
  t.equal(before.get('portaria_open_streams{kind="websocket"}'), 0)
  t.equal(before.get('portaria_insecure{setting="PUBLIC_URL"}'), 1)
  t.equal(before.get('portaria_insecure{setting="LDAP_INSECURE"}'), 0)
  t.equal(before.get('portaria_routes_ok'), 1)
  t.equal(before.get('portaria_database_up'), 1)
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  t.equal(before.get(`portaria_build_info{version="${version}",node="${process.versions.node}"}`), 1)
  t.ok([...before.keys()].some(name => /^portaria_routes\{checksum="[0-9a-f]{64}"\}$/.test(name)))
  t.ok(before.has('nodejs_eventloop_lag_seconds'))

  world.writeRoutes({ routes: [{ path: 'no slash', upstream: 'nobody' }] })
  await world.gateway.reload()
  const broken = await metricsOf(world)
  t.equal(broken.get('portaria_routes_ok'), 0)
  t.ok((broken.get('portaria_reloads_total{result="failed"}') ?? 0) >= 1)
  world.writeRoutes(routesTo(raw.url, [{ path: '/new', public: true }]))
  await world.gateway.reload()
  const after = await metricsOf(world)
  t.equal(after.get('portaria_routes_ok'), 1)
  t.notOk(
    [...after.keys()].some(name => name.includes('route="/open/*"')),
    'a route that is gone is forgotten'
  )
  t.notOk([...after.keys()].some(name => name.includes('upstream="dead"')))
})

t.test('operators have a listener of their own; the public origin has nothing of it', async t => {
  const { world } = await startWorld(t)
  t.equal(await (await ops(world, '/live')).text(), 'live\n')
  const ready = await ops(world, '/ready')
  t.match([ready.status, await ready.text()], [200, 'ready\n'])
  t.match((await ops(world, '/metrics')).headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  t.equal((await ops(world, '/debug')).status, 404)
  const posted = await fetch(`http://127.0.0.1:${world.gateway.opsPort}/live`, { method: 'POST' })
  t.same([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD'])
  for (const path of ['/metrics', '/live', '/ready', '/debug', '/auth/metrics', '/health/metrics'])
    t.equal((await world.fetch(path)).status, 401, path)
  t.notMatch(await (await ops(world, '/metrics')).text(), /maria|corp\.example/, 'no people in labels')
})

t.test('clients that read none of the metrics do not keep probes from the listener of operators', async t => {
  const metrics = { contentType: 'text/plain', text: async () => 'x'.repeat(32_000_000) }
  const options = { port: 0, host: '127.0.0.1', metrics, readiness: () => 'ready', most: 1, stallMs: 200 }
  const { port, close } = await openOpsListener(options)
  t.teardown(close)
  const unread = connect(port, '127.0.0.1')
  t.teardown(() => unread.destroy())
  unread.write('GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n')
  await once(unread, 'readable')
  await until(() => succeeds(fetch(`http://127.0.0.1:${port}/live`)), 'a probe is answered', 60_000)
})

t.test('ready ends with the first thing that draining does, while requests still finish', async t => {
  const { world, raw } = await startWorld(t, { DRAIN_TIMEOUT: '5s' })
  let answer = () => {}
  raw.respond(() => socket => {
    answer = () => void socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  })
  const pending = world.fetch('/open/slow')
  await raw.request()
  const closed = world.gateway.close()
  const ready = await ops(world, '/ready')
  t.match([ready.status, await ready.text()], [503, 'draining\n'])
  t.equal((await metricsOf(world)).get('portaria_ready'), 0)
  t.equal((await ops(world, '/live')).status, 200)
  answer()
  t.equal((await pending).status, 200)
  await closed
})

t.test('with DRAIN_DELAY new requests are served for so long after ready has ended', async t => {
  const { world, ready, late, tookMs } = await undisturbed(100, async (_, begin) => {
    const { world, raw } = await startWorld(t, { DRAIN_DELAY: '1500ms' })
    raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok')
    begin()
    const before = performance.now()
    const closed = world.gateway.close()
    const ready = (await ops(world, '/ready')).status
    const late = await world.raw('GET /open/new HTTP/1.1\r\nHost: gw\r\n\r\n')
    await closed
    return { world, ready, late, tookMs: performance.now() - before }
  })
  t.equal(ready, 503)
  t.equal(late.status, 200)
  t.match(late.head, /^connection: close$/im, 'a proxy keeps no connection over which a request could meet the end')
  t.ok(tookMs >= 1490)
  t.ok(tookMs < 2990, 'the delay is waited for once')
  await t.rejects(world.fetch('/open/new'))
})

t.test('before the gateway listens it lives, but is not ready', async t => {
  const settings = readSettings({ JWT_SECRET: TEST_SECRET, OPS_PORT: '0' })
  const observation = await startObservation(settings, createLog({}, { write() {} }))
  t.teardown(observation.close)
  const get = (path: string) => fetch(`http://127.0.0.1:${observation.opsPort}${path}`)
  t.equal((await get('/live')).status, 200)
  const ready = await get('/ready')
  t.match([ready.status, await ready.text()], [503, 'starting\n'])
  const metrics = await (await get('/metrics')).text()
  t.match(metrics, /^nodejs_eventloop_lag_seconds /m)
  t.match(metrics, /^portaria_ready 0$/m, 'its alert can fire')
  observation.nowReady()
  t.equal((await get('/ready')).status, 200)
  await t.rejects(
    startObservation(
      { ...settings, ops: { port: observation.opsPort, host: '127.0.0.1' } },
      createLog({}, { write() {} })
    ),
    { code: 'EADDRINUSE' }
  )
})

t.test('without OPS_PORT there is no second listener', async t => {
  const { world } = await startWorld(t, { OPS_PORT: '' })
  t.equal(world.gateway.opsPort, undefined)
})

t.test('a client’s trace passes unchanged when tracing is off', async t => {
  const { world, raw } = await startWorld(t)
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await world.fetch('/open/x', { headers: { traceparent, tracestate: 'a=1' } })
  const fields = Object.fromEntries((await raw.request()).headers.map(([name, value]) => [name.toLowerCase(), value]))
  t.match(fields, { traceparent, tracestate: 'a=1' })
  const line = await world.logged(({ msg, path }) => msg === 'request' && path === '/open/x')
  t.equal(line.traceId, '0af7651916cd43dd8448eb211c80319c', 'the access log names the trace')
  await world.fetch('/open/none', { headers: { traceparent: '00-0af7-"-01' } })
  const none = (await world.logged(({ path }) => path === '/open/none')).traceId
  t.equal(none, undefined, 'what is no trace is not logged')
})

t.test('with OTEL_* a request continues its client’s trace and is exported as a span', async t => {
  const exported = Promise.withResolvers<Buffer>()
  const collector = http.createServer(async (req, res) => {
    exported.resolve(await buffer(req))
    res.setHeader('content-type', 'application/x-protobuf').end()
  })
  const endpoint = `http://127.0.0.1:${await listen(t, collector)}`
  // The exporter reads its own variables.
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = endpoint
  t.teardown(() => {
    delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT
  })
  const { world, raw } = await startWorld(t, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const spanOf = (n: number) =>
    raw.request(n).then(({ headers }) => ({
      traceparent: headers.filter(([name]) => name.toLowerCase() === 'traceparent').map(([, value]) => value),
      tracestate: headers.find(([name]) => name.toLowerCase() === 'tracestate')?.[1]
    }))
  await world.fetch('/open/x?token=canary-in-a-query', {
    headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: 'a=1' }
  })
  const continued = await spanOf(1)
  t.equal(continued.traceparent.length, 1)
  t.match(continued.traceparent[0], new RegExp(`^00-${traceId}-(?!b7ad6b7169203331)[0-9a-f]{16}-01$`))
  t.equal(continued.tracestate, 'a=1')
  t.equal((await world.logged(({ path }) => path === '/open/x')).traceId, traceId, 'the access log names the trace')
  for (const [index, bad] of [
    '00-0-0-01',
    `ff-${traceId}-b7ad6b7169203331-01`,
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`
  ].entries()) {
    await world.fetch('/open/x', { headers: { traceparent: bad, tracestate: 'a=1' } })
    const fresh = await spanOf(index + 2)
    t.match(fresh.traceparent[0], /^00-(?!0af7651916cd43dd)[0-9a-f]{32}-[0-9a-f]{16}-01$/, bad)
    t.equal(fresh.tracestate, undefined, 'a state without its trace is worth nothing')
  }
  await world.fetch('/nowhere')
  raw.respond(({ head }) => switchingProtocols(head))
  const { socket } = await rawWebSocket(world.port)
  socket.destroy()
  await logged(world, 6)
  await world.gateway.close()
  const bytes = await exported.promise
  t.ok(bytes.includes(Buffer.from(traceId, 'hex')), 'the span belongs to the client’s trace')
  t.ok(bytes.includes(Buffer.from(continued.traceparent[0]?.slice(36, 52) ?? '', 'hex')), 'the upstream’s parent')
  const switched = Buffer.concat([Buffer.from('http.response.status_code'), Buffer.of(0x12, 2, 0x18, 101)])
  t.ok(bytes.includes('GET /ws') && bytes.includes(switched), 'an upgrade has its status, as an int_value of protobuf')
  t.ok(bytes.includes('GET /open/*') && bytes.includes('GW_UNAUTHENTICATED') && bytes.includes('portaria'))
  t.notOk(bytes.includes('canary'))
})

t.test('the log says that traces could not be sent, and why', async t => {
  const collector = http.createServer((_req, res) => res.writeHead(403).end())
  const endpoint = `http://127.0.0.1:${await listen(t, collector)}`
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = endpoint
  t.teardown(() => {
    delete process.env.OTEL_EXPORTER_OTLP_ENDPOINT
  })
  const { world } = await startWorld(t, { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
  await world.fetch('/open/x')
  const line = await world.logged(({ reason }) => reason === 'traces-unsent')
  t.match(line, { level: 40, failures: 1, fault: /Forbidden/, err: undefined })
})
