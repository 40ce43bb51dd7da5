// Subjects are measured in turns, round after round, from outside: CPU and memory from /proc, the rest from wrk.
import { runH2load } from './h2load.ts'
import { type Peer, VoidRun } from './peers/peer.ts'
import { cpuMicros, residentBytes } from './process-cost.ts'
import { type Spread, spread } from './statistics.ts'
import type { World } from './world.ts'
import { type Load, type LoadResult, runWrk } from './wrk.ts'

type RoundLoad = Pick<Load, 'url' | 'token' | 'pool' | 'isPost'>

export interface Subject {
  readonly name: string
  readonly peer: Peer
  /** What to send in a round; warm-up is round -1. `seconds` tells how much must be there to send. */
  load(round: number, seconds: number): Promise<RoundLoad> | RoundLoad
  /** Every answer must be a refusal instead of a success. */
  readonly isRefused?: boolean
  /** A pool that was read to its end voids the round. */
  readonly isFresh?: boolean
  /** Asked over HTTP/2. */
  readonly isHttp2?: boolean
}

/** One entry a round. */
export interface Samples {
  readonly subject: Subject
  readonly cpuMicros: number[]
  readonly perSecond: number[]
  readonly p50Ms: number[]
  readonly p99Ms: number[]
  readonly residentMb: number[]
}

/** A line of raw figures; column names carry their units. */
export interface Row {
  readonly name: string
  readonly columns: Readonly<Record<string, Spread>>
}

export const MEGABYTE = 1024 * 1024

/** CPU time so far, in microseconds. */
const cpuOf = ({ running, behind }: Peer): number => cpuMicros(running.pid) + (behind === undefined ? 0 : cpuOf(behind))

/** Warms every subject up, then measures each once a round. @throws VoidRun when answers are not what they must be. */
export const interleave = async (world: World, subjects: readonly Subject[]): Promise<Samples[]> => {
  const { options } = world
  for (const subject of subjects) await runRound(world, subject, -1, options.warmUpSeconds)

  const all = subjects.map(
    (subject): Samples => ({ subject, cpuMicros: [], perSecond: [], p50Ms: [], p99Ms: [], residentMb: [] })
  )
  for (let round = 0; round < options.rounds; round += 1) {
    for (const samples of all) {
      const before = cpuOf(samples.subject.peer)
      const result = await runRound(world, samples.subject, round, options.seconds)
      const after = cpuOf(samples.subject.peer)
      samples.cpuMicros.push((after - before) / result.requests)
      samples.perSecond.push(result.perSecond)
      samples.p50Ms.push(result.p50Ms)
      samples.p99Ms.push(result.p99Ms)
      samples.residentMb.push(residentBytes(samples.subject.peer.running.pid) / MEGABYTE)
    }
  }
  return all
}

const runRound = async (world: World, subject: Subject, round: number, seconds: number): Promise<LoadResult> => {
  const load = await subject.load(round, seconds)
  const run = subject.isHttp2 === true ? runH2load : runWrk
  const result = await run({ ...load, seconds, connections: world.options.connections })
  const expected = subject.isRefused ? result.requests : 0
  const complaint =
    result.requests === 0
      ? 'answered nothing'
      : result.refused !== expected
        ? `refused ${result.refused} of ${result.requests} requests, ${expected} expected`
        : result.socketErrors > 0
          ? `broke ${result.socketErrors} connections`
          : subject.isFresh && result.poolWraps > 0
            ? 'was faster than the pool of tokens is large'
            : undefined
  if (complaint === undefined) return result
  throw new VoidRun(`${subject.name} ${complaint}\n${subject.peer.running.output()}`)
}

export const toRow = (samples: Samples): Row => ({
  name: samples.subject.name,
  columns: {
    'CPU µs/request': spread(samples.cpuMicros),
    'requests/s': spread(samples.perSecond),
    'p50 ms': spread(samples.p50Ms),
    'p99 ms': spread(samples.p99Ms),
    'RSS MB': spread(samples.residentMb)
  }
})
