// A backend of the soak: answers, takes and gives large bodies, echoes messages, speaks Socket.IO, and can go and come back.
import { once } from 'node:events'
import http from 'node:http'
import type { Socket } from 'node:net'
import { Server as SocketIoServer } from 'socket.io'
import { WebSocketServer } from 'ws'

export interface SoakBackend {
  readonly port: number
  /** Its connections break and nothing listens. */
  stop(): Promise<void>
  start(): Promise<void>
}

const LARGE = Buffer.alloc(1_000_000, 'x')

const answer = (req: http.IncomingMessage, res: http.ServerResponse) => {
  if (req.url?.startsWith('/open/large') || req.url?.startsWith('/app/large')) return void res.end(LARGE)
  let bytes = 0
  req.on('data', chunk => {
    bytes += chunk.length
  })
  req.on('end', () => res.end(`${bytes}`))
}

const listen = async (port: number) => {
  const server = http.createServer(answer)
  const sockets = new Set<Socket>()
  server.on('connection', socket => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  const echoes = new WebSocketServer({ noServer: true })
  server.on('upgrade', (req, socket, head) => {
    if (!req.url?.startsWith('/ws')) return
    echoes.handleUpgrade(req, socket, head, client => {
      client.on('error', () => undefined)
      client.on('message', (data, isBinary) => client.send(data, { binary: isBinary }))
    })
  })
  const io = new SocketIoServer(server, { path: '/socket.io', pingInterval: 2000 })
  io.of('/chat').on('connection', client => client.on('say', (text, confirm) => confirm(text)))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as { port: number }).port,
    async close() {
      for (const client of echoes.clients) client.terminate()
      io.disconnectSockets(true)
      await new Promise<void>(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      })
    }
  }
}

export const startSoakBackend = async (t: { teardown(action: () => unknown): unknown }): Promise<SoakBackend> => {
  let running: Awaited<ReturnType<typeof listen>> | undefined = await listen(0)
  const { port } = running
  const stop = async () => {
    const gone = running
    running = undefined
    await gone?.close()
  }
  t.teardown(stop)
  return {
    port,
    stop,
    async start() {
      running ??= await listen(port)
    }
  }
}
