// Whether others still get an answer beside crowds of connections that do little.
import { setTimeout as delay } from 'node:timers/promises'
import { addRow, MEGABYTE } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import type { Peer } from '../peers/peer.ts'
import { residentBytes, watchResident } from '../process-cost.ts'
import { openLoad, type Running } from '../processes.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { besideQuietPerson, HEALTH_MAX, HEALTH_P99 } from './quiet.ts'

const CROWDS = { idle: 10_000, 'half-head': 8000, 'slow-body': 200, pipelining: 1000 }

const PIPELINING_ALONE = 100

const gather = (world: World, { port }: Peer, kind: string, count: number): Promise<Running> =>
  openLoad(world, 'crowd.ts', { port, kind, count, path: BENCH_PATH, token: world.token })

const measurePipelined = async (world: World, gateway: Peer): Promise<void> => {
  const before = residentBytes(gateway.pid)
  const memory = watchResident(gateway.pid)
  const { result: crowd, felt } = await besideQuietPerson(world, gateway, '', async () => {
    const gathered = await gather(world, gateway, 'pipelining', PIPELINING_ALONE)
    await delay(world.options.seconds * 1000)
    return gathered
  })
  const growth = (memory.stop() - before) / MEGABYTE
  await crowd.stop()
  addRow(world, '/health beside 100 × 64 KB pipelined, unread', { ...felt, 'growth MB': growth })
  world.find('pipelined-wait', felt[HEALTH_MAX] ?? Number.NaN)
  world.find('pipelined-growth', growth)
}

const measureVisit = async (world: World, gateway: Peer, counts: readonly (readonly [string, number])[]) => {
  const before = residentBytes(gateway.pid)
  const { felt } = await besideQuietPerson(world, gateway, '', async () => {
    await Promise.all(counts.map(([kind, count]) => gather(world, gateway, kind, count)))
    await delay(2 * world.options.seconds * 1000)
  })
  const growth = (residentBytes(gateway.pid) - before) / MEGABYTE
  addRow(world, '/health beside four crowds', { ...felt, 'growth MB': growth })
  world.find('crowds-wait', felt[HEALTH_P99] ?? Number.NaN)
  const words = counts.map(([kind, count]) => `${count} × ${kind}`).join(', ')
  world.notes.push(`four crowds at once: ${words}; those that are closed come back after 0.5 s; arrival included`)
}

export const measureCrowds = async (world: World): Promise<void> => {
  const part = world.options.quick ? 0.05 : 1
  const gateway = await startGateway(world)
  await measurePipelined(world, gateway)
  const counts = Object.entries(CROWDS).map(([kind, count]) => [kind, Math.ceil(count * part)] as const)
  await measureVisit(world, gateway, counts)
}
