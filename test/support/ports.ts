// Ports of loopback that were free a moment ago.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** A Redis Cluster node uses the port 10,000 above its own, too. */
const HIGHEST = 55_000

/** Different from each other. */
export const freePorts = async (count: number): Promise<number[]> => {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  const ports: number[] = []
  for (const server of servers) {
    if (!server.listening) await once(server, 'listening')
    ports.push((server.address() as AddressInfo).port)
  }
  for (const server of servers) await new Promise(resolve => server.close(resolve))
  return ports.some(port => port > HIGHEST) ? freePorts(count) : ports
}

/** Nothing listens on it yet. */
export const freePort = async (): Promise<number> => (await freePorts(1))[0] ?? 0
