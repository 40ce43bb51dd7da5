// Keeps a port free for the gateway while everything that it needs starts.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'

export interface ReservedPort {
  readonly port: number
  /** Afterwards the gateway can listen there. */
  release(): Promise<void>
}

/** Takes `wanted`, or any free port when `mayDiffer`. Throws when the port is taken and must not differ. */
export const reservePort = async (host: string, wanted: number, mayDiffer: boolean): Promise<ReservedPort> => {
  const reserved = (await reserve(host, wanted)) ?? (mayDiffer ? await reserve(host, 0) : undefined)
  if (reserved === undefined) throw new Error(`port ${wanted} is taken`)
  return reserved
}

/** `localhost` leads to both loopback addresses, so neither may be somebody else's. undefined: one of them is. */
const reserve = async (host: string, wanted: number): Promise<ReservedPort | undefined> => {
  const servers: Server[] = []
  const release = async () => {
    await Promise.all(servers.map(server => server[Symbol.asyncDispose]()))
  }
  let port = wanted
  for (const address of [host, host === '::1' ? '127.0.0.1' : '::1']) {
    const server = createServer(socket => socket.destroy())
    try {
      await once(server.listen({ host: address, port, exclusive: true }), 'listening')
    } catch (error) {
      // Without IPv6 there is nothing to share; a host that covers both has it already.
      if (servers.length > 0 && (!isTaken(error) || !['127.0.0.1', '::1', 'localhost'].includes(host))) break
      await release()
      if (isTaken(error)) return undefined
      throw error
    }
    servers.push(server)
    port = (server.address() as AddressInfo).port
  }
  return { port, release }
}

const isTaken = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EADDRINUSE' || error.code === 'EACCES')
