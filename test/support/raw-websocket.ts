// Speaks WebSocket as a client byte by byte: the test decides everything that is sent.
import net from 'node:net'
import { buildFrame, closeCodeIn, closePayload } from './frames.ts'

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
