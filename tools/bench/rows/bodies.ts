// Bodies of a gigabyte pass in both directions: their rate beside nginx's, and what they leave in memory.
import { compare, inTurns, MEGABYTE } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes, watchResident } from '../process-cost.ts'
import { runLoad, startLoadUpstream } from '../processes.ts'
import type { World } from '../world.ts'

const [RATE, GROWTH] = ['MB/s', 'RSS growth MB']

/** Resolves to the seconds that it took. */
const transfer = async (world: World, peer: Peer, direction: string, bytes: number): Promise<number> => {
  const flags = { port: peer.port, token: world.token, direction, bytes }
  const result = await runLoad<{ status: number; bytes: number; seconds: number }>('body-client.ts', flags)
  if (result.status === 200 && result.bytes === bytes) return result.seconds
  throw new VoidRun(`${peer.name}: ${direction} answered ${result.status} after ${result.bytes} of ${bytes} bytes`)
}

export const measureBodies = async (world: World): Promise<void> => {
  const megabytes = world.options.quick ? 64 : 1024
  world.notes.push(
    `bodies of ${megabytes} MB; growth: highest RSS in the transfer over RSS just before it, after a 16 MB warm-up`
  )
  const upstreamPort = await startLoadUpstream(world, 'body-upstream.ts')
  const peers = [
    await startGateway(world, { routes: oneRoute(upstreamPort) }),
    await startNginx(world, { upstreamPort })
  ]
  for (const direction of ['down', 'up'] as const) {
    for (const peer of peers) await transfer(world, peer, direction, 16 * MEGABYTE)
    const items = peers.map(peer => ({ name: `${peer.name}, ${direction}`, peer }))
    const [ours, nginx] = await inTurns(world, items, async ({ peer }) => {
      const { pid } = peer
      const [idle, cpuBefore] = [residentBytes(pid), cpuMicros(pid)]
      const watch = watchResident(pid)
      const seconds = await transfer(world, peer, direction, megabytes * MEGABYTE)
      return {
        [RATE]: megabytes / seconds,
        'CPU ms/MB': (cpuMicros(pid) - cpuBefore) / 1000 / megabytes,
        [GROWTH]: (watch.stop() - idle) / MEGABYTE
      }
    })
    world.find(`body-${direction}-growth`, Math.max(...(ours?.figures[GROWTH] ?? [])))
    compare(world, `body-${direction}-rate`, ours, nginx, RATE)
  }
}
