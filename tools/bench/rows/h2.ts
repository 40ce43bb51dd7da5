// A request over HTTP/2 stands beside HAProxy and nginx with the same checks, and beside Caddy without any.
import { compare, interleave, requests } from '../measure.ts'
import { startCaddy } from '../peers/caddy.ts'
import { startGateway } from '../peers/gateway.ts'
import { startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import type { World } from '../world.ts'

export const measureH2 = async (world: World): Promise<void> => {
  world.notes.push(
    'h2load: ten streams at once on each connection, which are kept; HAProxy and nginx tell the upstream in one header; Caddy checks nothing'
  )
  const { certificate, tlsEnv } = world.upstream
  const peers = {
    Portaria: await startGateway(world, { env: tlsEnv }),
    HAProxy: await startHaproxy(world, { pemFile: certificate.pemFile }),
    nginx: await startNginx(world, { certificate }),
    'Caddy, no checks': await startCaddy(world, certificate)
  }
  const subjects = Object.entries(peers).map(([name, peer]) => ({
    ...requests(world, peer, { name: `HTTP/2 at ${name}`, scheme: 'https' }),
    isHttp2: true
  }))
  const [ours, haproxy, nginx] = await interleave(world, subjects)
  compare(world, 'h2-vs-haproxy', ours, haproxy)
  compare(world, 'h2-vs-nginx', ours, nginx)
}
