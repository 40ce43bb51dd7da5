// A port is kept free for the gateway while everything that it needs starts.
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

export interface ReservedPort {
  readonly port: number
  /** Afterwards the gateway can listen there. */
  release(): Promise<void>
}

/**
 * Takes `wanted`, or any free port when `mayDiffer`. `localhost` leads to both loopback addresses, so neither may be
 * somebody else's. Throws when the port is taken and must not differ.
 */
export const reservePort = async (host: string, wanted: number, mayDiffer: boolean): Promise<ReservedPort> => {
  try {
    return await reserve(host, wanted)
  } catch (error) {
    if (!isTaken(error)) throw error
    if (!mayDiffer) throw new Error(`port ${wanted} is taken`, { cause: error })
    return reserve(host, 0)
  }
}

const reserve = async (host: string, wanted: number): Promise<ReservedPort> => {
  const first = await listen(host, wanted)
  const address = first.address()
  const port = typeof address === 'object' && address !== null ? address.port : wanted
  const second = await listenOnTheOther(host, port, first)
  return {
    port,
    release: async () => {
      await close(first)
      if (second !== undefined) await close(second)
    }
  }
}

const listenOnTheOther = async (host: string, port: number, first: Server): Promise<Server | undefined> => {
  try {
    return await listen(host === '::1' ? '127.0.0.1' : '::1', port)
  } catch (error) {
    // Without IPv6 there is nothing to share; a host that covers both has it already.
    if (!isTaken(error) || !['127.0.0.1', '::1', 'localhost'].includes(host)) return undefined
    await close(first)
    throw error
  }
}

const listen = async (host: string, port: number): Promise<Server> => {
  const server = createServer(socket => socket.destroy())
  server.listen({ host, port, exclusive: true })
  await once(server, 'listening')
  return server
}

const close = (server: Server): Promise<void> => new Promise(resolve => void server.close(() => resolve()))

const isTaken = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && (error.code === 'EADDRINUSE' || error.code === 'EACCES')
