// Runs a backend over TCP, TLS or a Unix socket that answers each exchange as its cell says, and records what it received.
import { once } from 'node:events'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type BodyCheck, createBodyCheck, piecesOf } from './body.ts'
import { type BackendKind, type Cell, SIZES } from './cells.ts'
import { stall, write } from './flow.ts'

/** One exchange, as both ends tell each other about it. */
export interface Exchange {
  readonly cell: Cell
  /** Number of bytes that each side has handed over to its socket. */
  readonly handedOver: { client: number; backend: number }
  readonly isDone: { client: boolean; backend: boolean }
  /** What the backend received; undefined: the request has not arrived. */
  received:
    | { connection: number; headers: IncomingMessage['headers']; body: BodyCheck; message: IncomingMessage }
    | undefined
}

export interface Backend {
  readonly url: string
  readonly exchanges: Map<string, Exchange>
  /** Cells whose exchange is not over. */
  busy(): Cell[]
  close(): void
}

export const TRAILER = 'x-checksum'
/** Longer than loopback needs for the head, so that the body arrives apart from it. */
const APART_MS = 5

const sendBody = async (res: ServerResponse, exchange: Exchange, lastAfter: Promise<unknown>) => {
  const { cell, handedOver } = exchange
  const size = cell.direction === 'up' ? 0 : SIZES[cell.size]
  if (cell.framing === 'length') res.setHeader('content-length', size)
  if (cell.framing === 'close') {
    res.shouldKeepAlive = false
    res.useChunkedEncodingByDefault = false
  }
  if (cell.framing === 'trailers') res.setHeader('trailer', TRAILER)
  res.flushHeaders()
  await delay(APART_MS)
  for (const piece of piecesOf(size)) {
    if (handedOver.backend + piece.length === size) await lastAfter
    await write(res, piece)
    if (res.destroyed) return
    handedOver.backend += piece.length
  }
  exchange.isDone.backend = true
  await lastAfter
  if (cell.framing === 'trailers') res.addTrailers({ [TRAILER]: String(size) })
  res.end()
}

const receiveBody = async (req: IncomingMessage, exchange: Exchange, body: BodyCheck) => {
  const { cell, handedOver, isDone } = exchange
  const isReader = cell.direction === 'up'
  if (isReader && cell.reader === 'slow') await stall(() => (isDone.client ? 'done' : handedOver.client))
  if (isReader && cell.reader === 'leaves') {
    if (SIZES[cell.size] > 0) await once(req, 'readable')
    req.socket.destroy()
    return
  }
  for await (const chunk of req) body.take(chunk)
}

/** @param tlsFiles PEM texts, for `https` */
export const startBackend = async (
  kind: BackendKind,
  folder: string,
  tlsFiles: { key: string; cert: string }
): Promise<Backend> => {
  const exchanges = new Map<string, Exchange>()
  const connections = new Map<Socket, number>()
  const underway = new Set<Cell>()
  let opened = 0
  const answer = async (req: IncomingMessage, res: ServerResponse, exchange: Exchange) => {
    const body = createBodyCheck()
    const connection = connections.get(req.socket) ?? 0
    exchange.received = { connection, headers: req.headers, body, message: req }
    const upload = receiveBody(req, exchange, body)
    // Whoever waits for it hears of a client that has left; it may leave before anything waits.
    upload.catch(() => undefined)
    if (exchange.cell.direction === 'up') await upload
    if (!req.socket.destroyed) await sendBody(res, exchange, upload)
    await upload
  }
  const listener = (req: IncomingMessage, res: ServerResponse) => {
    const exchange = exchanges.get(req.url?.split('/').at(-1) ?? '')
    if (exchange === undefined) return res.writeHead(404).end()
    underway.add(exchange.cell)
    answer(req, res, exchange)
      // The other side has left.
      .catch(() => res.destroy())
      .finally(() => underway.delete(exchange.cell))
  }
  const server = kind === 'https' ? https.createServer(tlsFiles, listener) : http.createServer(listener)
  server.on(kind === 'https' ? 'secureConnection' : 'connection', (socket: Socket) => connections.set(socket, ++opened))
  server.keepAliveTimeout = 120_000
  const path = join(folder, 'backend.sock')
  if (kind === 'unix') server.listen(path)
  else server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: kind === 'unix' ? `unix:${path}` : `${kind}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    busy: () => [...underway],
    close() {
      server.closeAllConnections()
      server.close()
    }
  }
}
