// Speaks WebSocket byte by byte, as a client or as a backend: the test decides everything that is sent.
import net from 'node:net'
import type { Test } from 'tap'
import { buildFrame, closePayload } from '../../gateway/websocket/frames.ts'
import { acceptOf } from '../../gateway/websocket/handshake.ts'
import { startRawUpstream } from './raw-upstream.ts'

export { acceptOf, buildFrame, closePayload }

/** The whole frames at the start of these bytes, unmasked (RFC 6455 §5.2). */
export const framesIn = (bytes: Buffer) => {
  const found: { opcode: number; payload: Buffer }[] = []
  for (let at = 0; at + 2 <= bytes.length; ) {
    const [first = 0, second = 0] = bytes.subarray(at, at + 2)
    const [isMasked, short] = [second > 127, second & 127]
    const key = at + (short === 127 ? 10 : short === 126 ? 4 : 2)
    const start = key + (isMasked ? 4 : 0)
    if (start > bytes.length) break
    const length = short < 126 ? short : Number(`0x${bytes.toString('hex', at + 2, key)}`)
    if (start + length > bytes.length) break
    const sent = bytes.subarray(start, start + length)
    const payload = isMasked ? sent.map((byte, i) => byte ^ (bytes[key + (i & 3)] ?? 0)) : sent
    found.push({ opcode: first & 15, payload: Buffer.from(payload) })
    at = start + length
  }
  return found
}

/** The code of the close frame among them; 1005: it has none; undefined: no such frame has come. */
export const closeCodeIn = (bytes: Buffer): number | undefined => {
  const payload = framesIn(bytes).find(({ opcode }) => opcode === 8)?.payload
  return payload?.length === 0 ? 1005 : payload?.readUInt16BE(0)
}

export type RawWebSocket = Awaited<ReturnType<typeof rawWebSocket>>

export interface UpgradeOptions {
  path?: string
  headers?: Record<string, string>
  /** Replaces the whole request. */
  request?: string
  /** Bytes sent along with the request. */
  behind?: Buffer
  /** Takes the socket before anything is sent. */
  onConnecting?: (socket: net.Socket) => void
}

export const upgradeText = ({ path = '/ws', headers = {}, request }: UpgradeOptions = {}): string => {
  if (request !== undefined) return request
  const fields: Record<string, string> = {
    host: 'gateway.test',
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    ...headers
  }
  const lines = Object.entries(fields).filter(([, value]) => value !== '')
  return `GET ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
}

/** Resolves once the head of the answer has come, or the socket is closed. */
export const rawWebSocket = async (port: number, options: UpgradeOptions = {}) => {
  const socket = net.connect(port, '127.0.0.1')
  options.onConnecting?.(socket)
  let received = Buffer.alloc(0)
  const headEnd = () => received.indexOf('\r\n\r\n')
  const closed = new Promise<void>(gone => socket.on('close', () => gone()))
  const answered = new Promise<void>(resolve => {
    socket.on('data', bytes => {
      received = Buffer.concat([received, bytes])
      if (headEnd() !== -1) resolve()
    })
  })
  socket.on('error', () => undefined)
  socket.write(Buffer.concat([Buffer.from(upgradeText(options)), options.behind ?? Buffer.alloc(0)]))
  await Promise.race([answered, closed])
  /** What followed the head of the answer. */
  const frames = () => (headEnd() === -1 ? Buffer.alloc(0) : received.subarray(headEnd() + 4))
  return {
    socket,
    /** Everything received so far. */
    received: (): Buffer => received,
    head: () => received.toString('latin1', 0, headEnd() + 2),
    frames,
    send: (opcode: number, payload: Buffer | string) =>
      void socket.write(buildFrame(opcode, Buffer.from(payload), true)),
    close: (code: number, reason = '') => void socket.write(buildFrame(8, closePayload(code, reason), true)),
    closed,
    /** Code of the close frame received; undefined: none yet. */
    closeCode: () => closeCodeIn(frames())
  }
}

interface WebSocketPeer {
  readonly socket: net.Socket
  /** Everything that followed the request. */
  received: Buffer
}

/** The head that takes an upgrade; `fields` are further lines, each with its end. */
export const switchingProtocols = (request: string, fields = ''): string => {
  const key = /^sec-websocket-key: *(.*)\r$/im.exec(request)?.[1] ?? ''
  return (
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    `Sec-WebSocket-Accept: ${acceptOf(key)}\r\n${fields}\r\n`
  )
}

/** Takes upgrades as a backend of bytes, for which the test then speaks. */
export const startWebSocketUpstream = async (t: Pick<Test, 'teardown'>) => {
  const upstream = await startRawUpstream(t)
  /** In the order in which they were taken. */
  const peers: WebSocketPeer[] = []
  upstream.respond(({ head, socket }) => {
    const peer = { socket, received: Buffer.alloc(0) }
    socket.on('data', bytes => {
      peer.received = Buffer.concat([peer.received, bytes])
    })
    peers.push(peer)
    return switchingProtocols(head)
  })
  return { ...upstream, peers }
}
