// HTTPS and HTTP/2 at the gateway's own listener stand beside peers: HTTPS at a HAProxy in front of it, HTTP/2 with the same checks.
import { accepts } from '../../../test/support/ports.ts'
import { compare, interleave, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { runHaproxy, startHaproxy } from '../peers/haproxy.ts'
import { startNginx } from '../peers/nginx.ts'
import { startCaddy } from '../peers/others.ts'
import { probe } from '../peers/peer.ts'
import type { World } from '../world.ts'

const startWithTls = (world: World, name: string) =>
  startGateway(world, { name, env: world.upstream.tlsEnv, isReady: accepts })

const sectionsOf = (port: number, gatewayPort: number, pemFile: string): string => `
frontend https
  bind 127.0.0.1:${port} ssl crt ${pemFile} backlog 4096
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto https
  default_backend gateway

backend gateway
  server gateway 127.0.0.1:${gatewayPort} pool-max-conn -1
`

/** The CPU of both processes in the row of HAProxy counts. */
export const measureTls = async (world: World): Promise<void> => {
  world.notes.push('connections are kept; handshakes are a part of the warm-up and of the first requests of a round')
  const own = await startWithTls(world, 'HTTPS at Portaria')
  const behind = await startGateway(world, { env: { TRUST_PROXY: '127.0.0.1' } })
  await probe(behind, world)
  const haproxy = await runHaproxy(world, 'HTTPS at HAProxy in front of Portaria', port =>
    sectionsOf(port, behind.port, world.upstream.certificate.pemFile)
  )
  const peers = [own, { ...haproxy, checks: true, behind }]
  const [ours, inFront] = await interleave(
    world,
    peers.map(peer => requests(world, peer, { scheme: 'https' }))
  )
  compare(world, 'https', ours, inFront)
}

export const measureH2 = async (world: World): Promise<void> => {
  world.notes.push(
    'h2load: ten streams at once on each connection, which are kept; HAProxy and nginx tell the upstream in one header; Caddy checks nothing'
  )
  const { certificate } = world.upstream
  const peers = {
    Portaria: await startWithTls(world, 'Portaria'),
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
