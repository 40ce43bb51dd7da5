// HTTPS at the gateway's own listener stands beside HTTPS at a HAProxy in front of it; the CPU of both processes counts.
import { compared, type GroupResult } from '../group.ts'
import { interleave, requests } from '../measure.ts'
import { issueCertificate } from '../peers/certificate.ts'
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

export const measureTls = async (world: World): Promise<GroupResult> => {
  const { pemFile, env } = await issueCertificate(world)
  const own = await startGateway(world, { name: 'HTTPS at Portaria', env })
  const behind = await startGateway(world, { env: { TRUST_PROXY: '127.0.0.1' } })
  await probe(behind, world.secret, world.token)
  const haproxy = await runHaproxy(world, 'HTTPS at HAProxy in front of Portaria', port =>
    sectionsOf(port, behind.port, pemFile)
  )
  const inFront = { ...haproxy, checks: true, behind }
  const rows = await interleave(
    world,
    [own, inFront].map(peer => requests(world, peer, { scheme: 'https' }))
  )
  return {
    rows,
    findings: compared('https', rows[0], rows[1]),
    notes: ['connections are kept; handshakes are a part of the warm-up and of the first requests of a round']
  }
}
