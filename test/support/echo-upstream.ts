// A WebSocket echo in a process of its own, which tells its port and can be killed.
import type { AddressInfo } from 'node:net'
import { WebSocketServer } from 'ws'

const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
server.on('connection', socket => {
  socket.on('error', () => undefined)
  socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
})
server.on('listening', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit(0))
