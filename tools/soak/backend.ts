// A backend of the soak: answers, takes and gives bodies, echoes messages, speaks Socket.IO, and can go and come back.
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { Server as SocketIoServer } from 'socket.io'
import { WebSocketServer } from 'ws'
import { answerBody, resetSocket } from './body-backend.ts'

export interface SoakBackend {
  /** As in a route file. */
  readonly url: string
  /** Its connections break. */
  reset(): void
  /** Its connections break and nothing listens. */
  stop(): Promise<void>
  start(): Promise<void>
}

const LARGE = Buffer.alloc(1_000_000, 'x')

const answer = (req: http.IncomingMessage, res: http.ServerResponse) => {
  if (/^\/\w+\/body\?/.test(req.url ?? '')) return answerBody(req, res)
  if (req.url?.startsWith('/open/large') || req.url?.startsWith('/app/large')) return void res.end(LARGE)
  let bytes = 0
  req.on('data', chunk => {
    bytes += chunk.length
  })
  req.on('end', () => res.end(`${bytes}`))
}

interface Listening {
  /** A port, or the path of a socket. */
  readonly at: number | string
  readonly certificate: { readonly key: string; readonly cert: string } | undefined
}

/** Every connection has records of a size of its own. */
const varyRecords = (socket: TLSSocket) => void socket.setMaxSendFragment(512 + Math.floor(Math.random() * 15_873))

const listen = async ({ at, certificate }: Listening) => {
  const server = certificate === undefined ? http.createServer(answer) : https.createServer(certificate, answer)
  // Longer than this machine may stand still: a request that crosses the end of its connection has no other explanation than that.
  server.keepAliveTimeout = 60_000
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', varyRecords)
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
  if (typeof at === 'string') server.listen(at)
  else server.listen(at, '127.0.0.1')
  await once(server, 'listening')
  return {
    at: typeof at === 'string' ? at : (server.address() as { port: number }).port,
    reset() {
      for (const socket of sockets) resetSocket(socket)
    },
    async close() {
      for (const client of echoes.clients) client.terminate()
      io.disconnectSockets(true)
      await new Promise<void>(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) resetSocket(socket)
      })
    }
  }
}

/** @param first port 0 is a free one, which is kept */
export const startSoakBackend = async (
  t: { teardown(action: () => unknown): unknown },
  first: Listening
): Promise<SoakBackend> => {
  let running: Awaited<ReturnType<typeof listen>> | undefined = await listen(first)
  const { at } = running
  const stop = async () => {
    const gone = running
    running = undefined
    await gone?.close()
  }
  t.teardown(stop)
  const scheme = first.certificate === undefined ? 'http' : 'https'
  return {
    url: typeof at === 'string' ? `unix:${at}` : `${scheme}://127.0.0.1:${at}`,
    reset: () => running?.reset(),
    stop,
    async start() {
      running ??= await listen({ ...first, at })
    }
  }
}
