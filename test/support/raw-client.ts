// Sends the exact bytes of a test as a client, and reads answers only as far as their own framing says.
import { once } from 'node:events'
import net from 'node:net'
import { createNews } from './news.ts'

export interface RawResponse {
  readonly status: number
  /** Head without the empty line, Latin-1. */
  readonly head: string
  readonly headers: Record<string, string>
  /** Body without its framing, Latin-1. */
  readonly body: string
  /** False when the connection ended before the framing said so. */
  readonly complete: boolean
}

export type RawConnection = Awaited<ReturnType<typeof connectRaw>>

const parseHead = (head: string) => {
  const [line = '', ...fields] = head.split('\r\n')
  const headers: Record<string, string> = {}
  for (const field of fields) {
    const name = field.slice(0, field.indexOf(':')).toLowerCase()
    const value = field.slice(field.indexOf(':') + 1).trim()
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`
  }
  return { status: Number(line.split(' ')[1]), headers }
}

const dechunk = (text: string): { body: string; length: number } | undefined => {
  let at = 0
  let body = ''
  for (;;) {
    const end = text.indexOf('\r\n', at)
    if (end === -1) return undefined
    const size = Number.parseInt(text.slice(at, end), 16)
    if (size === 0) {
      const trailers = text.indexOf('\r\n\r\n', end)
      return trailers === -1 ? undefined : { body, length: trailers + 4 }
    }
    if (text.length < end + 2 + size + 2) return undefined
    body += text.slice(end + 2, end + 2 + size)
    at = end + 2 + size + 2
  }
}

/** A response at the start of `text`, and how long it is; undefined while incomplete. */
const parseResponse = (text: string, isHead: boolean, ended: boolean) => {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end)
  const { status, headers } = parseHead(head)
  const rest = text.slice(end + 4)
  const isBare = isHead || status < 200 || status === 204 || status === 304
  const isChunked = headers['transfer-encoding'] !== undefined
  const size = isBare ? 0 : isChunked ? undefined : headers['content-length']
  const isWhole = size !== undefined && rest.length >= Number(size)
  const chunked = isChunked && !isBare ? dechunk(rest) : undefined
  const framed = isWhole ? { body: rest.slice(0, Number(size)), length: Number(size) } : chunked
  if (framed === undefined && !ended) return undefined
  const { body, length } = framed ?? { body: rest, length: rest.length }
  const complete = framed !== undefined || (size === undefined && !isChunked)
  const response: RawResponse = { status, head, headers, body, complete }
  return { response, length: end + 4 + length }
}

export const connectRaw = async (port: number, host = '127.0.0.1') => {
  const socket = net.connect({ port, host, allowHalfOpen: true })
  const news = createNews()
  let received = ''
  let ended = false
  let failure = 'FIN'
  const over = () => {
    ended = true
    news.tell()
  }
  socket.on('data', chunk => {
    received += chunk.toString('latin1')
    news.tell()
  })
  socket.on('end', over).on('close', over)
  await once(socket, 'connect')
  socket.on('error', error => {
    failure = error.message
    over()
  })
  const until = <T>(what: string, find: () => T | undefined, timeoutMs?: number): Promise<T> => {
    const soFar = () => `${what}; received: ${JSON.stringify(received.slice(0, 500))}`
    const look = () => {
      const found = find()
      if (found === undefined && ended) throw new Error(`connection ended before ${soFar()}: ${failure}`)
      return found
    }
    return news.until(look, soFar, timeoutMs)
  }
  return {
    socket,
    send: (bytes: string | Buffer) =>
      void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    /** The next response; rejects when the connection ends before a head, or after `timeoutMs`. */
    response: ({ head = false, timeoutMs }: { head?: boolean; timeoutMs?: number } = {}): Promise<RawResponse> => {
      const take = () => {
        const parsed = parseResponse(received, head, ended)
        received = received.slice(parsed?.length ?? 0)
        return parsed?.response
      }
      return until('a response', take, timeoutMs)
    },
    /** Resolves when the other side has closed; the bytes that were left unread. */
    closed: (timeoutMs?: number) => until('the end of the connection', () => (ended ? received : undefined), timeoutMs),
    /** Resolves when the text has been received. */
    sees: (text: string) => until(JSON.stringify(text), () => (received.includes(text) ? received : undefined)),
    destroy: () => socket.destroy()
  }
}

/** Sends bytes on a connection of its own and returns the first final response. */
export const rawExchange = async (
  port: number,
  bytes: string | Buffer,
  options: { head?: boolean } = {}
): Promise<RawResponse> => {
  const connection = await connectRaw(port)
  try {
    connection.send(bytes)
    for (;;) {
      const response = await connection.response(options)
      if (response.status >= 200) return response
    }
  } finally {
    connection.destroy()
  }
}
