// Requests come at a fixed rate: the tail of the latency at half of saturation, and what each costs far below it.
import { sendPaced } from '../load/paced.ts'
import { CPU, compare, inTurns, P99, PER_SECOND, type Row } from '../measure.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros } from '../process-cost.ts'
import { median } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'

/** A generator that stood still for longer was held up by the machine, not by what it measures on another core. */
const HELD_UP_MS = 20
const MAX_TRIES = 5

/**
 * All get the same rate: half of what the slowest of them reached at saturation in this run. The generator is open
 * loop (see load/paced.ts), since a closed loop slows down with what it measures.
 *
 * @param saturated what each reached
 */
export const measureLatency = async (
  world: World,
  peers: readonly Peer[],
  saturated: readonly (Row | undefined)[]
): Promise<void> => {
  const rate = Math.floor(Math.min(...saturated.map(row => median(row?.figures[PER_SECOND] ?? []))) / 2)
  let repeated = 0
  const items = peers.map(peer => ({ name: `${peer.name}, paced`, peer }))
  const [ours, nginx] = await inTurns(world, items, async ({ peer }) => {
    for (let tries = 1; ; tries += 1) {
      const { p50Ms, p99Ms, heldUpMs } = await pacedRound(world, peer, rate)
      if (heldUpMs <= HELD_UP_MS || tries === MAX_TRIES) return { [PER_SECOND]: rate, 'p50 ms': p50Ms, [P99]: p99Ms }
      repeated += 1
    }
  })
  compare(world, 'p99-vs-nginx', ours, nginx, P99)
  world.notes.push(
    `half of saturation: ${rate} requests/s for both, half of the slower one; open loop, latency counted from the due time`,
    `rounds run again because the generator itself stood still for over ${HELD_UP_MS} ms: ${repeated}`
  )
}

const pacedRound = async ({ options, token }: World, { name, port }: Peer, rate: number) => {
  const result = await sendPaced(port, BENCH_PATH, token, { rate, seconds: options.seconds + 1, skip: 1 })
  if (result.failed > 0) throw new VoidRun(`${name} failed ${result.failed} paced requests`)
  return result
}

/** Far below saturation little arrives at a time, so that nothing is gained by doing many requests in one turn. */
const CALM_RATE = 5000

/** CPU per request at 5,000 requests/s. */
export const measurePaced = async (world: World, peers: readonly Peer[]): Promise<void> => {
  const items = peers.map(peer => ({ name: `${peer.name}, ${CALM_RATE} requests/s`, peer }))
  const [ours, nginx, haproxy] = await inTurns(world, items, async ({ peer }) => {
    const before = cpuMicros(peer.pid)
    const { p99Ms } = await pacedRound(world, peer, CALM_RATE)
    const requests = CALM_RATE * (world.options.seconds + 1)
    return { [CPU]: (cpuMicros(peer.pid) - before) / requests, [P99]: p99Ms }
  })
  compare(world, 'paced-vs-nginx', ours, nginx)
  compare(world, 'paced-vs-haproxy', ours, haproxy)
}
