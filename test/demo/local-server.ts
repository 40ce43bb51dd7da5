// Listens on a free port of 127.0.0.1.
import { once } from 'node:events'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface LocalServer {
  readonly url: string
  /** Ends the connections too. */
  close(): Promise<void>
}

export const listenLocally = async (server: Server, port = 0, scheme = 'http'): Promise<LocalServer> => {
  const sockets = new Set<Socket>()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    }
  }
}
