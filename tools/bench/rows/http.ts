// The full authorised request of the gateway stands beside its peers, at saturation, at half of it and far below it.
import { CPU, compare, interleave, P99, RESIDENT, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import { startCaddy, startHttpProxy, startNaive, startRelay } from '../peers/others.ts'
import { probed } from '../peers/peer.ts'
import type { TargetId } from '../targets.ts'
import type { World } from '../world.ts'
import { measureHttpsBackend } from './https-backend.ts'
import { measureLatency, measurePaced } from './latency.ts'

export const measureHttp = async (world: World): Promise<void> => {
  world.notes.push(
    'all peers get the same request with the same token; those that check also tell the upstream who asks: ' +
      'Portaria and one of the HAProxys in nine headers, the others in one (x-user-id)'
  )
  const started = {
    redis: await startGateway(world, { name: 'Portaria, counting in Redis' }),
    memory: await startGateway(world, { name: 'Portaria, counting in memory', counting: 'memory' }),
    nginx: await startNginx(world),
    haproxy: await startHaproxy(world),
    haproxyNine: await startHaproxy(world, { isNine: true }),
    relay: await startRelay(world),
    caddy: await startCaddy(world),
    httpProxy: await startHttpProxy(world),
    naive: await startNaive(world)
  }
  const peers = Object.values(started)
  await probed(world, peers, async () => {
    const rows = await interleave(
      world,
      peers.map(peer => requests(world, peer))
    )
    const of = (key: keyof typeof started) => rows[Object.keys(started).indexOf(key)]
    const ratios: readonly (readonly [TargetId, keyof typeof started, column?: string])[] = [
      ['vs-http-proxy', 'httpProxy'],
      ['vs-naive', 'naive'],
      ['vs-nginx', 'nginx'],
      ['vs-haproxy', 'haproxy'],
      ['vs-haproxy-nine', 'haproxyNine'],
      ['vs-relay', 'relay'],
      ['redis-vs-memory', 'memory'],
      ['p99-saturated', 'nginx', P99]
    ]
    for (const [target, key, column = CPU] of ratios) compare(world, target, of('redis'), of(key), column)
    world.find('resident-memory', ...(of('redis')?.figures[RESIDENT] ?? []))
    const { redis, nginx, haproxy } = started
    await measureLatency(world, [redis, nginx], [of('redis'), of('nginx')])
    await measurePaced(world, [redis, nginx, haproxy])
    await measureHttpsBackend(world)
  })
}
