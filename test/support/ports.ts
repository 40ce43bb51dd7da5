// Finds ports of loopback that are free and that the system gives to nothing else meanwhile, and listens on them.
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import type { Test } from 'tap'

/**
 * Below those that Linux gives to outgoing connections and to servers on port 0 (32768 and up): such a one could be taken
 * before the test's own server has it. A Redis Cluster node uses the port 10,000 above its own, too.
 */
const LOWEST = 12_000
const BLOCKS = 200
const BLOCK_SIZE = 50

const canListen = async (server: Server, port: number): Promise<boolean> => {
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return true
  } catch {
    return false
  }
}

/** Ports that no other process of tests picks: this one listens on the first of their block until it ends. */
const claimBlock = async (): Promise<number[]> => {
  for (;;) {
    const first = LOWEST + BLOCK_SIZE * randomInt(BLOCKS)
    if (await canListen(createServer().unref(), first))
      return Array.from({ length: BLOCK_SIZE - 1 }, (_, at) => first + 1 + at)
  }
}

let unused: number[] = []

/** Different from each other and from all others of this process. */
export const freePorts = async (count: number): Promise<number[]> => {
  const ports: number[] = []
  while (ports.length < count) {
    if (unused.length === 0) unused = await claimBlock()
    const port = unused.pop()
    const server = createServer()
    if (port === undefined || !(await canListen(server, port))) continue
    await new Promise(resolve => server.close(resolve))
    ports.push(port)
  }
  return ports
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
