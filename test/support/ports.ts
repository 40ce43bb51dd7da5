// Finds ports of loopback that are free and that the system gives to nothing else meanwhile, and listens on them.
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'

/**
 * Below those that Linux gives to outgoing connections and to servers on port 0 (32768 and up): such a one could be taken
 * before the test's own server has it. A Redis Cluster node uses the port 10,000 above its own, too.
 */
const [LOWEST, HIGHEST] = [12_000, 22_000]

const isFree = async (port: number): Promise<boolean> => {
  const server = createServer().listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    return false
  }
  await new Promise(resolve => server.close(resolve))
  return true
}

/** Different from each other. */
export const freePorts = async (count: number): Promise<number[]> => {
  const ports = new Set<number>()
  while (ports.size < count) {
    const port = randomInt(LOWEST, HIGHEST)
    if (await isFree(port)) ports.add(port)
  }
  return [...ports]
}

/** Nothing listens on it yet. */
export const freePort = async (): Promise<number> => (await freePorts(1))[0] ?? 0

/** Whether something takes connections there. */
export const accepts = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })

/** Listens on a free port until the teardown, which ends the connections too; resolves with the port. */
export const listen = async (t: Pick<Test, 'teardown'>, server: Server): Promise<number> => {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise(resolve => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}
