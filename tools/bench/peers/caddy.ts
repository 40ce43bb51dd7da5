// Caddy forwards without checking, on the gateway's core.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../../../test/support/ports.ts'
import { accepts, GATEWAY_CORE, startPinned, waitUntil } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const config = (port: number, upstreamPort: number): string => `
{
  admin off
  auto_https off
}
http://127.0.0.1:${port} {
  reverse_proxy 127.0.0.1:${upstreamPort} {
    transport http {
      keepalive_idle_conns_per_host 128
    }
  }
}
`

export const startCaddy = async (world: World): Promise<Peer> => {
  const port = await freePort()
  const folder = await world.folder('caddy')
  const file = join(folder, 'Caddyfile')
  await writeFile(file, config(port, world.upstream.openPort))
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
