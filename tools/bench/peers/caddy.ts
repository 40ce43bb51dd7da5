// Caddy forwards without checking, on the gateway's core.
import type { CertificateFiles } from '../../../test/support/certificates.ts'
import { GATEWAY_CORE, startConfigured } from '../processes.ts'
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
  const [scheme, tls] =
    certificate === undefined ? ['http', ''] : ['https', `tls ${certificate.certFile} ${certificate.keyFile}`]
  const started = await startConfigured(world, {
    name: 'Caddy reverse_proxy, no auth',
    core: GATEWAY_CORE,
    command: 'caddy',
    config: port => config(`${scheme}://127.0.0.1:${port}`, tls, world.upstream.openPort),
    args: file => ['run', '--config', file, '--adapter', 'caddyfile']
  })
  return { ...started, checks: false }
}
