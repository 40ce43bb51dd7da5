// One relay in a process of its own: `splice` is the gateway, `ws` reads and writes every message with the ws package.
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { startGateway } from '../../test/support/gateway.ts'

const [kind = 'splice', upstreamPort = '0'] = process.argv.slice(2)
const endings: (() => unknown)[] = []

/** The whole gateway; all clients of the bench are one person at one address. */
const startSplice = async () => {
  const { port, tokenFor } = await startGateway(
    { teardown: ending => void endings.unshift(ending) },
    {
      env: { STREAMS_PER_USER: '100%', STREAMS_PER_IP: '100%', CONNECTIONS_PER_IP: '1000000', LOG_LEVEL: 'silent' },
      config: {
        upstreams: { backend: { url: `http://127.0.0.1:${upstreamPort}` } },
        routes: [{ path: '/ws', upstream: 'backend', websocket: {} }]
      }
    }
  )
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
process.on('disconnect', async () => {
  for (const ending of endings) await ending()
  process.exit(0)
})
