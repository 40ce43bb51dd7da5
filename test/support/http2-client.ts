// Speaks HTTP/2 to a gateway: requests by node:http2, and single frames by hand (RFC 9113 §4.1).
import { once } from 'node:events'
import http from 'node:http'
import http2, { type ClientHttp2Session, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2'
import https from 'node:https'
import tls from 'node:tls'
import type { Test } from 'tap'
import { createCertificateAuthority } from './certificates.ts'
import { routesTo, startGateway, type WorldOptions } from './gateway.ts'
import { startRawUpstream } from './raw-upstream.ts'

interface Place {
  readonly port: number
  readonly ca: string
}

type Teardown = Pick<Test, 'teardown'>

export const connectHttp2 = async (
  t: Teardown,
  { port, ca }: Place,
  options: http2.SecureClientSessionOptions = {}
) => {
  const session = http2.connect(`https://localhost:${port}`, { ca, host: '127.0.0.1', ...options })
  session.on('error', () => undefined)
  t.teardown(() => session.destroy())
  await once(session, 'remoteSettings')
  return session
}

/** @param body sent in these pieces */
export const askHttp2 = async (
  session: ClientHttp2Session,
  headers: OutgoingHttpHeaders,
  body: readonly (string | Buffer)[] = []
) => {
  const none: IncomingHttpHeaders = {}
  /** `code` is that of RST_STREAM; 0: none, or NO_ERROR. */
  const answer = { status: 0, headers: none, body: '', trailers: none, interim: [] as IncomingHttpHeaders[], code: 0 }
  const stream = session.request(headers, { endStream: body.length === 0 })
  stream.on('response', fields => Object.assign(answer, { status: fields[':status'] ?? 0, headers: fields }))
  stream.on('headers', fields => answer.interim.push(fields))
  stream.on('trailers', trailers => Object.assign(answer, { trailers }))
  stream.on('data', (chunk: Buffer) => {
    answer.body += chunk.toString('latin1')
  })
  stream.on('error', () => undefined)
  for (const piece of body) stream.write(piece)
  if (body.length > 0) stream.end()
  await new Promise(resolve => stream.on('close', resolve))
  return { ...answer, code: stream.rstCode ?? 0 }
}

export const FRAMES = {
  data: 0,
  headers: 1,
  priority: 2,
  resetStream: 3,
  settings: 4,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
  /** RFC 9218 §7.1. */
  priorityUpdate: 16
}

/** A frame (RFC 9113 §4.1). */
export const frame = (type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

/** Takes bytes, split anywhere. */
export const readFrames = (onFrame: (frame: Frame) => void) => {
  let held: Buffer = Buffer.alloc(0)
  return (bytes: Buffer): void => {
    held = Buffer.concat([held, bytes])
    while (held.length >= 9 && held.length >= 9 + held.readUIntBE(0, 3)) {
      const end = 9 + held.readUIntBE(0, 3)
      const [type = 0, flags = 0] = [held[3], held[4]]
      const stream = held.readUInt32BE(5)
      // A copy outside the pool of small Buffers: a part of it would keep 64 KB in memory, which some tests measure.
      const payload = Buffer.alloc(end - 9)
      held.copy(payload, 0, 9, end)
      held = held.subarray(end)
      onFrame({ type, flags, stream, payload })
    }
  }
}

/** A field line that no table compresses, with its name and value written out (RFC 7541 §6.2); Latin-1. */
export const literal = (name: string, value: string): Buffer =>
  Buffer.from(`\0${stringText(name)}${stringText(value)}`, 'latin1')

/** Without Huffman code (RFC 7541 §5.1, §5.2). */
const stringText = (text: string): string => {
  if (text.length < 127) return String.fromCharCode(text.length) + text
  let length = '\x7f'
  let rest = text.length - 127
  for (; rest >= 128; rest = Math.floor(rest / 128)) length += String.fromCharCode((rest % 128) + 128)
  return length + String.fromCharCode(rest) + text
}

/** A connection whose frames are written by hand; it has sent the preface and its settings. */
export const connectFrames = async (t: Teardown, { port, ca }: Place, options: { allowHalfOpen?: boolean } = {}) => {
  const socket = tls.connect({
    ...options,
    port,
    host: '127.0.0.1',
    servername: 'localhost',
    ca,
    ALPNProtocols: ['h2']
  })
  t.teardown(() => socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'secureConnect')
  const frames: Frame[] = []
  socket.on(
    'data',
    readFrames(one => frames.push(one))
  )
  const closed = new Promise(resolve => socket.on('close', resolve))
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(FRAMES.settings, 0, 0)]))
  return { socket, frames, closed }
}

/** The same by HTTP/1.1 on a connection of its own, with TLS if an authority is given. */
export const answerOverHttp1 = async (
  { port, ca }: Pick<Place, 'port'> & Partial<Place>,
  method: string,
  path: string,
  headers: Record<string, string>,
  body = ''
) => {
  const options = { host: '127.0.0.1', port, path, method, headers, agent: false }
  const asking = ca === undefined ? http.request(options) : https.request({ ...options, ca, servername: 'localhost' })
  // Once the response has begun, it tells what goes wrong.
  asking.on('error', () => undefined).end(body)
  const [response] = (await once(asking, 'response')) as [http.IncomingMessage]
  const text = (await response.setEncoding('latin1').toArray()).join('')
  return { status: response.statusCode ?? 0, headers: response.headers, body: text }
}

/** A gateway with TLS before a backend that answers as told. */
export const startHttp2World = async (t: Test, options: Pick<WorldOptions, 'env' | 'limits'> = {}) => {
  const authority = createCertificateAuthority(t.testdir({}))
  const { certFile, keyFile } = authority.issue('one')
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: routesTo(upstream.url, [
      { path: '/open/*', public: true },
      { path: '/private' },
      { path: '/admin', roles: ['Admin'] },
      { path: '/asked', external: true },
      { path: '/asked/admin', external: true, roles: ['Admin'] }
    ]),
    ...options,
    env: { TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile, PUBLIC_URL: 'https://gw.example', ...options.env }
  })
  return { world, upstream, place: { port: world.port, ca: authority.ca } }
}
