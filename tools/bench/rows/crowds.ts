// Whether others still get an answer beside crowds of connections that do little, and what the crowds leave in memory.
import { setTimeout as delay } from 'node:timers/promises'
import { addRow, MEGABYTE } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { ask, type Peer } from '../peers/peer.ts'
import { residentBytes, watchResident } from '../process-cost.ts'
import { openLoad, type Running } from '../processes.ts'
import { percentile } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const CROWDS = { idle: 10_000, 'half-head': 8000, 'slow-body': 200, pipelining: 1000 }

const PIPELINING_ALONE = 100
const LEAVE_MS = 5000

const gather = (world: World, { port }: Peer, kind: string, count: number): Promise<Running> =>
  openLoad(world, 'crowd.ts', { port, kind, count, path: BENCH_PATH, token: world.token })

/** Asks for /health on a new connection each time, every 50 ms; milliseconds of each answer in order of size, infinity without one. */
const watchHealth = (gateway: Peer) => {
  const waits: number[] = []
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      const from = performance.now()
      const isAnswered = await ask(gateway.port, '/health').then(
        answer => answer.status === 200,
        () => false
      )
      waits.push(isAnswered ? performance.now() - from : Number.POSITIVE_INFINITY)
      await delay(50)
    }
  })()
  return {
    async stop(): Promise<Float64Array> {
      isOver = true
      await watching
      return Float64Array.from(waits).sort()
    }
  }
}

const addWaits = (world: World, name: string, waits: Float64Array, growthMb: number): void =>
  addRow(world, name, {
    asked: waits.length,
    'p50 ms': percentile(waits, 0.5),
    'p99 ms': percentile(waits, 0.99),
    'max ms': percentile(waits, 1),
    'growth MB': growthMb
  })

const measurePipelined = async (world: World, gateway: Peer): Promise<void> => {
  const before = residentBytes(gateway.running.pid)
  const memory = watchResident(gateway.running.pid)
  const health = watchHealth(gateway)
  const crowd = await gather(world, gateway, 'pipelining', PIPELINING_ALONE)
  await delay(world.options.seconds * 1000)
  const waits = await health.stop()
  const growth = (memory.stop() - before) / MEGABYTE
  await crowd.stop()
  addWaits(world, '/health beside 100 × 64 KB pipelined, unread', waits, growth)
  world.find('pipelined-wait', percentile(waits, 1))
  world.find('pipelined-growth', growth)
}

const measureVisits = async (world: World, gateway: Peer, counts: readonly (readonly [string, number])[]) => {
  const visit = async (name: string) => {
    const before = residentBytes(gateway.running.pid)
    const health = watchHealth(gateway)
    const crowds = await Promise.all(counts.map(([kind, count]) => gather(world, gateway, kind, count)))
    await delay(2 * world.options.seconds * 1000)
    const waits = await health.stop()
    addWaits(world, name, waits, (residentBytes(gateway.running.pid) - before) / MEGABYTE)
    await Promise.all(crowds.map(crowd => crowd.stop()))
    await delay(LEAVE_MS)
    return { p99: percentile(waits, 0.99), left: residentBytes(gateway.running.pid) }
  }
  const first = await visit('/health beside four crowds, visit 1')
  const second = await visit('/health beside four crowds, visit 2')
  world.find('crowds-wait', first.p99, second.p99)
  world.find('crowds-left', second.left / first.left)
  const words = counts.map(([kind, count]) => `${count} × ${kind}`).join(', ')
  world.notes.push(`four crowds at once: ${words}; those that are closed come back after 0.5 s; arrival included`)
}

export const measureCrowds = async (world: World): Promise<void> => {
  const part = world.options.quick ? 0.05 : 1
  const gateway = await startGateway(world)
  await measurePipelined(world, gateway)
  const counts = Object.entries(CROWDS).map(([kind, count]) => [kind, Math.ceil(count * part)] as const)
  await measureVisits(world, gateway, counts)
}
