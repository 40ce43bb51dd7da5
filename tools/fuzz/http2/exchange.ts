// Sends messages to a gateway before a strict backend, as interleaved streams of one connection, and says what became of each.
import { once } from 'node:events'
import tls from 'node:tls'
import type { Test } from 'tap'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { startGateway } from '../../../test/support/gateway.ts'
import { FRAMES, type Frame, frame, readFrames } from '../../../test/support/http2-client.ts'
import { makeFolder } from '../../../test/support/server-process.ts'
import type { Random } from '../mutate.ts'
import { startStrictUpstream } from '../strict-upstream.ts'
import type { Message } from './messages.ts'

export interface Sent {
  readonly message: Message
  /** Its frames, for the stream that it gets. */
  readonly frames: readonly ((stream: number) => Buffer)[]
}

export interface Outcome {
  /** `lost`: its connection ended before; `never`: that did not happen either. */
  readonly end: 'answered' | 'reset' | 'lost' | 'never'
  readonly isOk: boolean
  /** Of its body. */
  readonly text: string
}

const PREFACE = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(FRAMES.settings, 0, 0)])
const PING = frame(FRAMES.ping, 0, 0, Buffer.from('the end.'))
const ANSWER_MS = 60_000
const END_STREAM = 0x1
/** `:status: 200` of the static table (RFC 7541, Appendix A). */
const STATUS_200 = 0x88

/** All frames of one connection; those of a stream in order, streams begun in the order of the messages. */
export const interleave = (batch: readonly Sent[], random: Random): Buffer => {
  const left = batch.map(({ frames }, index) => ({ stream: 2 * index + 1, frames: [...frames] }))
  const bytes: Buffer[] = [PREFACE]
  let begun = 0
  while (left.length > 0) {
    const index = random.below(Math.min(left.length, begun + 1, 6))
    const one = left[index]
    const next = one?.frames.shift()
    begun = Math.max(begun, index + 1)
    if (one === undefined || next === undefined) {
      left.splice(index, 1)
      begun--
    } else bytes.push(next(one.stream))
  }
  return Buffer.concat([...bytes, PING])
}

/** Resolves to the outcomes in the order of streams. */
export const send = async (front: Front, bytes: Buffer, batch: readonly Sent[]): Promise<Outcome[]> => {
  const outcomes: Outcome[] = batch.map(() => ({ end: 'lost', isOk: false, text: '' }))
  const socket = front.connect()
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), ANSWER_MS)
  let waiting = batch.filter(({ message }) => message.end !== 'reset').length
  let isRead = false
  let isBroken = false
  const onFrame = ({ type, flags, stream, payload }: Frame) => {
    if (type === FRAMES.ping && flags === 1) isRead = true
    // What is reset from then on is lost, whatever it was.
    if (type === FRAMES.goaway && payload.readUInt32BE(4) !== 0) isBroken = true
    if (type === FRAMES.resetStream && isBroken) return
    const index = (stream - 1) / 2
    const before = outcomes[index]
    if (before?.end === 'lost') {
      const isReset = type === FRAMES.resetStream
      const isEnd = isReset || (type <= FRAMES.headers && (flags & END_STREAM) !== 0)
      const isOk = before.isOk || (type === FRAMES.headers && payload[0] === STATUS_200)
      const text = type === FRAMES.data ? before.text + payload.toString('latin1') : before.text
      outcomes[index] = { end: isEnd ? (isReset ? 'reset' : 'answered') : 'lost', isOk, text }
      if (isEnd && batch[index]?.message.end !== 'reset') waiting--
    }
    if (waiting === 0 && isRead) resolve(true)
  }
  socket.on('data', readFrames(onFrame))
  socket.on('error', () => resolve(true))
  socket.on('close', () => resolve(true))
  await once(socket, 'secureConnect')
  socket.write(bytes)
  const ended = await promise
  clearTimeout(timer)
  socket.destroy()
  return ended ? outcomes : outcomes.map(one => (one.end === 'lost' ? { ...one, end: 'never' } : one))
}

export type Front = Awaited<ReturnType<typeof startFront>>

/** A gateway as a server of HTTP/2, before a backend that takes only what RFC 9112 allows. */
export const startFront = async (t: Pick<Test, 'teardown'>) => {
  const backend = await startStrictUpstream(t)
  const folder = makeFolder(t, 'http2')
  const authority = createCertificateAuthority(folder)
  const { certFile, keyFile } = authority.issue('one')
  const { port } = await startGateway(t, {
    config: {
      upstreams: { back: { url: backend.url, preserveHost: true } },
      routes: [{ path: '/*', upstream: 'back', public: true }]
    },
    env: {
      TLS_CERT_FILE: certFile,
      TLS_KEY_FILE: keyFile,
      PUBLIC_URL: 'https://gw.example',
      ALLOWED_HOSTS: '*',
      LOG_LEVEL: 'error'
    }
  })
  const secureContext = tls.createSecureContext({ ca: authority.ca })
  const options = { port, host: '127.0.0.1', servername: 'localhost', secureContext, ALPNProtocols: ['h2'] }
  return { backend, connect: () => tls.connect(options) }
}
