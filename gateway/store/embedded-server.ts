// Serves the embedded Postgres on a Unix socket.
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { PGlite } from '@electric-sql/pglite'
import { PGLiteSocketHandler } from '@electric-sql/pglite-socket'
import { createTurns } from './embedded-turns.ts'

const MAX_CONNECTIONS = 50

interface EmbeddedServer {
  close(): Promise<void>
}

/** @param path of the socket, which does not exist yet */
export const startEmbeddedServer = async (database: PGlite, path: string): Promise<EmbeddedServer> => {
  const turns = createTurns(database)
  const clients = new Map<PGLiteSocketHandler, Socket>()
  const server = createServer(socket => {
    // The library requires its own class, but calls only what Turns provides.
    const handler = new PGLiteSocketHandler({ queryQueue: turns as never, closeOnDetach: true })
    clients.set(handler, socket)
    for (const end of ['close', 'error']) handler.addEventListener(end, () => clients.delete(handler))
    void handler.attach(socket)
  })
  server.maxConnections = MAX_CONNECTIONS
  await once(server.listen(path), 'listening')
  return {
    async close() {
      const closed = new Promise(resolve => server.close(resolve))
      for (const [handler, socket] of clients) {
        await handler.detach()
        // A detached handler leaves a socket that is half closed and unread, and therefore stays open.
        socket.destroy()
      }
      await closed
    }
  }
}
