// Answers the request of an exchange as its body asks, and records what arrived.
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { TLSSocket } from 'node:tls'
import { type Body, type BodyCheck, createBodyCheck, stall, writeBody } from './body.ts'

/** One exchange, as both ends tell each other about it. */
export interface Exchange<T extends Body = Body> {
  readonly body: T
  /** Position of the first byte: no two exchanges have the same bytes. */
  readonly start: number
  /** Number of bytes that each side has handed over to its socket. */
  readonly handedOver: { client: number; backend: number }
  readonly isDone: { client: boolean; backend: boolean }
  /** What the backend received; undefined: the request has not arrived. */
  received: { readonly connection: number; readonly check: BodyCheck; readonly message: IncomingMessage } | undefined
}

export const TRAILER = 'x-checksum'
/** Longer than loopback needs for the head, so that the body arrives apart from it. */
const APART_MS = 5

const exchanges = new Map<string, Exchange>()
const underway = new Set<Exchange>()
let count = 0

export const beginExchange = <T extends Body>(body: T) => {
  const id = String(++count)
  const exchange: Exchange<T> = {
    body,
    start: count * 1009,
    handedOver: { client: 0, backend: 0 },
    isDone: { client: false, backend: false },
    received: undefined
  }
  exchanges.set(id, exchange)
  return { id, exchange, end: () => void exchanges.delete(id) }
}

/** Bodies of exchanges with which a backend is not done. */
export const busyBodies = (): Body[] => [...underway].map(({ body }) => body)

const connections = new WeakMap<Socket, number>()
let opened = 0
const numberOf = (socket: Socket): number => {
  const number = connections.get(socket) ?? ++opened
  connections.set(socket, number)
  return number
}

/** Neither a socket in a file nor TLS has a reset. */
export const resetSocket = (socket: Socket): void => {
  if (socket.remoteAddress === undefined || socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}

const sendBody = async (res: ServerResponse, exchange: Exchange, lastAfter: Promise<unknown>) => {
  const { body, start, handedOver } = exchange
  const { framing, breaks } = body
  const size = body.direction === 'up' ? 0 : body.size
  if (framing === 'length') res.setHeader('content-length', size)
  if (framing === 'close') {
    res.shouldKeepAlive = false
    res.useChunkedEncodingByDefault = false
  }
  if (framing === 'trailers') res.setHeader('trailer', TRAILER)
  if (body.isWithHead !== true) {
    res.flushHeaders()
    await delay(APART_MS)
  }
  const until = breaks === 'midway' ? Math.floor(size / 2) : size
  const onWritten = (bytes: number) => {
    handedOver.backend += bytes
  }
  await writeBody(res, body, start, until, onWritten, end => (end === size ? lastAfter : undefined))
  if (res.destroyed) return
  if (breaks === 'midway' && res.socket !== null) return resetSocket(res.socket)
  exchange.isDone.backend = true
  await lastAfter
  if (framing === 'trailers') res.addTrailers({ [TRAILER]: String(size) })
  res.end()
}

const receiveBody = async (req: IncomingMessage, { body, handedOver, isDone }: Exchange, check: BodyCheck) => {
  const isReader = body.direction === 'up'
  if (isReader && body.reader === 'slow') await stall(() => (isDone.client ? 'done' : handedOver.client))
  if (isReader && body.reader === 'leaves') {
    if (body.size > 0) await once(req, 'readable')
    req.socket.destroy()
    return
  }
  for await (const chunk of req) check.take(chunk)
}

const answer = async (req: IncomingMessage, res: ServerResponse, exchange: Exchange) => {
  const { breaks, direction } = exchange.body
  const check = createBodyCheck(exchange.start)
  exchange.received = { connection: numberOf(req.socket), check, message: req }
  if (breaks === 'before') return resetSocket(req.socket)
  if (breaks === 'early') return void res.writeHead(413, { connection: 'close' }).end('too large')
  const upload = receiveBody(req, exchange, check)
  // Whoever waits for it hears of a client that has left; it may leave before anything waits.
  upload.catch(() => undefined)
  if (direction === 'up') await upload
  if (!req.socket.destroyed) await sendBody(res, exchange, upload)
  await upload
}

/** For requests whose last segment names an exchange. */
export const answerExchange = (req: IncomingMessage, res: ServerResponse): void => {
  const exchange = exchanges.get(req.url?.split('/').at(-1) ?? '')
  if (exchange === undefined) return void res.writeHead(404).end()
  req.on('error', () => undefined)
  res.on('error', () => undefined)
  underway.add(exchange)
  answer(req, res, exchange)
    // The other side has left.
    .catch(() => res.destroy())
    .finally(() => underway.delete(exchange))
}
