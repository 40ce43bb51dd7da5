// Requests come at a fixed rate: the tail of the latency at half of saturation, and what each costs far below it.
import { compared, type GroupResult } from '../group.ts'
import type { Row, Samples } from '../measure.ts'
import { VoidRun } from '../peers/peer.ts'
import { cpuMicros } from '../process-cost.ts'
import { runLoad } from '../processes.ts'
import { median, spread } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** A generator that stood still for longer was held up by the machine, not by what it measures on another core. */
const HELD_UP_MS = 20
const MAX_TRIES = 5

/**
 * Both get the same rate: half of what the slower of the two reached at saturation in this run. The generator is open
 * loop (see load/paced.ts), since a closed loop slows down with what it measures.
 */
export const measureLatency = async (
  world: World,
  gateway: Samples | undefined,
  nginx: Samples | undefined
): Promise<GroupResult> => {
  if (gateway === undefined || nginx === undefined) return { rows: [], findings: [], notes: [] }
  const rate = Math.floor(Math.min(median(gateway.perSecond), median(nginx.perSecond)) / 2)
  const of = { gateway: [] as PacedResult[], nginx: [] as PacedResult[] }
  let repeated = 0
  const undisturbed = async (samples: Samples): Promise<PacedResult> => {
    for (let tries = 1; ; tries += 1) {
      const result = await pacedRound(world, samples, rate)
      if (result.heldUpMs <= HELD_UP_MS || tries === MAX_TRIES) return result
      repeated += 1
    }
  }
  for (let round = 0; round < world.options.rounds; round += 1) {
    of.gateway.push(await undisturbed(gateway))
    of.nginx.push(await undisturbed(nginx))
  }
  const p99 = (results: readonly PacedResult[]) => results.map(result => result.p99Ms)
  return {
    rows: [toLatencyRow(gateway, rate, of.gateway), toLatencyRow(nginx, rate, of.nginx)],
    findings: compared('p99-vs-nginx', p99(of.gateway), p99(of.nginx)),
    notes: [
      `half of saturation: ${rate} requests/s for both, half of the slower one; open loop, latency counted from the due time`,
      `rounds run again because the generator itself stood still for over ${HELD_UP_MS} ms: ${repeated}`
    ]
  }
}

interface PacedResult {
  /** Other than 200, broken, or without an answer. */
  readonly failed: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** The longest that the generator itself did not run while it counted. */
  readonly heldUpMs: number
}

const pacedRound = async (world: World, samples: Samples, rate: number): Promise<PacedResult> => {
  const { port } = samples.subject.peer
  const seconds = world.options.seconds + 1
  const flags = { port, path: BENCH_PATH, token: world.token, rate, seconds, skip: 1 }
  const result = JSON.parse(await runLoad('paced.ts', flags)) as PacedResult
  if (result.failed > 0) throw new VoidRun(`${samples.subject.name} failed ${result.failed} paced requests`)
  return result
}

const toLatencyRow = (samples: Samples, rate: number, results: readonly PacedResult[]): Row => ({
  name: `${samples.subject.name}, paced`,
  columns: {
    'requests/s': spread([rate]),
    'p50 ms': spread(results.map(result => result.p50Ms)),
    'p99 ms': spread(results.map(result => result.p99Ms))
  }
})

/** Far below saturation little arrives at a time, so that nothing is gained by doing many requests in one turn. */
const CALM_RATE = 5000

/** CPU per request at 5,000 requests/s; the gateway first, then nginx and HAProxy. */
export const measurePaced = async (
  world: World,
  [gateway, nginx, haproxy]: readonly (Samples | undefined)[]
): Promise<GroupResult> => {
  const present = [gateway, nginx, haproxy].filter(samples => samples !== undefined)
  const all = present.map(samples => ({ samples, cpuMicros: [] as number[], p99Ms: [] as number[] }))
  for (let round = 0; round < world.options.rounds; round += 1) {
    for (const each of all) {
      const { pid } = each.samples.subject.peer.running
      const before = cpuMicros(pid)
      const result = await pacedRound(world, each.samples, CALM_RATE)
      each.cpuMicros.push((cpuMicros(pid) - before) / (CALM_RATE * (world.options.seconds + 1)))
      each.p99Ms.push(result.p99Ms)
    }
  }
  const cpu = (samples: Samples | undefined) => all.find(each => each.samples === samples)?.cpuMicros
  return {
    rows: all.map(each => ({
      name: `${each.samples.subject.name}, ${CALM_RATE} requests/s`,
      columns: { 'CPU µs/request': spread(each.cpuMicros), 'p99 ms': spread(each.p99Ms) }
    })),
    findings: [
      ...compared('paced-vs-nginx', cpu(gateway), cpu(nginx)),
      ...compared('paced-vs-haproxy', cpu(gateway), cpu(haproxy))
    ],
    notes: []
  }
}
