// The full authorised request of the gateway stands beside its peers, at saturation and at half of it.
import { compared, type GroupResult, probed, startOrNote, together } from '../group.ts'
import { CPU, interleave, P99, RESIDENT, requests } from '../measure.ts'
import { startCaddy } from '../peers/caddy.ts'
import { startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import { startHttpProxy, startNaive } from '../peers/node-stacks.ts'
import type { Peer } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import type { Finding } from '../targets.ts'
import type { World } from '../world.ts'
import { measureHttpsBackend } from './https-backend.ts'
import { type Measured, measureLatency, measurePaced } from './latency.ts'

const STARTERS: Readonly<Record<string, (world: World) => Promise<Peer>>> = {
  redis: world => startGateway(world, { name: 'Portaria, counting in Redis' }),
  memory: world => startGateway(world, { name: 'Portaria, counting in memory', counting: 'memory' }),
  nginx: world => startNginx(world),
  haproxy: world => startHaproxy(world),
  haproxyNine: world => startHaproxy(world, { isNine: true }),
  relay: startRelay,
  caddy: world => startCaddy(world),
  httpProxy: startHttpProxy,
  naive: startNaive
}

export const measureHttp = async (world: World): Promise<GroupResult> => {
  const notes = [
    'all peers get the same request with the same token; those that check also tell the upstream who asks: ' +
      'Portaria and one of the HAProxys in nine headers, the others in one (x-user-id)'
  ]
  const started = new Map<string, Peer>()
  for (const [key, start] of Object.entries(STARTERS)) {
    const peer = await startOrNote(key, notes, () => start(world))
    if (peer !== undefined) started.set(key, peer)
  }
  const peers = [...started.values()]
  return probed(world, peers, async () => {
    const rows = await interleave(
      world,
      peers.map(peer => requests(world, peer))
    )
    const of = (key: string): Measured | undefined => {
      const index = [...started.keys()].indexOf(key)
      const [peer, row] = [peers[index], rows[index]]
      return peer && row && { peer, row }
    }
    const [redis, nginx, haproxy] = [of('redis'), of('nginx'), of('haproxy')]
    const ratio = (target: Finding['target'], key: string, column = CPU) =>
      compared(target, redis?.row, of(key)?.row, column)
    const findings: Finding[] = [
      ...ratio('vs-http-proxy', 'httpProxy'),
      ...ratio('vs-naive', 'naive'),
      ...ratio('vs-nginx', 'nginx'),
      ...ratio('vs-haproxy', 'haproxy'),
      ...ratio('vs-haproxy-nine', 'haproxyNine'),
      ...ratio('vs-relay', 'relay'),
      ...ratio('redis-vs-memory', 'memory'),
      ...ratio('p99-saturated', 'nginx', P99),
      ...(redis === undefined
        ? []
        : [{ target: 'resident-memory' as const, values: redis.row.figures[RESIDENT] ?? [] }])
    ]
    return together(
      { rows, findings, notes },
      await measureLatency(world, redis, nginx),
      await measurePaced(world, redis, nginx, haproxy),
      await measureHttpsBackend(world)
    )
  })
}
