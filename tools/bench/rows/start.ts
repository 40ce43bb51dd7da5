// What a start costs, of the sources and of the built gateway: time and CPU time to an accepted connection, and memory at rest.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { accepts } from '../../../test/support/ports.ts'
import { makeFolder } from '../../../test/support/server-process.ts'
import { addRow, inTurns } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { cpuMicros, residentBytes } from '../process-cost.ts'
import type { World } from '../world.ts'

const ROOT = join(import.meta.dirname, '../../..')
const CPU_MS = 'CPU ms'
/** After which a gateway without requests has collected what its start left behind. */
const REST_MS = 3000

const measureOne = async (world: World, compiled: string, entry?: readonly string[]) => {
  const options = { env: { NODE_COMPILE_CACHE: compiled }, isReady: accepts, ...(entry === undefined ? {} : { entry }) }
  const { pid, startedMs, stop } = await startGateway(world, options)
  const cpuMs = cpuMicros(pid) / 1000
  await sleep(REST_MS)
  const megabytes = residentBytes(pid) / 1e6
  await stop()
  return { ms: startedMs, [CPU_MS]: cpuMs, 'RSS MB at rest': megabytes }
}

export const measureStart = async (world: World): Promise<void> => {
  world.notes.push('with PostgreSQL and Redis; the first start also compiles everything and creates the tables')
  const compiled = makeFolder(world, 'compiled')
  addRow(world, 'first start', await measureOne(world, compiled))
  await promisify(execFile)(process.execPath, [join(ROOT, 'tools/build/build.ts')])
  const built = [join(ROOT, 'dist/portaria.cjs'), 'start']
  await measureOne(world, compiled, built)
  const starts = [{ name: 'start of the sources' }, { name: 'start of the build', entry: built }]
  const [, ofBuild] = await inTurns(world, starts, ({ entry }) => measureOne(world, compiled, entry))
  world.find('start', ...(ofBuild?.figures[CPU_MS] ?? []))
}
