// Floods three gateways before one Redis on a machine whose cores are all busy, and counts how many each window admitted.
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Test } from 'tap'
import { REDIS_UNAVAILABLE } from '../../gateway/limits/circuit.ts'
import { connect } from '../../tools/bench/load/http-client.ts'
import { type GatewayProcess, routeFile, startGatewayProcess } from './gateway-process.ts'
import type { TestRedis } from './redis.ts'

export const BUSY_MAX = 100
/** The first, one in which Redis freezes, and the one after it. */
export const BUSY_WINDOWS = 3
const CLIENTS = 48
const WINDOW_MS = 2500
const FREEZE_MS = 80
/** Of a window: its permits are had within this part, and the next window begins behind it, on a busy machine too. */
const BURST_SHARE = 0.7

type Teardown = Pick<Test, 'teardown'>

/**
 * A client sends one request after the other, to each gateway in turn; the times of those that were not limited.
 *
 * @param pauseMs after each refusal; what a window has left is asked for without a pause
 */
export const floodFrom = async (ports: readonly number[], address: string, until: number, pauseMs = 0) => {
  const slots = await Promise.all(ports.map(port => connect(port, address)))
  const admittedAt: number[] = []
  let sent = 0
  while (performance.now() < until) {
    const slot = slots[sent++ % slots.length]
    const status = await new Promise<number>(done => slot?.send('GET /x HTTP/1.1\r\nHost: gw\r\n\r\n', done))
    if (status !== 429 && status !== 401) throw new Error(`${address} got ${status}`)
    if (status !== 429) admittedAt.push(performance.now())
    else if (pauseMs > 0) await delay(pauseMs)
  }
  for (const slot of slots) slot.close()
  return { address, sent, admittedAt }
}

/** How many were admitted in each burst: a window's permits go at once, then there is silence until the next. */
export const burstsOf = (times: readonly number[], windowMs: number): number[] => {
  const counts: number[] = []
  let first = Number.NEGATIVE_INFINITY
  for (const at of times.toSorted((a, b) => a - b)) {
    if (at - first > BURST_SHARE * windowMs) {
      counts.push(0)
      first = at
    }
    counts.push((counts.pop() ?? 0) + 1)
  }
  return counts
}

/** Every core has something to do until the function returned is called. */
const keepCoresBusy = (t: Teardown) => {
  const burners = Array.from({ length: availableParallelism() }, () =>
    spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' })
  )
  const stop = () => {
    for (const burner of burners) burner.kill('SIGKILL')
  }
  t.teardown(stop)
  return stop
}

/** Three processes that count in one Redis. */
export const startBusyGateways = async (t: Teardown, redis: TestRedis, databaseUrl: string) => {
  const { folder } = routeFile(t, { routes: [] })
  const limit = { RATE_LIMIT_MAX: `${BUSY_MAX}`, RATE_LIMIT_TTL_MS: `${WINDOW_MS}` }
  const ports: number[] = []
  const processes: GatewayProcess[] = []
  while (ports.length < 3) {
    const gateway = await startGatewayProcess(t, folder, { DATABASE_URL: databaseUrl, REDIS_URL: redis.url, ...limit })
    processes.push(gateway)
    ports.push(gateway.port)
  }
  /** How often one of them has found Redis unanswering for 100 ms, and counted for itself from then on. */
  const aways = () => processes.flatMap(({ stdout }) => stdout().split(REDIS_UNAVAILABLE).slice(1)).length
  return { redis, ports, aways }
}

/**
 * How many requests of each address were admitted, window by window; Redis freezes within the second one.
 *
 * @param network the third byte of the clients' addresses: others begin with a first window of their own
 */
export const floodBusyGateways = async (
  t: Teardown,
  { redis, ports }: { readonly redis: TestRedis; readonly ports: readonly number[] },
  network: number
) => {
  const stop = keepCoresBusy(t)
  const addresses = [1, 2, 3, 4].map(each => `127.0.${network}.${each}`)
  const until = performance.now() + (BUSY_WINDOWS - 0.5) * WINDOW_MS
  const flooding = Promise.all(
    Array.from({ length: CLIENTS }, (_, index) => floodFrom(ports, addresses[index % addresses.length] ?? '', until))
  )
  // In the middle of the second window's grants, as near as a client can tell.
  const frozenMs = await redis.freezeIn(WINDOW_MS - FREEZE_MS / 2, FREEZE_MS)
  const clients = await flooding
  stop()
  const admitted = addresses.map(address => {
    const its = clients.filter(client => client.address === address)
    return {
      address,
      counts: burstsOf(
        its.flatMap(({ admittedAt }) => admittedAt),
        WINDOW_MS
      )
    }
  })
  return { admitted, frozenMs }
}
