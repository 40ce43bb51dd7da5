// Three whole gateways, each a process, before one Redis: over HTTP too, exactly max pass per address and window.
// RW-14, RL-09
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import t from 'tap'
import { connect } from '../bench/load/http-client.ts'
import { baseEnv, routeFile, spawnGateway } from '../support/gateway-process.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'

const MAX = 12
const WINDOW_MS = 2000
const FLOOD_MS = 9000
const CLIENTS = 50
/** Nobody is admitted for longer than this within a window while its permits last. */
const QUIET_MS = 500
const addresses = Array.from({ length: 40 }, (_, index) => `127.0.1.${index + 1}`)

const BUSY_MAX = 100
const BUSY_CLIENTS = 48
const BUSY_WINDOW_MS = 2500
const FREEZE_MS = 80

const redis = await startRedis(t)
const postgres = await startPostgres(t)
const { folder } = routeFile(t, { routes: [] })

const startGateway = async (max = MAX, windowMs = WINDOW_MS): Promise<number> => {
  const gateway = spawnGateway(t, {
    ...baseEnv(folder),
    PORT: '0',
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    RATE_LIMIT_MAX: `${max}`,
    RATE_LIMIT_TTL_MS: `${windowMs}`
  })
  return Number((await gateway.logged('listening')).port)
}

/** A client sends one request after the other, to each gateway in turn; the times of those that were not limited. */
const flood = async (ports: readonly number[], address: string, until: number) => {
  const slots = await Promise.all(ports.map(port => connect(port, address)))
  const admittedAt: number[] = []
  let sent = 0
  while (performance.now() < until) {
    const slot = slots[sent++ % slots.length]
    const status = await new Promise<number>(done => slot?.send('GET /x HTTP/1.1\r\nHost: gw\r\n\r\n', done))
    if (status !== 429 && status !== 401) throw new Error(`${address} got ${status}`)
    if (status !== 429) admittedAt.push(performance.now())
  }
  for (const slot of slots) slot.close()
  return { address, sent, admittedAt }
}

/** How many were admitted in each burst: a window's permits go at once, then there is silence until the next. */
const bursts = (times: readonly number[]): number[] => {
  const counts: number[] = []
  let last = Number.NEGATIVE_INFINITY
  for (const at of times.toSorted((a, b) => a - b)) {
    if (at - last > QUIET_MS) counts.push(0)
    counts.push((counts.pop() ?? 0) + 1)
    last = at
  }
  return counts
}

t.test(`${CLIENTS} clients from 40 addresses before three processes`, async t => {
  const ports = await Promise.all([startGateway(), startGateway(), startGateway()])
  const until = performance.now() + FLOOD_MS
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, (_, index) => flood(ports, addresses[index % addresses.length] ?? '', until))
  )

  for (const address of addresses) {
    const its = clients.filter(client => client.address === address)
    const counts = bursts(its.flatMap(({ admittedAt }) => admittedAt))
    const sent = its.reduce((sum, client) => sum + client.sent, 0)
    t.ok(counts.length >= 4, `${address} saw ${counts.length} windows`)
    t.strictSame(counts.slice(0, -1), counts.slice(0, -1).fill(MAX), `${address} got exactly ${MAX} in each`)
    t.ok((counts.at(-1) ?? 0) <= MAX)
    t.ok(sent >= MAX * 10, `${address} asked ${sent} times`)
  }
})

/** Every core has something to do until the test ends. */
const keepCoresBusy = () => {
  for (let core = 0; core < availableParallelism(); core++) {
    const burner = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
    t.teardown(() => burner.kill('SIGKILL'))
  }
}

t.test(`${BUSY_CLIENTS} clients on a busy machine, from the first window on, and while Redis freezes`, async t => {
  const start = () => startGateway(BUSY_MAX, BUSY_WINDOW_MS)
  const ports = await Promise.all([start(), start(), start()])
  keepCoresBusy()
  const chosen = addresses.slice(0, 4)
  const until = performance.now() + 2.5 * BUSY_WINDOW_MS
  const flooding = Promise.all(
    Array.from({ length: BUSY_CLIENTS }, (_, index) => flood(ports, chosen[index % chosen.length] ?? '', until))
  )
  // In the middle of the second window's grants, as near as a client can tell.
  setTimeout(
    () => {
      redis.freeze()
      setTimeout(redis.thaw, FREEZE_MS)
    },
    BUSY_WINDOW_MS - FREEZE_MS / 2
  )
  const clients = await flooding

  for (const address of chosen) {
    const counts = bursts(clients.filter(client => client.address === address).flatMap(client => client.admittedAt))
    t.strictSame(counts, [BUSY_MAX, BUSY_MAX, BUSY_MAX], `${address} got exactly ${BUSY_MAX} in each window`)
  }
})
