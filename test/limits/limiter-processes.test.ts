// Three whole gateways, each a process, before one Redis: over HTTP too, exactly max pass per address and window.
// RW-14, RL-09
// Timed by the clock of the machine.
import t from 'tap'
import {
  BUSY_MAX,
  BUSY_WINDOWS,
  burstsOf,
  floodBusyGateways,
  floodFrom,
  startBusyGateways
} from '../support/busy-limit.ts'
import { baseEnv, routeFile, spawnGateway } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'

const MAX = 12
const WINDOW_MS = 2000
const FLOOD_MS = 9000
const CLIENTS = 50
/** Two thousand refusals a second: more would only show how fast they are. */
const PAUSE_MS = 25
const addresses = Array.from({ length: 40 }, (_, index) => `127.0.1.${index + 1}`)

const redis = await startRedis(t)
const postgres = await startPostgres(t)
const { folder } = routeFile(t, { routes: [] })

const startGateway = async (): Promise<number> => {
  const gateway = spawnGateway(t, {
    ...baseEnv(folder),
    PORT: '0',
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    RATE_LIMIT_MAX: `${MAX}`,
    RATE_LIMIT_TTL_MS: `${WINDOW_MS}`
  })
  return Number((await gateway.logged('listening')).port)
}

t.test(`${CLIENTS} clients from 40 addresses get exactly ${MAX} per window from three processes`, async t => {
  const ports = await Promise.all([startGateway(), startGateway(), startGateway()])
  const until = performance.now() + FLOOD_MS
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, (_, index) =>
      floodFrom(ports, addresses[index % addresses.length] ?? '', until, PAUSE_MS)
    )
  )

  for (const address of addresses) {
    const its = clients.filter(client => client.address === address)
    const counts = burstsOf(
      its.flatMap(({ admittedAt }) => admittedAt),
      WINDOW_MS
    )
    const sent = its.reduce((sum, client) => sum + client.sent, 0)
    t.ok(counts.length >= 4, `${address} saw ${counts.length} windows`)
    t.strictSame(counts.slice(0, -1), counts.slice(0, -1).fill(MAX), `${address} got exactly ${MAX} in each`)
    t.ok((counts.at(-1) ?? 0) <= MAX)
    t.ok(sent >= MAX * 10, `${address} asked ${sent} times`)
  }
})

t.test('the count is exact on a busy machine, from the first window on, and while Redis freezes', async t => {
  const busy = await startBusyGateways(t, redis, postgres.url)
  let admitted: Awaited<ReturnType<typeof floodBusyGateways>>['admitted'] = []
  // Where more than this wants the cores, Redis may leave a command for over 100 ms: by then each counts for itself.
  for (let attempt = 0; attempt < 3; attempt++) {
    const before = busy.aways()
    admitted = (await floodBusyGateways(t, busy, 2 + attempt)).admitted
    if (busy.aways() === before) break
  }
  t.ok(admitted.length > 0)
  for (const { address, counts } of admitted) {
    const expected = Array.from({ length: BUSY_WINDOWS }, () => BUSY_MAX)
    t.strictSame(counts, expected, `${address} got exactly ${BUSY_MAX} in each window`)
  }
})
