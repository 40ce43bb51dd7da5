// What the access log and the metrics cost, beside the same request without them.
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../test/support/ports.ts'
import { type GroupResult, probed, startOrNote } from '../group.ts'
import { interleave, type Row, type Samples, toRow } from '../measure.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import type { Peer } from '../peers/peer.ts'
import { perRound } from '../statistics.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { known } from './http.ts'

const withRatio = (samples: Samples, plain: Samples | undefined): Row => {
  const row = toRow(samples)
  if (plain === undefined) return row
  return { ...row, columns: { ...row.columns, '÷ both off': perRound(samples.cpuMicros, plain.cpuMicros) } }
}

export const measureLogging = async (world: World): Promise<GroupResult> => {
  const notes = ['the access log goes to a file; no target is set for these rows']
  const routes = oneRoute(world.upstream.checkedPort)
  const log = await open(join(await world.folder('log'), 'access.log'), 'w')
  world.defer(() => log.close())

  const opsPort = await freePort()
  const starts = [
    { name: 'both off', start: {} },
    { name: 'access log on', start: { env: { LOG_LEVEL: 'info' }, stdout: log.fd } },
    { name: 'metrics on', start: { env: { OPS_PORT: `${opsPort}` } } }
  ]
  const peers: Peer[] = []
  for (const { name, start } of starts) {
    const launch = () => startGateway(world, { name, counting: 'redis', routes, ...start })
    const peer = await startOrNote(name, notes, launch)
    if (peer !== undefined) peers.push(peer)
  }
  return probed(world, peers, BENCH_PATH, async () => {
    const all = await interleave(
      world,
      peers.map(peer => known(world, peer))
    )
    const plain = all.find(samples => samples.subject.name === 'both off')
    return { rows: all.map(samples => withRatio(samples, plain)), findings: [], notes }
  })
}
