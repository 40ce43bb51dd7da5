// Three whole gateways, each a process, before one Redis: over HTTP too, exactly max pass per address and window.
// RW-14, RL-09
// Timed by the clock of the machine.
import t from 'tap'
import { REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { burstsOf, floodFrom } from '../support/busy-limit.ts'
import { routeFile, startGatewayProcess } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { watchLateness } from '../support/undisturbed.ts'

const MAX = 12
const WINDOW_MS = 2000
const FLOOD_MS = 9000
const CLIENTS = 50
/** Two thousand refusals a second: more would only show how fast they are. */
const PAUSE_MS = 25
/** A turn of the event loop later than this is the machine's: bursts could not be told apart. */
const LATE_MS = 250
const ATTEMPTS = 5
/** Each attempt has others, with windows of their own. */
const addressesOf = (attempt: number) => Array.from({ length: 40 }, (_, index) => `127.0.${10 + attempt}.${index + 1}`)

const redis = await startRedis(t)
const postgres = await startPostgres(t)
const { folder } = routeFile(t, { routes: [] })

const limit = { RATE_LIMIT_MAX: `${MAX}`, RATE_LIMIT_TTL_MS: `${WINDOW_MS}` }
const startGateway = () =>
  startGatewayProcess(t, folder, { DATABASE_URL: postgres.url, REDIS_URL: redis.url, ...limit })

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)

t.test(`${CLIENTS} clients from 40 addresses get exactly ${MAX} per window from three processes`, async t => {
  const gateways = await Promise.all([startGateway(), startGateway(), startGateway()])
  const ports = gateways.map(({ port }) => port)
  /** How often an instance has found Redis away: where Redis is not scheduled for 100 ms, each counts for itself. */
  const aways = () => sum(gateways.map(({ stdout }) => stdout().split(REDIS_UNAVAILABLE).length - 1))
  for (let attempt = 1; ; attempt++) {
    const [lateness, began, before] = [watchLateness(), performance.now(), aways()]
    const addresses = addressesOf(attempt)
    const flood = (_: unknown, index: number) =>
      floodFrom(ports, addresses[index % addresses.length] ?? '', began + FLOOD_MS, PAUSE_MS)
    const clients = await Promise.all(Array.from({ length: CLIENTS }, flood))
    const ofAddresses = addresses.map(address => clients.filter(client => client.address === address))
    const asked = ofAddresses.map(its => sum(its.map(({ sent }) => sent)))
    // This process, which does nothing but ask, was itself kept waiting.
    const isSlow = lateness() > LATE_MS || Math.min(...asked) < MAX * 10
    const windows = Math.ceil((performance.now() - began) / WINDOW_MS) + 1
    if ((isSlow || aways() > before) && attempt < ATTEMPTS) continue

    for (const [index, its] of ofAddresses.entries()) {
      const admittedAt = its.flatMap(client => client.admittedAt)
      const counts = burstsOf(admittedAt, WINDOW_MS)
      t.ok(sum(counts) <= 3 * MAX * windows, `${addresses[index]} got ${sum(counts)} in ${windows} windows`)
      if (isSlow) continue
      t.ok(counts.length >= 4, `${addresses[index]} saw ${counts.length} windows`)
      t.strictSame(counts.slice(0, -1), counts.slice(0, -1).fill(MAX), `${addresses[index]} got exactly ${MAX} in each`)
      t.ok((counts.at(-1) ?? 0) <= MAX)
    }
    return
  }
})
