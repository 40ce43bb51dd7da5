// Sends bytes through TLS records of random sizes to a connection of the gateway, and tells what it made of them.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import type { Target, Upstream } from '../../../gateway/routes/upstream.ts'
import { UpstreamConnection } from '../../../gateway/upstream/connection.ts'
import type { ResponseHead } from '../../../gateway/upstream/parser.ts'
import { createCertificateAuthority } from '../../../test/support/certificates.ts'
import { targetAt, upstreamAt } from '../../../test/support/routes.ts'
import type { Random } from '../mutate.ts'

export interface ReadOverTls {
  readonly head: ResponseHead | undefined
  readonly body: string
  readonly trailers: readonly string[]
  readonly isComplete: boolean
}

const RECORD_BYTES = { least: 512, most: 16_384 }

interface Sending {
  readonly bytes: Buffer
  readonly random: Random
}

const send = async (socket: TLSSocket, { bytes, random }: Sending) => {
  socket.setMaxSendFragment(RECORD_BYTES.least + random.below(RECORD_BYTES.most - RECORD_BYTES.least + 1))
  for (let at = 0; at < bytes.length; ) {
    const length = random.below(3) === 0 ? 1 + random.below(4) : 1 + random.below(20_000)
    socket.write(bytes.subarray(at, at + length))
    at += length
    if (random.below(4) === 0) await new Promise(resolve => setImmediate(resolve))
  }
  socket.end()
}

const start = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'portaria-fuzz-'))
  const authority = createCertificateAuthority(folder)
  const { keyFile, certFile } = authority.issue('backend')
  const certificate = { key: readFileSync(keyFile, 'utf8'), cert: readFileSync(certFile, 'utf8') }
  rmSync(folder, { recursive: true })
  const state: { sending: Sending | undefined } = { sending: undefined }
  const server = createServer(certificate, socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      if (state.sending !== undefined) void send(socket, state.sending)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const { port } = server.address() as AddressInfo
  const upstream: Upstream = { ...upstreamAt(port), ca: authority.ca, serverName: 'localhost' }
  const target: Target = { ...targetAt(port), tls: true, url: `https://127.0.0.1:${port}` }
  return { state, upstream, target }
}

let started: ReturnType<typeof start> | undefined

/** One request, whose response these bytes are; the server then closes. */
export const readOverTls = async (bytes: Buffer, method: string, random: Random): Promise<ReadOverTls> => {
  started ??= start()
  const { state, upstream, target } = await started
  state.sending = { bytes, random }
  return new Promise((resolve, reject) => {
    let head: ResponseHead | undefined
    let body = ''
    const settle = (isComplete: boolean, trailers: readonly string[] = []) => {
      resolve({ head, body, trailers, isComplete })
      connection.destroy()
    }
    const connection = new UpstreamConnection(upstream, target, {
      now: () => performance.now(),
      onFree: free => free.destroy(),
      onClosed: () => undefined
    })
    const requester = {
      onInterim: () => undefined,
      onThrown: reject,
      onHead(received: ResponseHead, whole: string | undefined) {
        head = received
        body = whole ?? ''
      },
      onBody(chunk: Buffer) {
        body += chunk.toString('latin1')
      },
      onEnd: (trailers: readonly string[]) => settle(true, trailers),
      onFault: () => settle(false),
      onDrain: () => undefined
    }
    connection.send(method, `${method} / HTTP/1.1\r\nhost: x\r\n\r\n`, requester, 60_000)
    connection.finish()
  })
}
