// Caddy forwards without checking, on the gateway's core.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CertificateFiles } from '../../../test/support/certificates.ts'
import { freePort } from '../../../test/support/ports.ts'
import { accepts, GATEWAY_CORE, startPinned, waitUntil } from '../processes.ts'
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
  const port = await freePort()
  const folder = await world.folder('caddy')
  const file = join(folder, 'Caddyfile')
  const address = `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`
  const tls = certificate === undefined ? '' : `tls ${certificate.certFile} ${certificate.keyFile}`
  await writeFile(file, config(address, tls, world.upstream.openPort))
  const running = startPinned({
    name: 'Caddy',
    core: GATEWAY_CORE,
    command: 'caddy',
    args: ['run', '--config', file, '--adapter', 'caddyfile'],
    env: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder }
  })
  world.defer(running.stop)
  await waitUntil(running, () => accepts(port))
  return { name: 'Caddy reverse_proxy, no auth', port, running, checks: false }
}
