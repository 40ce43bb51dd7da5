// How long a start takes, from the spawned process to an accepted connection.
import { type GroupResult, startOrNote } from '../group.ts'
import { launchGateway, oneRoute } from '../peers/gateway.ts'
import { accepts, waitUntil } from '../processes.ts'
import { spread } from '../statistics.ts'
import type { World } from '../world.ts'

const POLL_MS = 2

const timeOneStart = async (world: World, compiled: string): Promise<number> => {
  const routes = oneRoute(world.upstream.checkedPort)
  const { gateway, spawnedAt } = await launchGateway(world, {
    name: 'Portaria',
    counting: 'redis',
    routes,
    env: { NODE_COMPILE_CACHE: compiled }
  })
  await waitUntil(gateway.running, () => accepts(gateway.port), 30_000, POLL_MS)
  const tookMs = performance.now() - spawnedAt
  await gateway.running.stop()
  return tookMs
}

export const measureStart = async (world: World): Promise<GroupResult> => {
  const notes = ['with PostgreSQL and Redis; the first start also compiles everything and creates the tables']
  const compiled = await world.folder('compiled')
  const first = await startOrNote('Portaria', notes, () => timeOneStart(world, compiled))
  if (first === undefined) return { rows: [], findings: [], notes }
  const later: number[] = []
  for (let round = 0; round < world.options.rounds; round += 1) later.push(await timeOneStart(world, compiled))
  return {
    rows: [
      { name: 'first start', columns: { ms: spread([first]) } },
      { name: 'start', columns: { ms: spread(later) } }
    ],
    findings: [{ target: 'start', value: spread(later) }],
    notes
  }
}
