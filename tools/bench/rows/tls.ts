// HTTPS at the gateway's own listener stands beside HTTPS at a HAProxy in front of it; the CPU of both processes counts.
import { compare, interleave, requests } from '../measure.ts'
import { startGateway } from '../peers/gateway.ts'
import { runHaproxy } from '../peers/haproxy.ts'
import { probe } from '../peers/peer.ts'
import type { World } from '../world.ts'

const sectionsOf = (port: number, gatewayPort: number, pemFile: string): string => `
frontend https
  bind 127.0.0.1:${port} ssl crt ${pemFile} backlog 4096
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto https
  default_backend gateway

backend gateway
  server gateway 127.0.0.1:${gatewayPort} pool-max-conn -1
`

export const measureTls = async (world: World): Promise<void> => {
  world.notes.push('connections are kept; handshakes are a part of the warm-up and of the first requests of a round')
  const { certificate, tlsEnv } = world.upstream
  const own = await startGateway(world, { name: 'HTTPS at Portaria', env: tlsEnv })
  const behind = await startGateway(world, { env: { TRUST_PROXY: '127.0.0.1' } })
  await probe(behind, world)
  const haproxy = await runHaproxy(world, 'HTTPS at HAProxy in front of Portaria', port =>
    sectionsOf(port, behind.port, certificate.pemFile)
  )
  const peers = [own, { ...haproxy, checks: true, behind }]
  const [ours, inFront] = await interleave(
    world,
    peers.map(peer => requests(world, peer, { scheme: 'https' }))
  )
  compare(world, 'https', ours, inFront)
}
