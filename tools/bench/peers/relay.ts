// A relay in C passes bytes between two sockets on the gateway's core and reads no HTTP: the unit that other costs are told in.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { GATEWAY_CORE, startListening } from '../processes.ts'
import type { World } from '../world.ts'
import type { Peer } from './peer.ts'

/** Compiled by the system's C compiler. */
export const startRelay = async (world: World): Promise<Peer> => {
  const command = join(await world.folder('relay'), 'relay')
  execFileSync('cc', ['-O2', '-o', command, join(import.meta.dirname, 'relay.c')])
  const name = 'C relay with epoll, reads no HTTP'
  const started = await startListening(world, port => ({
    name,
    core: GATEWAY_CORE,
    command,
    args: [`${port}`, `${world.upstream.openPort}`]
  }))
  return { ...started, checks: false }
}
