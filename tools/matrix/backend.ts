// Starts backends over TCP, TLS and a Unix socket: they move bodies, echo messages, speak Socket.IO, and can go and come back.
import { once } from 'node:events'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { Server as SocketIoServer } from 'socket.io'
import type { Test } from 'tap'
import { WebSocketServer } from 'ws'
import { createCertificateAuthority, pemOf } from '../../test/support/certificates.ts'
import { answerExchange, resetSocket } from './answer.ts'
import type { BackendKind } from './cells.ts'

export type Backend = Awaited<ReturnType<typeof startBackend>>

type Teardown = Pick<Test, 'teardown'>

const LARGE = Buffer.alloc(1_000_000, 'x')

const answer = (req: http.IncomingMessage, res: http.ServerResponse) => {
  if (/^\/(?:http|https|unix)\//.test(req.url ?? '')) return answerExchange(req, res)
  if (req.url?.startsWith('/app/large')) return void res.end(LARGE)
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

const listen = async ({ at, certificate }: Listening, variesRecords: boolean) => {
  const server = certificate === undefined ? http.createServer(answer) : https.createServer(certificate, answer)
  // Longer than this machine may stand still: a request that crosses the end of its connection has no other explanation than that.
  server.keepAliveTimeout = 120_000
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  if (variesRecords) server.on('secureConnection', varyRecords)
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
  await once(typeof at === 'string' ? server.listen(at) : server.listen(at, '127.0.0.1'), 'listening')
  return {
    at: typeof at === 'string' ? at : (server.address() as AddressInfo).port,
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

/** A free port is kept. */
const startBackend = async (t: Teardown, first: Listening, variesRecords: boolean) => {
  let running: Awaited<ReturnType<typeof listen>> | undefined = await listen(first, variesRecords)
  const { at } = running
  /** Its connections break and nothing listens. */
  const stop = async () => {
    const gone = running
    running = undefined
    await gone?.close()
  }
  t.teardown(stop)
  const scheme = first.certificate === undefined ? 'http' : 'https'
  return {
    /** As in a route file. */
    url: typeof at === 'string' ? `unix:${at}` : `${scheme}://127.0.0.1:${at}`,
    /** Its connections break. */
    reset: () => running?.reset(),
    stop,
    async start() {
      running ??= await listen({ ...first, at }, variesRecords)
    }
  }
}

/** One of each kind, and a certificate authority in `folder` with a certificate for a gateway too. */
export const startBackends = async (t: Teardown, folder: string, { variesRecords = false } = {}) => {
  const { ca, caFile, issue } = createCertificateAuthority(folder)
  const certificate = pemOf(issue('backend'))
  const start = (at: number | string, more?: Listening['certificate']) =>
    startBackend(t, { at, certificate: more }, variesRecords)
  const backends: Readonly<Record<BackendKind, Backend>> = {
    http: await start(0),
    https: await start(0, certificate),
    unix: await start(join(folder, 'backend.sock'))
  }
  const gateway = issue('gateway')
  return { backends, ca, caFile, tls: { TLS_CERT_FILE: gateway.certFile, TLS_KEY_FILE: gateway.keyFile } }
}
