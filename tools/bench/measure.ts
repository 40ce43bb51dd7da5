// Measures subjects in turns, round after round, from outside: CPU and memory from /proc, the rest from wrk.
import { type Peer, VoidRun } from './peers/peer.ts'
import { cpuMicros, residentBytes } from './process-cost.ts'
import type { TargetId } from './targets.ts'
import { BENCH_PATH } from './upstream.ts'
import type { World } from './world.ts'
import { type Load, type LoadResult, runH2load, runWrk } from './wrk.ts'

export interface Subject {
  readonly name: string
  readonly peer: Peer
  /** What to send in a round. `seconds` tells how much must be there to send. */
  load(seconds: number): Promise<Load> | Load
  /** Every answer must be a refusal instead of a success. */
  readonly isRefused?: boolean
  /** A pool that was read to its end voids the round. */
  readonly isFresh?: boolean
  /** Asked over HTTP/2. */
  readonly isHttp2?: boolean
}

/** A line of raw figures: an entry a round in each column, whose name carries the unit. */
export interface Row {
  readonly name: string
  readonly figures: Readonly<Record<string, readonly number[]>>
}

export const CPU = 'CPU µs/request'
export const PER_SECOND = 'requests/s'
export const P99 = 'p99 ms'
export const RESIDENT = 'RSS MB'
export const MEGABYTE = 1024 * 1024

/** Reports what was measured once. */
export const addRow = ({ rows }: World, name: string, figures: Readonly<Record<string, number>>): void => {
  rows.push({ name, figures: Object.fromEntries(Object.entries(figures).map(([column, value]) => [column, [value]])) })
}

/** Measures each item once a round, so that drift of the machine meets all alike; reports and returns a row for each. */
export const inTurns = async <Item extends { readonly name: string }>(
  { options, rows }: World,
  items: readonly Item[],
  measure: (item: Item) => Promise<Readonly<Record<string, number>>>
): Promise<Row[]> => {
  const measured = items.map(item => ({ item, name: item.name, figures: {} as Record<string, number[]> }))
  for (let round = 0; round < options.rounds; round += 1)
    for (const { item, figures } of measured)
      for (const [column, value] of Object.entries(await measure(item))) {
        figures[column] ??= []
        figures[column].push(value)
      }
  rows.push(...measured)
  return measured
}

/** What was measured in the same round stands together, so that drift of the machine cancels out. */
export const compare = (
  world: World,
  target: TargetId,
  above: Row | undefined,
  below: Row | undefined,
  column = CPU,
  combine = (a: number, b: number) => a / b
): void => {
  const divisors = below?.figures[column] ?? []
  const values = above?.figures[column]?.map((value, round) => combine(value, divisors[round] ?? Number.NaN))
  world.find(target, ...(values ?? []))
}

/** The same request with the good token, again and again. */
export const requests = (world: World, peer: Peer, { name = peer.name, scheme = 'http' } = {}): Subject => ({
  name,
  peer,
  load: () => ({ url: `${scheme}://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token })
})

/** CPU time so far, in microseconds. */
const cpuOf = ({ pid, behind }: Peer): number => cpuMicros(pid) + (behind === undefined ? 0 : cpuOf(behind))

/** Warms every subject up, then measures each once a round. @throws VoidRun when answers are not what they must be. */
export const interleave = async (world: World, subjects: readonly Subject[]): Promise<Row[]> => {
  const { warmUpSeconds, seconds } = world.options
  for (const subject of subjects) await runRound(subject, warmUpSeconds)
  return inTurns(world, subjects, async subject => {
    const before = cpuOf(subject.peer)
    const result = await runRound(subject, seconds)
    return {
      [CPU]: (cpuOf(subject.peer) - before) / result.requests,
      [PER_SECOND]: result.perSecond,
      ...result.latency,
      [RESIDENT]: residentBytes(subject.peer.pid) / MEGABYTE
    }
  })
}

const runRound = async (subject: Subject, seconds: number): Promise<LoadResult> => {
  const run = subject.isHttp2 === true ? runH2load : runWrk
  const result = await run(await subject.load(seconds), seconds)
  const complaint = complaintOf(subject, result)
  if (complaint === undefined) return result
  throw new VoidRun(`${subject.name} ${complaint}\n${subject.peer.output()}`)
}

const complaintOf = (subject: Subject, { requests: sent, refused, socketErrors, poolWraps }: LoadResult) => {
  const expected = subject.isRefused ? sent : 0
  if (sent === 0) return 'answered nothing'
  if (refused !== expected) return `refused ${refused} of ${sent} requests, ${expected} expected`
  if (socketErrors > 0) return `broke ${socketErrors} connections`
  return subject.isFresh && poolWraps > 0 ? 'was faster than the pool of tokens is large' : undefined
}
