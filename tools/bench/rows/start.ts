// What a start costs, of the sources and of the built gateway: time and CPU time to an accepted connection, and memory at rest.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { accepts } from '../../../test/support/ports.ts'
import { type GroupResult, startOrNote } from '../group.ts'
import { launchGateway, oneRoute } from '../peers/gateway.ts'
import { cpuMicros, residentBytes } from '../process-cost.ts'
import { waitUntil } from '../processes.ts'
import { spread } from '../statistics.ts'
import type { World } from '../world.ts'

const ROOT = join(import.meta.dirname, '../../..')
const POLL_MS = 2
/** After which a gateway without requests has collected what its start left behind. */
const REST_MS = 3000

interface Start {
  readonly ms: number
  readonly cpuMs: number
  readonly megabytes: number
}

const measureOne = async (world: World, compiled: string, entry?: readonly string[]): Promise<Start> => {
  const routes = oneRoute(world.upstream.checkedPort)
  const { gateway, spawnedAt } = await launchGateway(world, {
    name: 'Portaria',
    counting: 'redis',
    routes,
    env: { NODE_COMPILE_CACHE: compiled },
    ...(entry === undefined ? {} : { entry })
  })
  const { running } = gateway
  await waitUntil(running, () => accepts(gateway.port), 30_000, POLL_MS)
  const [ms, cpuMs] = [performance.now() - spawnedAt, cpuMicros(running.pid) / 1000]
  await sleep(REST_MS)
  const megabytes = residentBytes(running.pid) / 1e6
  await running.stop()
  return { ms, cpuMs, megabytes }
}

const rowOf = (name: string, starts: readonly Start[]) => ({
  name,
  columns: {
    ms: spread(starts.map(({ ms }) => ms)),
    'CPU ms': spread(starts.map(({ cpuMs }) => cpuMs)),
    'RSS MB at rest': spread(starts.map(({ megabytes }) => megabytes))
  }
})

export const measureStart = async (world: World): Promise<GroupResult> => {
  const notes = ['with PostgreSQL and Redis; the first start also compiles everything and creates the tables']
  const compiled = await world.folder('compiled')
  const first = await startOrNote('Portaria', notes, () => measureOne(world, compiled))
  if (first === undefined) return { rows: [], findings: [], notes }
  await promisify(execFile)(process.execPath, [join(ROOT, 'tools/build/build.ts')])
  const built = [join(ROOT, 'dist/portaria.cjs'), 'start']
  await measureOne(world, compiled, built)
  const [sources, ofBuild]: [Start[], Start[]] = [[], []]
  for (let round = 0; round < world.options.rounds; round += 1) {
    sources.push(await measureOne(world, compiled))
    ofBuild.push(await measureOne(world, compiled, built))
  }
  return {
    rows: [rowOf('first start', [first]), rowOf('start of the sources', sources), rowOf('start of the build', ofBuild)],
    findings: [{ target: 'start', value: spread(ofBuild.map(({ cpuMs }) => cpuMs)) }],
    notes
  }
}
