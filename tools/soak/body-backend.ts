// Answers requests for bodies as their query says: how large, how framed, how fast, and where it breaks.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { TLSSocket } from 'node:tls'
import { bytesAt, createBodyCheck } from '../matrix/body.ts'
import { write } from '../matrix/flow.ts'

/** What the query of `/body` asks for. */
export interface BodyAsked {
  readonly way: 'down' | 'up' | 'both'
  readonly framing: 'length' | 'chunked' | 'trailers' | 'close'
  /** `apart`: the body follows its head later. */
  readonly head: 'with' | 'apart'
  /** Where the backend resets the connection, or answers without reading the body. */
  readonly breaks: 'never' | 'before' | 'midway' | 'early'
  readonly size: number
  readonly seed: number
}

const PIECE_BYTES = [1, 700, 5000, 16_384, 20_000, 65_536]

export const some = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T

export const queryOf = (asked: BodyAsked): string =>
  new URLSearchParams(Object.entries(asked).map(([name, value]): [string, string] => [name, `${value}`])).toString()

const readQuery = (url: string): BodyAsked => {
  const query = Object.fromEntries(new URL(url, 'http://x').searchParams)
  return { ...(query as unknown as BodyAsked), size: Number(query.size), seed: Number(query.seed) }
}

const frame = (res: ServerResponse, { framing, size }: BodyAsked) => {
  res.setHeader('content-type', 'application/octet-stream')
  if (framing === 'length') res.setHeader('content-length', size)
  if (framing === 'trailers') res.setHeader('trailer', 'x-size')
  if (framing !== 'close') return
  res.useChunkedEncodingByDefault = false
  res.shouldKeepAlive = false
}

/** Neither a socket in a file nor TLS has a reset. */
export const resetSocket = (socket: Socket): void => {
  if (socket.remoteAddress === undefined || socket instanceof TLSSocket) socket.destroy()
  else socket.resetAndDestroy()
}

const give = async (req: IncomingMessage, res: ServerResponse, asked: BodyAsked) => {
  const { size, seed, breaks } = asked
  frame(res, asked)
  if (asked.head === 'apart') {
    res.flushHeaders()
    await delay(2)
  }
  const until = breaks === 'midway' ? Math.floor(size / 2) : size
  for (let at = 0; at < until && !res.destroyed; ) {
    const piece = bytesAt(seed + at, Math.min(some(PIECE_BYTES), until - at))
    at += piece.length
    await write(res, piece)
  }
  if (breaks === 'midway') return resetSocket(req.socket)
  if (asked.framing === 'trailers') res.addTrailers({ 'x-size': `${size}` })
  res.end()
}

/** Says how many bytes came and where the first wrong one was. */
const take = (req: IncomingMessage, res: ServerResponse, { seed }: BodyAsked) => {
  const check = createBodyCheck(seed)
  req.on('data', chunk => check.take(chunk))
  req.on('end', () => res.end(`${check.length} ${check.wrongAt ?? 'right'}`))
}

const echo = (req: IncomingMessage, res: ServerResponse, asked: BodyAsked) => {
  frame(res, asked)
  if (asked.framing === 'trailers') req.on('end', () => res.addTrailers({ 'x-size': `${asked.size}` }))
  req.pipe(res)
}

export const answerBody = (req: IncomingMessage, res: ServerResponse): void => {
  const asked = readQuery(req.url ?? '')
  req.on('error', () => undefined)
  res.on('error', () => undefined)
  if (asked.breaks === 'before') return void resetSocket(req.socket)
  if (asked.breaks === 'early') return void res.writeHead(413, { connection: 'close' }).end('too large')
  if (asked.way === 'up') take(req, res, asked)
  else if (asked.way === 'both') echo(req, res, asked)
  else void give(req, res, asked)
}
