// A backend without authentication of its own: it serves every request that the gateway forwards, and shows whose it is.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Server } from 'socket.io'

const name = process.env.NAME ?? 'sample'
const PAGE = `<!doctype html><html lang="en"><title>${name}</title><h1>${name}</h1><p>A public page behind the gateway.</p></html>`

/** The identity headers that the gateway set. */
const identityOf = (request: IncomingMessage) =>
  Object.fromEntries(Object.entries(request.headers).filter(([header]) => header.startsWith('x-user-')))

const sendJson = (response: ServerResponse, value: unknown) => {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}

const sendEvents = (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  let count = 0
  const send = () => {
    count += 1
    response.write(`id: ${count}\ndata: ${JSON.stringify({ from: name, count })}\n\n`)
  }
  send()
  const timer = setInterval(send, 1000)
  response.once('close', () => clearInterval(timer))
}

const server = createServer((request, response) => {
  const path = (request.url ?? '/').split('?')[0] ?? '/'
  if (path === '/healthz') sendJson(response, { status: 'ok' })
  else if (path.endsWith('/events')) sendEvents(response)
  else if (path.startsWith('/api/')) {
    request.resume()
    sendJson(response, { from: name, method: request.method, path, identity: identityOf(request) })
  } else {
    request.resume()
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
    response.end(PAGE)
  }
})

const sockets = new Server(server, { serveClient: false })
sockets.of('/messaging').on('connection', socket => {
  socket.emit('qr', { code: `portaria-${socket.id}` })
  socket.emit('status', { state: 'connected', user: socket.handshake.auth.user })
  socket.on('message', message => sockets.of('/messaging').emit('message', message))
})

server.listen(Number(process.env.PORT ?? 4000), () => {
  const address = server.address()
  console.log(`${name} listens on ${address !== null && typeof address === 'object' ? address.port : address}`)
})

process.on('SIGTERM', () => {
  sockets.close()
  server.closeAllConnections()
})
