// Caddy forwards without checking, on the gateway's core.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CertificateFiles } from '../../../test/support/certificates.ts'
import { GATEWAY_CORE, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const config = (address: string, tls: string, upstreamPort: number): string => `
{
  admin off
  auto_https off
}
${address} {
  ${tls}
  reverse_proxy 127.0.0.1:${upstreamPort} {
    transport http {
      keepalive_idle_conns_per_host 128
    }
  }
}
`

/** @param certificate it speaks HTTP/2 over TLS with it */
export const startCaddy = async (world: World, certificate?: CertificateFiles): Promise<Peer> => {
  const folder = await world.folder('caddy')
  const file = join(folder, 'Caddyfile')
  const [scheme, tls] =
    certificate === undefined ? ['http', ''] : ['https', `tls ${certificate.certFile} ${certificate.keyFile}`]
  const listening = await startListening(world, port => {
    writeFileSync(file, config(`${scheme}://127.0.0.1:${port}`, tls, world.upstream.openPort))
    const args = ['run', '--config', file, '--adapter', 'caddyfile']
    const env = { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
    return { name: 'Caddy', core: GATEWAY_CORE, command: 'caddy', args, env }
  })
  return { name: 'Caddy reverse_proxy, no auth', ...listening, checks: false }
}
