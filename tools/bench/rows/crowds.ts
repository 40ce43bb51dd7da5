// What connections that do little cost, and whether others still get an answer beside crowds of them.
import { setTimeout as delay } from 'node:timers/promises'
import { type GroupResult, together } from '../group.ts'
import { MEGABYTE, oneOff, type Row } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { ask, type Peer } from '../peers/peer.ts'
import { residentBytes, watchResident } from '../process-cost.ts'
import { openLoad, type Running } from '../processes.ts'
import { percentile } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const CROWDS = { idle: 10_000, 'half-head': 8000, 'slow-body': 200, pipelining: 1000 }
type Kind = keyof typeof CROWDS

const PIPELINING_ALONE = 100
const LEAVE_MS = 5000

const gather = (world: World, { port }: Peer, kind: Kind, count: number): Promise<Running> =>
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

const slowestOf = (waits: Float64Array): number => waits.at(-1) ?? Number.NaN

const waitsRow = (name: string, waits: Float64Array, growthMb: number): Row =>
  oneOff(name, {
    asked: waits.length,
    'p50 ms': percentile(waits, 0.5),
    'p99 ms': percentile(waits, 0.99),
    'max ms': slowestOf(waits),
    'growth MB': growthMb
  })

const measureIdle = async (world: World, gateway: Peer, count: number): Promise<GroupResult> => {
  const { pid } = gateway.running
  const warmUp = await gather(world, gateway, 'idle', Math.ceil(count / 10))
  const before = residentBytes(pid)
  const crowd = await gather(world, gateway, 'idle', count)
  const kilobytes = (residentBytes(pid) - before) / count / 1024
  await Promise.all([crowd.stop(), warmUp.stop()])
  return {
    rows: [oneOff(`${count} idle keep-alive connections`, { 'KB/connection': kilobytes })],
    findings: [{ target: 'idle-connection', values: [kilobytes] }]
  }
}

const measurePipelined = async (world: World, gateway: Peer): Promise<GroupResult> => {
  const before = residentBytes(gateway.running.pid)
  const memory = watchResident(gateway.running.pid)
  const health = watchHealth(gateway)
  const crowd = await gather(world, gateway, 'pipelining', PIPELINING_ALONE)
  await delay(world.options.seconds * 1000)
  const waits = await health.stop()
  const growth = (memory.stop() - before) / MEGABYTE
  await crowd.stop()
  return {
    rows: [waitsRow('/health beside 100 × 64 KB pipelined, unread', waits, growth)],
    findings: [
      { target: 'pipelined-wait', values: [slowestOf(waits)] },
      { target: 'pipelined-growth', values: [growth] }
    ]
  }
}

const visit = async (world: World, gateway: Peer, part: number) => {
  const before = residentBytes(gateway.running.pid)
  const health = watchHealth(gateway)
  const crowds = await Promise.all(
    Object.entries(CROWDS).map(([kind, count]) => gather(world, gateway, kind as Kind, Math.ceil(count * part)))
  )
  await delay(2 * world.options.seconds * 1000)
  const waits = await health.stop()
  const growth = (residentBytes(gateway.running.pid) - before) / MEGABYTE
  await Promise.all(crowds.map(crowd => crowd.stop()))
  await delay(LEAVE_MS)
  return { waits, growth, left: residentBytes(gateway.running.pid) }
}

const measureVisits = async (world: World, gateway: Peer, part: number): Promise<GroupResult> => {
  const first = await visit(world, gateway, part)
  const second = await visit(world, gateway, part)
  const visits = [first, second]
  const counts = Object.entries(CROWDS).map(([kind, count]) => `${Math.ceil(count * part)} × ${kind}`)
  return {
    rows: visits.map(({ waits, growth }, index) =>
      waitsRow(`/health beside four crowds, visit ${index + 1}`, waits, growth)
    ),
    findings: [
      { target: 'crowds-wait', values: visits.map(({ waits }) => percentile(waits, 0.99)) },
      { target: 'crowds-left', values: [second.left / first.left] }
    ],
    notes: [`four crowds at once: ${counts.join(', ')}; those that are closed come back after 0.5 s; arrival included`]
  }
}

export const measureCrowds = async (world: World): Promise<GroupResult> => {
  const part = world.options.quick ? 0.05 : 1
  const gateway = await startGateway(world)
  return together(
    await measureIdle(world, gateway, Math.ceil(CROWDS.idle * part)),
    await measurePipelined(world, gateway),
    await measureVisits(world, gateway, part)
  )
}
