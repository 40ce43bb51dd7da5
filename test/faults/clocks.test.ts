// The wall clock jumps: tokens follow it both ways, and nothing that is counted or timed does; what differs from the clocks of
// database and Redis is said. DF-18
import t from 'tap'
import { watchClocks } from '../../gateway/observe/clock-watch.ts'
import { shiftClocks } from '../support/clocks.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startBackend } from '../support/gateway-process.ts'
import { claimsOf, logIn } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { startRedis } from '../support/redis.ts'
import { openBare, openStore } from '../support/store.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000

const postgres = await startPostgres(t)

t.test('tokens and the Date field follow the clock there and back; what is counted and timed does not', async t => {
  const MachineDate = Date
  const clocks = shiftClocks(t)
  const [ldap, backend] = await Promise.all([startOpenLdap(t), startBackend(t)])
  const world = await startGateway(t, {
    postgres,
    config: routesTo(backend.url, [
      { path: '/app/*' },
      { path: '/few/*', public: true, rateLimit: { max: 2, window: '1h' } }
    ]),
    env: { ...ldap.env, JWT_EXPIRES_IN: '1h' }
  })
  const ask = async (path: string, token?: string) =>
    (await world.fetch(path, token === undefined ? {} : { token })).status
  const isDateRight = async () => {
    const askedAt = Date.now()
    const refused = await world.fetch('/app/x')
    const date = MachineDate.parse(refused.headers.get('date') ?? '')
    return date >= askedAt - 2000 && date <= Date.now()
  }
  const login = async () => (await logIn(world, 'maria')).token
  const early = await login()
  t.equal(await ask('/app/x', early), 200)
  t.same([await ask('/few/x'), await ask('/few/x'), await ask('/few/x')], [200, 200, 429])

  clocks.wallMs = 8 * HOUR_MS
  t.equal(await ask('/app/x', early), 401, 'it expired')
  const late = await login()
  t.equal(await ask('/app/x', late), 200)
  t.ok(await isDateRight())
  t.equal(await ask('/few/x'), 429, 'a window is as long as it was')

  clocks.wallMs = 0
  t.equal(await ask('/app/x', early), 200, 'it has not expired yet')
  t.ok(await isDateRight(), "the Date field is the clock's at once")
  t.equal(await ask('/app/x', await login()), 200)
  t.equal(await ask('/few/x'), 429)
  t.equal((await world.fetch('/health')).status, 200)
})

t.test('a token that is ended while the clock is ahead stays ended when it is set right', async t => {
  const clocks = shiftClocks(t)
  const world = await startGateway(t, { postgres })
  const { tokenState } = await openStore(t, postgres, postgres.url)
  const [early, late] = [
    await world.tokenFor(),
    await world.tokenFor({}, { exp: Math.floor(Date.now() / 1000) + 86_400 })
  ]
  const statusOf = async (token: string) => (await world.fetch('/auth/me', { token })).status
  clocks.wallMs = 8 * HOUR_MS
  for (const { jti, exp } of [early, late].map(claimsOf)) await tokenState.revokeToken(jti, exp)
  await until(async () => (await statusOf(late)) === 401, 'this instance has heard of both')
  clocks.wallMs = 0
  t.same([await statusOf(early), await statusOf(late)], [401, 401])
})

// RV-107
t.test('a clock five minutes ahead or behind is a health check, a metric and a warning', async t => {
  const redis = await startRedis(t)
  const clocks = shiftClocks(t)
  for (const minutes of [5, -5]) {
    clocks.wallMs = minutes * 60_000
    const env = { REDIS_URL: redis.url, OPS_PORT: '0' }
    const { gateway, health, logged } = await startGateway(t, { postgres, env })
    const { aheadS } = await logged(({ reason }) => reason === 'clock-skewed')
    for (const name of ['database', 'redis']) {
      const s = (aheadS as Record<string, number>)[name] ?? 0
      t.ok(Math.abs(s + minutes * 60) < 30, `${name}: ${s}`)
    }
    t.match(await health(), { status: 'degraded', checks: { clock: 'degraded' } })
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.opsPort}/metrics`)).text()
    for (const name of ['database', 'redis']) {
      const [, ahead] = new RegExp(`portaria_clock_ahead_seconds\\{of="${name}"\\} (\\S+)`).exec(metrics) ?? []
      t.ok(Math.abs(Number(ahead) + minutes * 60) < 30, `${name}: ${ahead}`)
    }
    await gateway.close()
  }
})

t.test('clocks that agree are ok, however slow the answer; a clock that is set right is ok again', async t => {
  const database = await openBare(t, postgres.url)
  let wrongMs = 0
  const messages: unknown[] = []
  const slowly = async () => {
    const asked = Date.now()
    await database.clock()
    // As if the answer had taken a minute, or the question had.
    return asked + 30_000
  }
  let reads = 0
  const now = () => Date.now() + wrongMs + (reads++ % 2) * 60_000
  const log = { ...quiet, warn: ({ reason }: { reason: string }) => void messages.push(reason) } as never
  const watch = watchClocks({ clocks: { database: slowly }, log, now, everyMs: 1 })
  t.teardown(watch.close)
  t.equal(watch.state().state, 'unknown')
  await until(async () => watch.state().state === 'ok')
  wrongMs = 300_000
  await until(async () => watch.state().state === 'degraded')
  wrongMs = 0
  await until(async () => watch.state().state === 'ok')
  t.same(messages, ['clock-skewed', 'clock-ok'])
})
