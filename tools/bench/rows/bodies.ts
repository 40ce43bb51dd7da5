// Bodies of a gigabyte pass in both directions: their rate beside nginx's, and what they leave in memory.
import { compared, type GroupResult, startOrNote } from '../group.ts'
import { MEGABYTE, type Row } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startNginx } from '../peers/nginx.ts'
import { type Peer, VoidRun } from '../peers/peer.ts'
import { cpuMicros, residentBytes, watchResident } from '../process-cost.ts'
import { runLoad, startLoadUpstream } from '../processes.ts'
import { spread } from '../statistics.ts'
import type { World } from '../world.ts'

const DIRECTIONS = ['down', 'up'] as const
type Direction = (typeof DIRECTIONS)[number]

const transfer = async (world: World, peer: Peer, direction: Direction, bytes: number): Promise<number> => {
  const text = await runLoad('body-client.ts', { port: peer.port, token: world.token, direction, bytes })
  const result = JSON.parse(text) as { status: number; bytes: number; seconds: number }
  if (result.status === 200 && result.bytes === bytes) return result.seconds
  throw new VoidRun(`${peer.name}: ${direction} answered ${result.status} after ${result.bytes} of ${bytes} bytes`)
}

interface Transfers {
  readonly peer: Peer
  readonly direction: Direction
  readonly megabytesPerSecond: number[]
  readonly growthMb: number[]
  readonly cpuMsPerMegabyte: number[]
}

const measureTransfer = async (world: World, transfers: Transfers, bytes: number): Promise<void> => {
  const { peer, direction } = transfers
  const idle = residentBytes(peer.running.pid)
  const cpuBefore = cpuMicros(peer.running.pid)
  const watch = watchResident(peer.running.pid)
  const seconds = await transfer(world, peer, direction, bytes)
  const megabytes = bytes / MEGABYTE
  transfers.growthMb.push((watch.stop() - idle) / MEGABYTE)
  transfers.megabytesPerSecond.push(megabytes / seconds)
  transfers.cpuMsPerMegabyte.push((cpuMicros(peer.running.pid) - cpuBefore) / 1000 / megabytes)
}

const toRow = (transfers: Transfers): Row => ({
  name: `${transfers.peer.name}, ${transfers.direction}`,
  columns: {
    'MB/s': spread(transfers.megabytesPerSecond),
    'CPU ms/MB': spread(transfers.cpuMsPerMegabyte),
    'RSS growth MB': spread(transfers.growthMb)
  }
})

export const measureBodies = async (world: World): Promise<GroupResult> => {
  const bytes = (world.options.quick ? 64 : 1024) * MEGABYTE
  const notes = [
    `bodies of ${bytes / MEGABYTE} MB; growth: highest RSS in the transfer over RSS just before it, after a 16 MB warm-up`
  ]
  const upstreamPort = await startLoadUpstream(world, 'body-upstream.ts')
  const routes = oneRoute(upstreamPort)
  const nginx = await startOrNote('nginx', notes, () => startNginx(world, upstreamPort))
  const gateway = await startOrNote('Portaria', notes, () =>
    startGateway(world, { name: 'Portaria', counting: 'redis', routes })
  )
  const peers = [gateway, nginx].filter(peer => peer !== undefined)
  const all = DIRECTIONS.flatMap(direction =>
    peers.map((peer): Transfers => ({ peer, direction, megabytesPerSecond: [], growthMb: [], cpuMsPerMegabyte: [] }))
  )
  for (const { peer, direction } of all) await transfer(world, peer, direction, 16 * MEGABYTE)
  for (let round = 0; round < world.options.rounds; round += 1) {
    for (const transfers of all) await measureTransfer(world, transfers, bytes)
  }

  const of = (peer: Peer | undefined, direction: Direction) =>
    all.find(transfers => transfers.peer === peer && transfers.direction === direction)
  const findings = DIRECTIONS.flatMap(direction => {
    const [ours, theirs] = [of(gateway, direction), of(nginx, direction)]
    const grown =
      ours === undefined ? [] : [{ target: `body-${direction}-growth` as const, value: Math.max(...ours.growthMb) }]
    return [...grown, ...compared(`body-${direction}-rate`, ours?.megabytesPerSecond, theirs?.megabytesPerSecond)]
  })
  return { rows: all.map(toRow), findings, notes }
}
