// A relay in C passes bytes between two sockets on the gateway's core and reads no HTTP: the unit that other costs are told in.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { GATEWAY_CORE, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

const source = fileURLToPath(new URL('./relay.c', import.meta.url))

/** Compiled by the system's C compiler. */
export const startRelay = async (world: World): Promise<Peer> => {
  const program = join(await world.folder('relay'), 'relay')
  execFileSync('cc', ['-O2', '-o', program, source])
  const name = 'C relay with epoll, reads no HTTP'
  const listening = await startListening(world, port => {
    const args = [`${port}`, `${world.upstream.openPort}`]
    return { name, core: GATEWAY_CORE, command: program, args }
  })
  return { name, ...listening, checks: false }
}
