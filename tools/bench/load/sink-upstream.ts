// A WebSocket and Engine.IO upstream that takes whatever comes and says as little as it can: floods shall cost the gateway alone.
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { acceptOf } from '../../../test/support/raw-websocket.ts'

let sessions = 0
const open = () => {
  sessions += 1
  return `0{"sid":"session-${sessions}","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}`
}

const server = createServer((request, response) => {
  request.resume()
  if (request.method === 'POST') response.end('ok')
  else if (request.url?.includes('sid=') === true) setTimeout(() => response.end('6'), 1000)
  else response.end(open())
})

server.on('upgrade', (request, socket: Socket) => {
  const accept = acceptOf(request.headers['sec-websocket-key'] ?? '')
  const fields = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}`
  socket.write(`HTTP/1.1 101 Switching Protocols\r\n${fields}\r\n\r\n`)
  if (request.url?.startsWith('/socket.io') === true) {
    const hello = Buffer.from(open())
    socket.write(Buffer.concat([Buffer.from([0x81, hello.length]), hello]))
  }
  socket.on('error', () => socket.destroy())
  socket.on('end', () => socket.end())
  socket.resume()
})
server.listen(Number(process.env.PORT), '127.0.0.1', 4096)
