// A relay in C passes bytes between two sockets on the gateway's core and reads no HTTP: the unit that other costs are told in.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../../test/support/ports.ts'
import { accepts, GATEWAY_CORE, startPinned, waitUntil } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const source = fileURLToPath(new URL('./relay.c', import.meta.url))

/** Compiled by the system's C compiler. */
export const startRelay = async (world: World): Promise<Peer> => {
  const program = join(await world.folder('relay'), 'relay')
  execFileSync('cc', ['-O2', '-o', program, source])
  const port = await freePort()
  const name = 'C relay with epoll, reads no HTTP'
  const args = [`${port}`, `${world.upstream.openPort}`]
  const running = startPinned({ name, core: GATEWAY_CORE, command: program, args })
  world.defer(running.stop)
  await waitUntil(running, () => accepts(port))
  return { name, port, running, checks: false }
}
