// Ends gracefully as a backend on SIGTERM: finishes the requests it has, announces the end of their connections, and exits.
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'

const { HOST = '127.0.0.1', PORT, KEY_FILE, CERT_FILE } = process.env

let isEnding = false
const answer: http.RequestListener = (request, response) => {
  let bytes = 0
  request.on('data', chunk => {
    bytes += chunk.length
  })
  request.on('end', () => {
    // Idle connections are closed by the gateway, which is told for how long they are kept: closed here, they would cross requests.
    if (isEnding) response.setHeader('connection', 'close')
    else response.setHeader('keep-alive', 'timeout=1')
    response.end(`${request.method} ${bytes}`)
    if (process.connected) process.send?.('served')
  })
}
const server =
  KEY_FILE === undefined || CERT_FILE === undefined
    ? http.createServer(answer)
    : https.createServer({ key: readFileSync(KEY_FILE), cert: readFileSync(CERT_FILE) }, answer)

server.keepAliveTimeout = 0
server.listen(Number(PORT), HOST, () => process.send?.('up'))
/** Closing the listener would reset the connections that wait to be accepted. */
const stopListening = () => {
  let isAccepting = false
  const look = () => {
    // http.Server's own `close` would also close idle connections at once, on which a request may be on its way.
    if (isAccepting) {
      isAccepting = false
      setImmediate(look)
      return
    }
    net.Server.prototype.close.call(server)
    if (process.connected) process.send?.('closed', () => process.disconnect())
  }
  server.on('connection', () => {
    isAccepting = true
  })
  setImmediate(look)
}

/** The process ends with its last connection. */
process.once('SIGTERM', () => {
  isEnding = true
  stopListening()
})
