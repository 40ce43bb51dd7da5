// What connections that do little cost, and whether others still get an answer beside crowds of them.
import { setTimeout as delay } from 'node:timers/promises'
import type { GroupResult } from '../group.ts'
import { MEGABYTE, type Row } from '../measure.ts'
import { type Gateway, oneRoute, startGateway } from '../peers/gateway.ts'
import { ask } from '../peers/peer.ts'
import { residentBytes, watchResident } from '../process-cost.ts'
import { type Running, startLoad, waitUntil } from '../processes.ts'
import { percentile, spread } from '../statistics.ts'
import type { Finding } from '../targets.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

const CROWDS = { idle: 10_000, 'half-head': 8000, 'slow-body': 200, pipelining: 1000 }
type Kind = keyof typeof CROWDS

const PIPELINING_ALONE = 100
const LEAVE_MS = 5000

const gather = (world: World, { port }: Gateway, kind: Kind, count: number): Running =>
  startLoad(world, 'crowd.ts', { port, kind, count, path: BENCH_PATH, token: world.token })

const gathered = (crowd: Running) => waitUntil(crowd, async () => crowd.output().includes('"opened"'), 120_000)

/** Asks for /health on a new connection each time, every 50 ms; milliseconds of each answer in order of size, infinity without one. */
const watchHealth = (gateway: Gateway) => {
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

const waitsRow = (name: string, waits: Float64Array, growthMb: number): Row => ({
  name,
  columns: {
    asked: spread([waits.length]),
    'p50 ms': spread([percentile(waits, 0.5)]),
    'p99 ms': spread([percentile(waits, 0.99)]),
    'max ms': spread([waits.at(-1) ?? Number.NaN]),
    'growth MB': spread([growthMb])
  }
})

const measureIdle = async (world: World, gateway: Gateway, count: number): Promise<GroupResult> => {
  const { pid } = gateway.running
  const warmUp = gather(world, gateway, 'idle', Math.ceil(count / 10))
  await gathered(warmUp)
  const before = residentBytes(pid)
  const crowd = gather(world, gateway, 'idle', count)
  await gathered(crowd)
  const kilobytes = (residentBytes(pid) - before) / count / 1024
  await Promise.all([crowd.stop(), warmUp.stop()])
  const row = { name: `${count} idle keep-alive connections`, columns: { 'KB/connection': spread([kilobytes]) } }
  return { rows: [row], findings: [{ target: 'idle-connection', value: kilobytes }], notes: [] }
}

const measurePipelined = async (world: World, gateway: Gateway): Promise<GroupResult> => {
  const before = residentBytes(gateway.running.pid)
  const memory = watchResident(gateway.running.pid)
  const health = watchHealth(gateway)
  const crowd = gather(world, gateway, 'pipelining', PIPELINING_ALONE)
  await gathered(crowd)
  await delay(world.options.seconds * 1000)
  const waits = await health.stop()
  const growth = (memory.stop() - before) / MEGABYTE
  await crowd.stop()
  const findings: Finding[] = [
    { target: 'pipelined-wait', value: waits.at(-1) ?? Number.NaN },
    { target: 'pipelined-growth', value: growth }
  ]
  return { rows: [waitsRow('/health beside 100 × 64 KB pipelined, unread', waits, growth)], findings, notes: [] }
}

const visit = async (world: World, gateway: Gateway, part: number) => {
  const before = residentBytes(gateway.running.pid)
  const health = watchHealth(gateway)
  const crowds = (Object.keys(CROWDS) as Kind[]).map(kind =>
    gather(world, gateway, kind, Math.ceil(CROWDS[kind] * part))
  )
  await Promise.all(crowds.map(gathered))
  await delay(2 * world.options.seconds * 1000)
  const waits = await health.stop()
  const growth = (residentBytes(gateway.running.pid) - before) / MEGABYTE
  await Promise.all(crowds.map(crowd => crowd.stop()))
  await delay(LEAVE_MS)
  return { waits, growth, left: residentBytes(gateway.running.pid) }
}

const measureVisits = async (world: World, gateway: Gateway, part: number): Promise<GroupResult> => {
  const first = await visit(world, gateway, part)
  const second = await visit(world, gateway, part)
  const visits = [first, second]
  return {
    rows: visits.map(({ waits, growth }, index) =>
      waitsRow(`/health beside four crowds, visit ${index + 1}`, waits, growth)
    ),
    findings: [
      { target: 'crowds-wait', value: spread(visits.map(({ waits }) => percentile(waits, 0.99))) },
      { target: 'crowds-left', value: second.left / first.left }
    ],
    notes: [
      `four crowds at once: ${Object.entries(CROWDS)
        .map(([kind, count]) => `${Math.ceil(count * part)} × ${kind}`)
        .join(', ')}; those that are closed come back after 0.5 s; arrival included`
    ]
  }
}

export const measureCrowds = async (world: World): Promise<GroupResult> => {
  const part = world.options.quick ? 0.05 : 1
  const gateway = await startGateway(world, {
    name: 'Portaria',
    counting: 'redis',
    routes: oneRoute(world.upstream.checkedPort)
  })
  const parts = [
    await measureIdle(world, gateway, Math.ceil(CROWDS.idle * part)),
    await measurePipelined(world, gateway),
    await measureVisits(world, gateway, part)
  ]
  return {
    rows: parts.flatMap(each => each.rows),
    findings: parts.flatMap(each => each.findings),
    notes: parts.flatMap(each => each.notes)
  }
}
