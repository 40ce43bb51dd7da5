// Sends megabytes of one kind over 20 connections at once, each opened again when it is ended, and prints what that took.
//
// What the gateway has not taken after five seconds is cut off: requests that it reads one by one can last for minutes.
import { connect, type Socket } from 'node:net'

interface Flags {
  readonly port: number
  readonly token: string
  readonly kind: string
  readonly megabytes: number
}

const flags = JSON.parse(process.argv[2] ?? '{}') as Flags
const { port, token } = flags
const SECONDS = 5

const CONNECTIONS = 20
/** Beside the address of the person who is not to notice. */
const FROM = '127.0.0.2'
const CHUNK = 64 * 1024
/** For the gateway to take the rest and answer the end. */
const FAREWELL_MS = 5000
const share = (flags.megabytes * 1_000_000) / CONNECTIONS
const deadline = performance.now() + SECONDS * 1000

const frame = (first: number, payload: string): Buffer => {
  const head = Buffer.from([first, 0x80 | payload.length, 0, 0, 0, 0])
  return Buffer.concat([head, Buffer.from(payload)])
}

const HANDSHAKE = `Host: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n`
const LIVE = `GET /flood HTTP/1.1\r\n${HANDSHAKE}Authorization: Bearer ${token}\r\n\r\n`
const ENGINE = `GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n${HANDSHAKE}\r\n`
const POLL = `GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`

/** What opens a connection, and what is then repeated on it. */
const KINDS: Record<string, { open: string; first?: Buffer; unit: Buffer }> = {
  pings: { open: LIVE, unit: frame(0x89, '') },
  messages: { open: LIVE, unit: frame(0x81, 'x') },
  fragments: { open: LIVE, first: frame(0x01, 'x'), unit: frame(0x00, 'x') },
  connects: { open: ENGINE, unit: frame(0x81, '40/nowhere,{"token":"x"}') },
  polling: { open: '', unit: Buffer.from(POLL) }
}

const kind = KINDS[flags.kind]
if (kind === undefined) throw new Error(`kind is one of ${Object.keys(KINDS).join(', ')}`)
const chunk = Buffer.alloc(Math.ceil(CHUNK / kind.unit.length) * kind.unit.length, kind.unit)
let connections = 0

/** Writes until the connection ends or its share is sent; gives how many bytes were taken. */
const pour = (limit: number): Promise<number> =>
  new Promise(resolve => {
    connections += 1
    const socket: Socket = connect({ port, host: '127.0.0.1', localAddress: FROM })
    const cut = setTimeout(() => socket.destroy(), Math.max(0, deadline - performance.now()))
    let begun = kind.open === ''
    const write = () => {
      while (begun && socket.writable) {
        // What the system still holds would be lost by a reset, and is counted.
        if (socket.bytesWritten >= limit) return void socket.setTimeout(FAREWELL_MS).end()
        if (!socket.write(chunk)) return
      }
    }
    socket.on('connect', () => (begun ? write() : socket.write(kind.open)))
    socket.on('data', bytes => {
      if (begun) return
      begun = bytes.toString('latin1').startsWith('HTTP/1.1 101')
      if (!begun) return void socket.destroy()
      if (kind.first !== undefined) socket.write(kind.first)
      write()
    })
    socket.on('drain', write)
    socket.on('timeout', () => socket.destroy())
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(cut)
      resolve(socket.bytesWritten - socket.writableLength)
    })
  })

const work = async (): Promise<number> => {
  let sent = 0
  while (sent < share && performance.now() < deadline) sent += await pour(share - sent)
  return sent
}

const startedAt = performance.now()
const sent = (await Promise.all(Array.from({ length: CONNECTIONS }, work))).reduce((sum, bytes) => sum + bytes, 0)
const seconds = (performance.now() - startedAt) / 1000
process.stdout.write(`${JSON.stringify({ megabytes: sent / 1e6, connections, seconds })}\n`)
