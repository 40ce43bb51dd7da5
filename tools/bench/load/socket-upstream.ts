// A WebSocket upstream that sends every message back as it came.
import type { IncomingMessage } from 'node:http'
import { WebSocketServer } from 'ws'

const server = new WebSocketServer({
  port: Number(process.env.PORT),
  host: '127.0.0.1',
  backlog: 4096,
  perMessageDeflate: false,
  verifyClient: ({ req }: { req: IncomingMessage }) => req.headers['x-user-id'] !== undefined
})
server.on('connection', socket => {
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  socket.on('error', () => undefined)
})
