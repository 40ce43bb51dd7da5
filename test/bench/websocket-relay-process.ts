// One relay in a process of its own: `splice` is the gateway's, `ws` reads and writes every message with the ws package.
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { routeAt, upstreamAt, WEBSOCKET } from '../support/routes.ts'
import { startHarness } from '../support/socket-harness.ts'

const [kind = 'splice', upstreamPort = '0'] = process.argv.slice(2)

const startSplice = async () => {
  const shares = { perUser: 1, perIp: 1 }
  const route = routeAt('/ws', upstreamAt(Number(upstreamPort)), { websocket: WEBSOCKET })
  const { port, tokenFor } = await startHarness({ teardown: () => undefined }, { routes: [route], shares })
  return { port, token: await tokenFor() }
}

const startWs = async () => {
  const server = http.createServer()
  const sockets = new WebSocketServer({ server, perMessageDeflate: false })
  sockets.on('connection', client => {
    const upstream = new WebSocket(`ws://127.0.0.1:${upstreamPort}/ws`, { perMessageDeflate: false })
    client.pause()
    upstream.on('open', () => client.resume())
    client.on('message', (data, binary) => upstream.send(data, { binary }))
    upstream.on('message', (data, binary) => client.send(data, { binary }))
    client.on('close', () => upstream.close())
    upstream.on('close', () => client.close())
    client.on('error', () => undefined)
    upstream.on('error', () => undefined)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, token: 'none' }
}

process.send?.(await (kind === 'splice' ? startSplice() : startWs()))
process.on('message', () => {
  global.gc?.()
  process.send?.({ rss: process.memoryUsage().rss })
})
process.on('disconnect', () => process.exit(0))
