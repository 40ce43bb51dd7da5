// The full authorised request of the gateway stands beside its peers, at saturation and at half of it.
import { compared, type GroupResult, probed, startOrNote } from '../group.ts'
import { interleave, type Samples, type Subject, toRow } from '../measure.ts'
import { startCaddy } from '../peers/caddy.ts'
import { oneRoute, startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import { startHttpProxy, startNaive } from '../peers/node-stacks.ts'
import type { Peer } from '../peers/peer.ts'
import { startRelay } from '../peers/relay.ts'
import { spread } from '../statistics.ts'
import type { Finding } from '../targets.ts'
import { BENCH_PATH } from '../upstream.ts'
import type { World } from '../world.ts'
import { measureHttpsBackend } from './https-backend.ts'
import { measureLatency, measurePaced } from './latency.ts'

const starters = (world: World) => {
  const routes = oneRoute(world.upstream.checkedPort)
  const gateway = (name: string, counting: 'redis' | 'memory') => () => startGateway(world, { name, counting, routes })
  return {
    redis: gateway('Portaria, counting in Redis', 'redis'),
    memory: gateway('Portaria, counting in memory', 'memory'),
    nginx: () => startNginx(world),
    haproxy: () => startHaproxy(world),
    haproxyNine: () => startHaproxy(world, 'nine'),
    relay: () => startRelay(world),
    caddy: () => startCaddy(world),
    httpProxy: () => startHttpProxy(world),
    naive: () => startNaive(world)
  }
}

export const known = (world: World, peer: Peer): Subject => ({
  name: peer.name,
  peer,
  load: () => ({ url: `http://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token })
})

const memory = (samples: Samples | undefined): Finding[] =>
  samples === undefined ? [] : [{ target: 'resident-memory', value: spread(samples.residentMb) }]

export const measureHttp = async (world: World): Promise<GroupResult> => {
  const notes = [
    'all peers get the same request with the same token; those that check also tell the upstream who asks: ' +
      'Portaria and one of the HAProxys in nine headers, the others in one (x-user-id)'
  ]
  const started = new Map<string, Peer>()
  for (const [key, start] of Object.entries(starters(world))) {
    const peer = await startOrNote(key, notes, start)
    if (peer !== undefined) started.set(key, peer)
  }

  return probed(world, [...started.values()], BENCH_PATH, async () => {
    const keys = [...started.keys()]
    const all = await interleave(
      world,
      [...started.values()].map(peer => known(world, peer))
    )
    const of = (key: string): Samples | undefined => all[keys.indexOf(key)]
    const cpu = (key: string) => of(key)?.cpuMicros

    const latency = await measureLatency(world, of('redis'), of('nginx'))
    const paced = await measurePaced(world, [of('redis'), of('nginx'), of('haproxy')])
    const https = await measureHttpsBackend(world)
    return {
      rows: [...all.map(toRow), ...latency.rows, ...paced.rows, ...https.rows],
      findings: [
        ...compared('vs-http-proxy', cpu('redis'), cpu('httpProxy')),
        ...compared('vs-naive', cpu('redis'), cpu('naive')),
        ...compared('vs-nginx', cpu('redis'), cpu('nginx')),
        ...compared('vs-haproxy', cpu('redis'), cpu('haproxy')),
        ...compared('vs-haproxy-nine', cpu('redis'), cpu('haproxyNine')),
        ...compared('vs-relay', cpu('redis'), cpu('relay')),
        ...compared('redis-vs-memory', cpu('redis'), cpu('memory')),
        ...compared('p99-saturated', of('redis')?.p99Ms, of('nginx')?.p99Ms),
        ...memory(of('redis')),
        ...latency.findings,
        ...paced.findings,
        ...https.findings
      ],
      notes: [...notes, ...latency.notes, ...paced.notes, ...https.notes]
    }
  })
}
