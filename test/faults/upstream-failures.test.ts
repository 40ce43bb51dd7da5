// Targets that fail are passed over and come back slowly; names are looked up again.
// DF-14, DF-22
import dns from 'node:dns'
import t from 'tap'
import { watchTarget } from '../../gateway/upstream/health.ts'
import { createSharedLookup, hintsFor, type ResolveAll } from '../../gateway/upstream/lookup.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const open = (targets: string[], more: Record<string, unknown> = {}) =>
  routesTo({ targets, ...more }, [{ path: '/open/*', public: true }])

/** A watched target with a clock and probes in the test's hands. */
const watched = (t: Tap, intervalMs?: number) => {
  let clock = 0
  const asked: ((failure: string | undefined) => void)[] = []
  const changes: string[] = []
  const health = watchTarget({
    probe(done) {
      asked.push(done)
      return () => undefined
    },
    settings: () => ({
      checks: intervalMs === undefined ? undefined : { intervalMs, rise: 1, fall: 2 },
      outlier: { errors: 5, restMs: 20 }
    }),
    hasOther: () => true,
    now: () => clock,
    onChange: (state, reason) => changes.push(`${state} ${reason}`)
  })
  t.teardown(health.close)
  return {
    health,
    changes,
    pass: (ms: number) => {
      clock += ms
    },
    probed: async (n: number) => {
      await until(() => asked.length >= n)
      return asked[n - 1] as (failure: string | undefined) => void
    }
  }
}
type Tap = Parameters<typeof startRawUpstream>[0]

t.test('a target that cannot be reached is out at once, one that fails only after five faults in a row', async t => {
  const { health, changes } = watched(t)
  for (let i = 0; i < 4; i++) health.failed('timeout', false)
  health.answered(200, 0)
  for (let i = 0; i < 4; i++) health.failed('reset', false)
  t.notOk(health.isOut, 'an answer between them starts the count anew')
  health.failed('bad-response', false)
  t.ok(health.isOut)
  t.same(changes, ['down bad-response'])

  const dead = watched(t).health
  dead.failed('reset', true)
  t.notOk(dead.isOut, 'a warm connection that was closed says nothing')
  dead.failed('unreachable', true)
  t.match(dead.status(), { state: 'down', reason: 'unreachable', faults: { unreachable: 1 } })
})

t.test('checks as rare as may be do not follow at once', async t => {
  const { health } = watched(t, 2 ** 31 - 1)
  const warnings: string[] = []
  const warn = ({ name }: Error) => warnings.push(name)
  process.on('warning', warn)
  t.teardown(() => process.off('warning', warn))
  for (let i = 0; i < 40; i++) health.resettle()
  await new Promise(setImmediate)
  t.same(warnings, [], 'no timer is too long, and so at once')
})

t.test('a target comes back by a probe, slowly, and is out again at the second fault', async t => {
  const { health, pass, probed, changes } = watched(t)
  health.failed('unreachable', true)
  ;(await probed(1))('unreachable')
  t.ok(health.isOut, 'the first probe failed')
  ;(await probed(2))(undefined)
  t.notOk(health.isOut)
  t.equal(health.status().state, 'returning')
  const turns = (n: number) => Array.from({ length: n }, () => health.takesTurn()).filter(Boolean).length
  t.ok(turns(100) <= 11, 'one turn in ten at first')
  pass(5000)
  const half = turns(100)
  t.ok(half >= 49 && half <= 51, 'half of them in the middle')
  pass(5000)
  t.equal(turns(100), 100)
  t.equal(health.status().state, 'up')
  health.failed('unreachable', true)
  ;(await probed(3))(undefined)
  health.failed('timeout', false)
  health.failed('timeout', false)
  t.ok(health.isOut)
  t.same(changes, [
    'down unreachable',
    'returning unreachable',
    'down unreachable',
    'returning unreachable',
    'down timeout'
  ])
})

t.test('what an old connection still answers does not bring a closing target back, a new one does', async t => {
  const { health, pass } = watched(t)
  pass(100)
  health.failed('unreachable', true)
  pass(100)
  health.answered(200, 50)
  t.ok(health.isOut)
  health.answered(200, 150)
  t.notOk(health.isOut)
})

t.test('with all targets out requests are still tried, and health says so without names', async t => {
  const [a, b] = [await freePort(), await freePort()]
  const world = await startGateway(t, {
    postgres,
    config: open([`http://127.0.0.1:${a}`, `http://127.0.0.1:${b}`])
  })
  for (let i = 0; i < 3; i++) {
    const answer = await world.fetch('/open/x')
    t.equal(answer.status, 502)
    t.match(await answer.json(), { code: 'GW_UPSTREAM_UNREACHABLE' })
  }
  const health = await (await world.fetch('/health')).text()
  t.match(JSON.parse(health), { status: 'degraded', checks: { upstreams: 'degraded' } })
  t.notMatch(health, /127\.0\.0\.1|raw/)
  const line = await world.logged(one => one.msg === 'request' && one.path === '/open/x')
  t.equal(line.reason, 'upstream-unreachable')
})

t.test('a target whose health path fails is passed over; its errors alone are only passed on', async t => {
  const [sick, well] = [await startRawUpstream(t), await startRawUpstream(t)]
  let isSick = true
  const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell'
  const BUSY = 'HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nsick'
  well.respond(() => OK)
  sick.respond(() => (isSick ? BUSY : OK.replace('well', 'sick')))
  const plain = await startGateway(t, { postgres, config: open([sick.url]) })
  for (let i = 0; i < 6; i++) t.equal((await plain.fetch('/open/x')).status, 503)
  t.equal((await plain.health()).checks.upstreams, 'ok')

  const world = await startGateway(t, {
    postgres,
    config: open([sick.url, well.url], { healthCheck: { path: '/healthz', interval: '100ms' } })
  })
  await world.logged(line => line.msg === 'an upstream target is down' && line.reason === 'check-status')
  for (let i = 0; i < 20; i++) t.equal(await (await world.fetch('/open/x')).text(), 'well')
  t.ok(sick.requests.some(({ head }) => /^GET \/healthz HTTP\/1\.1\r\nhost: 127\.0\.0\.1:\d+\r\n/.test(head)))
  isSick = false
  await until(async () => (await (await world.fetch('/open/x')).text()) === 'sick')
})

t.test('a name is asked for once at a time, taken anew within 30 s, and kept while the resolver is away', async t => {
  let clock = 0
  const asked: Parameters<ResolveAll>[1][] = []
  const lookup = createSharedLookup({ resolve: (_, done) => asked.push(done), now: () => clock })
  const ask = () =>
    new Promise<string>(resolve => {
      lookup('app.internal', {}, (error, address) => resolve(error?.message ?? String(address)))
    })
  const answer = (address: string) => asked.at(-1)?.(null, [{ address, family: 4 }])

  const first = [ask(), ask(), ask()]
  t.equal(asked.length, 1, 'one thread for all who wait')
  answer('10.0.0.1')
  t.same(await Promise.all(first), ['10.0.0.1', '10.0.0.1', '10.0.0.1'])

  clock = 6000
  t.equal(await ask(), '10.0.0.1', 'nobody waits for the next answer')
  t.equal(asked.length, 2)
  answer('10.0.0.2')
  t.equal(await ask(), '10.0.0.2')

  clock = 60_000
  const late = ask()
  asked.at(-1)?.(new Error('EAI_AGAIN'), [])
  t.equal(await late, '10.0.0.2', 'an old answer is better than none')
  t.equal(await ask(), '10.0.0.2', 'also while the resolver says nothing')
  asked.at(-1)?.(new Error('EAI_AGAIN'), [])
  clock = 600_000
  const tooLate = ask()
  asked.at(-1)?.(new Error('EAI_AGAIN'), [])
  t.equal(await tooLate, 'EAI_AGAIN')
})

t.test('an upstream is reached by its name', async t => {
  t.equal(hintsFor('app.internal'), dns.ADDRCONFIG, 'by addresses of families that the machine has')
  t.equal(hintsFor('localhost'), 0)
  const { url, respond } = await startRawUpstream(t)
  respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  const world = await startGateway(t, { postgres, config: open([url.replace('127.0.0.1', 'localhost')]) })
  t.equal((await world.fetch('/open/x')).status, 200)
  const nameless = await startGateway(t, { postgres, config: open(['http://nobody.invalid:80']) })
  t.match([(await nameless.fetch('/open/x')).status], [502])
})
