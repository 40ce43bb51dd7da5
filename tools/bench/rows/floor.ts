// What Node itself takes for each request, beside the gateway: what is left is the gateway's own.
import { type GroupResult, probed } from '../group.ts'
import { interleave, toRow } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startFloors } from '../peers/node-stacks.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { known } from './http.ts'

export const measureFloor = async (world: World): Promise<GroupResult> => {
  const routes = oneRoute(world.upstream.checkedPort)
  const gateway = await startGateway(world, { name: 'Portaria', counting: 'redis', routes })
  const peers = [gateway, ...(await startFloors(world))]
  return probed(world, peers, BENCH_PATH, async () => {
    const all = await interleave(
      world,
      peers.map(peer => known(world, peer))
    )
    const notes = ['the last three check nothing: no token, no role, no limit, no identity, no framing']
    return { rows: all.map(toRow), findings: [], notes }
  })
}
