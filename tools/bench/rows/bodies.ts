// Bodies of a gigabyte pass in both directions: their rate beside nginx's, and what they leave in memory.
import { compared, type GroupResult, startOrNote } from '../group.ts'
import { inTurns, MEGABYTE } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes, watchResident } from '../process-cost.ts'
import { runLoad, startLoadUpstream } from '../processes.ts'
import type { World } from '../world.ts'

const DIRECTIONS = ['down', 'up'] as const
type Direction = (typeof DIRECTIONS)[number]
const [RATE, GROWTH] = ['MB/s', 'RSS growth MB']

/** Resolves to the seconds that it took. */
const transfer = async (world: World, peer: Peer, direction: Direction, bytes: number): Promise<number> => {
  const flags = { port: peer.port, token: world.token, direction, bytes }
  const result = await runLoad<{ status: number; bytes: number; seconds: number }>('body-client.ts', flags)
  if (result.status === 200 && result.bytes === bytes) return result.seconds
  throw new VoidRun(`${peer.name}: ${direction} answered ${result.status} after ${result.bytes} of ${bytes} bytes`)
}

const measureTransfer = async (world: World, peer: Peer, direction: Direction, bytes: number) => {
  const { pid } = peer.running
  const [idle, cpuBefore] = [residentBytes(pid), cpuMicros(pid)]
  const watch = watchResident(pid)
  const seconds = await transfer(world, peer, direction, bytes)
  const megabytes = bytes / MEGABYTE
  return {
    [RATE]: megabytes / seconds,
    'CPU ms/MB': (cpuMicros(pid) - cpuBefore) / 1000 / megabytes,
    [GROWTH]: (watch.stop() - idle) / MEGABYTE
  }
}

export const measureBodies = async (world: World): Promise<GroupResult> => {
  const bytes = (world.options.quick ? 64 : 1024) * MEGABYTE
  const notes = [
    `bodies of ${bytes / MEGABYTE} MB; growth: highest RSS in the transfer over RSS just before it, after a 16 MB warm-up`
  ]
  const upstreamPort = await startLoadUpstream(world, 'body-upstream.ts')
  const nginx = await startOrNote('nginx', notes, () => startNginx(world, upstreamPort))
  const gateway = await startGateway(world, { routes: oneRoute(upstreamPort) })
  const nameOf = (peer: Peer | undefined, direction: Direction) => `${peer?.name}, ${direction}`
  const transfers = DIRECTIONS.flatMap(direction =>
    [gateway, nginx].flatMap(peer => (peer === undefined ? [] : [{ name: nameOf(peer, direction), peer, direction }]))
  )
  for (const { peer, direction } of transfers) await transfer(world, peer, direction, 16 * MEGABYTE)
  const rows = await inTurns(world, transfers, ({ peer, direction }) => measureTransfer(world, peer, direction, bytes))

  const of = (peer: Peer | undefined, direction: Direction) => rows.find(({ name }) => name === nameOf(peer, direction))
  const findings = DIRECTIONS.flatMap(direction => {
    const ours = of(gateway, direction)
    const grown = { target: `body-${direction}-growth` as const, values: [Math.max(...(ours?.figures[GROWTH] ?? []))] }
    return [grown, ...compared(`body-${direction}-rate`, ours, of(nginx, direction), RATE)]
  })
  return { rows, findings, notes }
}
