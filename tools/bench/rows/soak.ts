// Whether memory stays flat: RSS while a million requests pass, and on for as many minutes as were asked for.
import { type GroupResult, probed, startOrNote } from '../group.ts'
import { MEGABYTE, type Row } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { residentBytes } from '../process-cost.ts'
import { median, spread } from '../statistics.ts'
import type { Finding } from '../targets.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { runWrk } from '../wrk.ts'

interface Sample {
  /** Requests answered so far, or seconds passed so far. */
  readonly at: number
  readonly residentMb: number
}

const FULL_COUNT = 1_000_000
const FULL_MINUTES = 20

/** Loads the peer in chunks of `seconds` until `isOver`, with one sample of memory after each. */
const soak = async (world: World, peer: Peer, seconds: number, progress: (total: number) => number, end: number) => {
  const samples: Sample[] = []
  let total = 0
  for (let at = 0; at < end; at = progress(total)) {
    const load = { url: `http://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token }
    const result = await runWrk({ ...load, seconds, connections: world.options.connections })
    if (result.refused > 0 || result.socketErrors > 0 || result.requests === 0) {
      throw new VoidRun(`${peer.name} failed during the soak\n${peer.running.output()}`)
    }
    total += result.requests
    samples.push({ at: progress(total), residentMb: residentBytes(peer.running.pid) / MEGABYTE })
  }
  return samples
}

/** Garbage collection makes single samples jump: the median of those in a tenth of the way stands for a point. */
const around = (samples: readonly Sample[], from: number, to: number): number => {
  const last = samples.at(-1)?.at ?? 0
  const within = samples.filter(sample => sample.at >= last * from && sample.at <= last * to)
  return median(within.map(sample => sample.residentMb))
}

const summary = (name: string, samples: readonly Sample[]): Row => ({
  name,
  columns: {
    'RSS MB at half': spread([around(samples, 0.4, 0.6)]),
    'RSS MB at the end': spread([around(samples, 0.85, 1)]),
    'RSS MB': spread(samples.map(sample => sample.residentMb))
  }
})

const growth = (samples: readonly Sample[]): number => around(samples, 0.85, 1) / around(samples, 0.4, 0.6)

export const measureSoak = async (world: World): Promise<GroupResult> => {
  const { quick, soakMinutes } = world.options
  const notes: string[] = []
  const start = { name: 'Portaria', counting: 'redis', routes: oneRoute(world.upstream.checkedPort) } as const
  const gateway = await startOrNote('Portaria', notes, () => startGateway(world, start))
  if (gateway === undefined) return { rows: [], findings: [], notes }

  return probed(world, [gateway], BENCH_PATH, async () => {
    const count = quick ? FULL_COUNT / 20 : FULL_COUNT
    const byCount = await soak(world, gateway, quick ? 1 : 3, total => total, count)
    const rows = [summary(`${count} requests`, byCount)]
    const findings: Finding[] = [
      { target: 'million', value: growth(byCount), ...noteUnless(!quick, `${count} requests only`) }
    ]

    if (soakMinutes > 0) {
      const startedAt = performance.now()
      const passed = () => (performance.now() - startedAt) / 60_000
      const byTime = await soak(world, gateway, Math.min(15, soakMinutes * 6), passed, soakMinutes)
      rows.push(summary(`${soakMinutes} minutes`, byTime))
      const isFull = soakMinutes >= FULL_MINUTES
      findings.push({ target: 'soak', value: growth(byTime), ...noteUnless(isFull, `${soakMinutes} minutes only`) })
    }
    return { rows, findings, notes }
  })
}

const noteUnless = (isFull: boolean, note: string): { note?: string } => (isFull ? {} : { note })
