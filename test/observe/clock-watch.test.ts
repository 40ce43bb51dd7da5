// The clock of a gateway is compared with those of its database and its Redis.
import t from 'tap'
import { watchClocks } from '../../gateway/observe/clock-watch.ts'
import { shiftClocks } from '../support/clocks.ts'
import { startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { startRedis } from '../support/redis.ts'
import { openBare } from '../support/store.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

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
