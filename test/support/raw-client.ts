// A client that sends the exact bytes of a test and reads answers only as far as their own framing says.
import net from 'node:net'

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

/** Long enough for a machine that does ten other things. */
const DEADLINE_MS = 120_000
/** Not hurried by tests that hurry the timers of the gateway. */
const { setTimeout: inRealTime } = globalThis

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
const parseResponse = (
  text: string,
  isHead: boolean,
  ended: boolean
): { response: RawResponse; length: number } | undefined => {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = text.slice(0, end)
  const { status, headers } = parseHead(head)
  const rest = text.slice(end + 4)
  const done = (body: string, length: number, complete = true) => ({
    response: { status, head, headers, body, complete },
    length: end + 4 + length
  })
  if (isHead || status < 200 || status === 204 || status === 304) return done('', 0)
  if (headers['transfer-encoding'] !== undefined) {
    const chunked = dechunk(rest)
    if (chunked !== undefined) return done(chunked.body, chunked.length)
    return ended ? done(rest, rest.length, false) : undefined
  }
  if (headers['content-length'] !== undefined) {
    const size = Number(headers['content-length'])
    if (rest.length >= size) return done(rest.slice(0, size), size)
    return ended ? done(rest, rest.length, false) : undefined
  }
  return ended ? done(rest, rest.length) : undefined
}

export const connectRaw = async (port: number, host = '127.0.0.1') => {
  const socket = net.connect({ port, host, allowHalfOpen: true })
  let received = ''
  let ended = false
  let failure: Error | undefined
  const watchers = new Set<() => void>()
  const wake = () => {
    for (const watcher of [...watchers]) watcher()
  }
  socket.on('data', chunk => {
    received += chunk.toString('latin1')
    wake()
  })
  const over = () => {
    ended = true
    wake()
  }
  socket.on('end', over)
  socket.on('close', over)
  socket.on('error', error => {
    failure = error
    over()
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })

  const until = <T>(what: string, check: () => T | undefined, timeoutMs: number): Promise<T> =>
    new Promise((resolve, reject) => {
      const timer = inRealTime(() => fail(`waited too long for ${what}`), timeoutMs)
      const finish = (settle: () => void) => {
        clearTimeout(timer)
        watchers.delete(look)
        settle()
      }
      const fail = (reason: string) =>
        finish(() => reject(new Error(`${reason}; received: ${JSON.stringify(received.slice(0, 500))}`)))
      const look = () => {
        const found = check()
        if (found !== undefined) finish(() => resolve(found))
        else if (ended) fail(`connection ended before ${what}: ${failure?.message ?? 'FIN'}`)
      }
      watchers.add(look)
      look()
    })

  return {
    socket,
    send: (bytes: string | Buffer) =>
      void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    /** The next response; rejects when the connection ends before a head, or after `timeoutMs`. */
    response: ({ head = false, timeoutMs = DEADLINE_MS } = {}): Promise<RawResponse> =>
      until(
        'a response',
        () => {
          const parsed = parseResponse(received, head, ended)
          if (parsed === undefined) return undefined
          received = received.slice(parsed.length)
          return parsed.response
        },
        timeoutMs
      ),
    /** Resolves when the other side has closed; the bytes that were left unread. */
    closed: (timeoutMs = DEADLINE_MS) =>
      until('the end of the connection', () => (ended ? received : undefined), timeoutMs),
    /** Resolves when the text has been received. */
    sees: (text: string, timeoutMs = DEADLINE_MS) =>
      until(JSON.stringify(text), () => (received.includes(text) ? received : undefined), timeoutMs),
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
