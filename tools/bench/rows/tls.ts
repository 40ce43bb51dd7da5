// HTTPS at the gateway's own listener stands beside HTTPS at a HAProxy in front of it; the CPU of both processes counts.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { accepts } from '../../../test/support/ports.ts'
import { compared, type GroupResult } from '../group.ts'
import { interleave, type Subject, toRow } from '../measure.ts'
import { launchGateway, oneRoute, startGateway } from '../peers/gateway.ts'
import { runHaproxy } from '../peers/haproxy.ts'
import { type Peer, probe } from '../peers/peer.ts'
import { waitUntil } from '../processes.ts'
import { BENCH_PATH } from '../upstream.ts'
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

const startInFront = async (world: World, behind: Peer, pemFile: string): Promise<Peer> => {
  const name = 'HTTPS at HAProxy in front of Portaria'
  return { ...(await runHaproxy(world, name, port => sectionsOf(port, behind.port, pemFile))), checks: true, behind }
}

const subject = (world: World, peer: Peer): Subject => ({
  name: peer.name,
  peer,
  load: () => ({ url: `https://127.0.0.1:${peer.port}${BENCH_PATH}`, token: world.token })
})

export const measureTls = async (world: World): Promise<GroupResult> => {
  const issued = createCertificateAuthority(await world.folder('certificates')).issue('localhost')
  const routes = oneRoute(world.upstream.checkedPort)
  const tls = { TLS_CERT_FILE: issued.certFile, TLS_KEY_FILE: issued.keyFile }
  const own = await launchGateway(world, { name: 'HTTPS at Portaria', counting: 'redis', routes, env: tls })
  await waitUntil(own.gateway.running, () => accepts(own.gateway.port), 30_000)

  const env = { TRUST_PROXY: '127.0.0.1' }
  const plain = await startGateway(world, { name: 'Portaria', counting: 'redis', routes, env })
  await probe(plain, world.secret, world.token)
  const pemFile = join(await world.folder('certificates'), 'both.pem')
  await writeFile(pemFile, (await Promise.all([issued.certFile, issued.keyFile].map(file => readFile(file)))).join(''))
  const inFront = await startInFront(world, plain, pemFile)

  const all = await interleave(world, [subject(world, own.gateway), subject(world, inFront)])
  return {
    rows: all.map(toRow),
    findings: compared('https', all[0]?.cpuMicros, all[1]?.cpuMicros),
    notes: ['connections are kept; handshakes are a part of the warm-up and of the first requests of a round']
  }
}
