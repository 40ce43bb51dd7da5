// Opens connections of one kind from several addresses, holds them until it is ended, and replaces those that are closed.
import { createConnection, type Socket } from 'node:net'

interface Flags {
  readonly port: number
  readonly kind: string
  readonly count: number
  readonly path: string
  readonly token: string
}

const { port, kind, count, path, token } = JSON.parse(process.argv[2] ?? '{}') as Flags
/** Of 127.0.1.0/24. */
const ADDRESSES = 40

const REOPEN_MS = 500
const BYTE_EVERY_MS = 1000
const PIPELINED_BYTES = 64 * 1024

const request = 'GET /health HTTP/1.1\r\nHost: bench\r\n\r\n'
const refused = 'GET / HTTP/1.1\r\nHost: bench\r\n\r\n'
const upload = `POST ${path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\nContent-Length: 1000000\r\n\r\n`

const trickle = (socket: Socket) => {
  const timer = setInterval(() => socket.write('x'), BYTE_EVERY_MS)
  socket.on('close', () => clearInterval(timer))
}

/** What each kind does once it is connected; it calls `opened` when it has become what it is. */
const kinds: Readonly<Record<string, (socket: Socket, opened: () => void) => void>> = {
  idle: (socket, opened) => {
    socket.write(request)
    socket.once('data', opened)
  },
  'half-head': (socket, opened) => {
    socket.write('GET /health HTTP/1.1\r\nHost: bench\r\nX-Slow: ', opened)
    trickle(socket)
  },
  'slow-body': (socket, opened) => {
    socket.write(upload, opened)
    trickle(socket)
  },
  pipelining: (socket, opened) => {
    socket.pause()
    socket.write(refused.repeat(Math.ceil(PIPELINED_BYTES / refused.length)))
    opened()
  }
}

const begin = kinds[kind]
if (begin === undefined) throw new Error(`--kind is one of ${Object.keys(kinds).join(', ')}`)
let opened = 0

const open = (index: number, isFirst: boolean) =>
  new Promise<void>(resolve => {
    const localAddress = `127.0.1.${1 + (index % ADDRESSES)}`
    const socket = createConnection({ port, host: '127.0.0.1', localAddress })
    socket.on('connect', () =>
      begin(socket, () => {
        if (isFirst) opened += 1
        resolve()
      })
    )
    socket.on('data', () => undefined)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      resolve()
      setTimeout(() => void open(index, false), REOPEN_MS)
    })
  })

/** So many at a time: the listener's queue is shorter than a crowd. */
const AT_ONCE = 200
for (let index = 0; index < count; index += AT_ONCE)
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - index) }, (_, each) => open(index + each, true)))
process.stdout.write(`${JSON.stringify({ opened })}\n`)
