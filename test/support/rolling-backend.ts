// Is a backend that ends gracefully on SIGTERM: it finishes the requests it has, announces the end of their connections, and exits.
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'

/** Connections are kept for so long after nothing listens any more, and say with each response that it is their last. */
const DRAIN_MS = 1000

const { PORT, KEY_FILE, CERT_FILE } = process.env

let isEnding = false
const answer: http.RequestListener = (request, response) => {
  let bytes = 0
  request.on('data', chunk => {
    bytes += chunk.length
  })
  request.on('end', () => {
    if (isEnding) response.setHeader('connection', 'close')
    response.end(`${request.method} ${bytes}`)
    if (process.connected) process.send?.('served')
  })
}
const server =
  KEY_FILE === undefined || CERT_FILE === undefined
    ? http.createServer(answer)
    : https.createServer({ key: readFileSync(KEY_FILE), cert: readFileSync(CERT_FILE) }, answer)

server.listen(Number(PORT), '127.0.0.1', () => process.send?.('up'))
/** Closing the listener would reset the connections that wait to be accepted. */
const stopListening = () => {
  let isAccepting = false
  const look = () => {
    // http.Server's own `close` would also close idle connections at once, on which a request may be on its way.
    if (!isAccepting) return void net.Server.prototype.close.call(server)
    isAccepting = false
    setImmediate(look)
  }
  server.on('connection', () => {
    isAccepting = true
  })
  setImmediate(look)
}

process.once('SIGTERM', () => {
  isEnding = true
  process.disconnect?.()
  stopListening()
  // In the turn of a timer, requests that have arrived may not have been read yet.
  setTimeout(setImmediate, DRAIN_MS, () => server.closeIdleConnections())
})
