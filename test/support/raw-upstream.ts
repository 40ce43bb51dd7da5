// Answers as an upstream over TCP or TLS: a test sees the exact bytes that came and chooses the exact bytes of the answer.
import { readFileSync } from 'node:fs'
import net from 'node:net'
import tls from 'node:tls'
import type { Test } from 'tap'
import type { CertificateFiles } from './certificates.ts'
import { createNews } from './news.ts'
import { listen } from './ports.ts'

export interface RawRequest {
  /** Everything up to and including the empty line, Latin-1. */
  readonly head: string
  /** The body as framed, Latin-1; complete when `answer` is asked. */
  readonly body: string
  /** The target of the request line. */
  readonly target: string
  readonly method: string
  /** `[name, value]` in order and spelling of arrival. */
  readonly headers: [string, string][]
  readonly socket: net.Socket
}

/** Bytes to answer with; a function may do anything with the socket; undefined: says nothing. */
export type RawAnswer = string | Buffer | undefined | ((socket: net.Socket) => void)

export type RawUpstream = Awaited<ReturnType<typeof startRawUpstream>>

export const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok'

const parseHeaders = (head: string): [string, string][] =>
  head
    .split('\r\n')
    .slice(1)
    .filter(line => line !== '')
    .map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trim()])

/** The length of a complete body at the start of `rest`, or undefined while it is incomplete. */
const bodyLength = (headers: [string, string][], rest: string): number | undefined => {
  const get = (name: string) => headers.find(([key]) => key.toLowerCase() === name)?.[1]
  if (get('transfer-encoding') !== undefined) {
    const end = /(?:^|\r\n)0\r\n\r\n/.exec(rest)
    return end === null ? undefined : end.index + end[0].length
  }
  const length = Number(get('content-length') ?? 0)
  return rest.length >= length ? length : undefined
}

/** @param certificate of a TLS server */
export const startRawUpstream = async (t: Pick<Test, 'teardown'>, certificate?: CertificateFiles) => {
  /** Complete requests in order of arrival. */
  const requests: RawRequest[] = []
  const sockets = new Set<net.Socket>()
  const news = createNews()
  let all = ''
  let accepted = 0
  let answer: (request: RawRequest) => RawAnswer = () => OK

  const onRequest = (request: RawRequest) => {
    requests.push(request)
    news.tell()
    const bytes = answer(request)
    if (typeof bytes === 'function') bytes(request.socket)
    else if (bytes !== undefined) request.socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
  }

  const onConnection = (socket: net.Socket) => {
    accepted++
    sockets.add(socket)
    let pending = ''
    socket.on('data', chunk => {
      const text = chunk.toString('latin1')
      all += text
      pending += text
      for (;;) {
        const end = pending.indexOf('\r\n\r\n')
        if (end === -1) return
        const head = pending.slice(0, end + 4)
        const headers = parseHeaders(head)
        const length = bodyLength(headers, pending.slice(end + 4))
        if (length === undefined) return
        const [method = '', target = ''] = head.split(' ', 2)
        const body = pending.slice(end + 4, end + 4 + length)
        pending = pending.slice(end + 4 + length)
        onRequest({ head, body, target, method, headers, socket })
      }
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => sockets.delete(socket))
  }
  const server =
    certificate === undefined
      ? net.createServer(onConnection)
      : tls.createServer(
          { key: readFileSync(certificate.keyFile), cert: readFileSync(certificate.certFile) },
          onConnection
        )
  const port = await listen(t, server)
  const close = async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  }
  return {
    url: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    port,
    requests,
    /** All bytes ever received, Latin-1. */
    received: () => all,
    /** Sockets open now. */
    open: () => sockets.size,
    /** Connections ever accepted. */
    accepted: () => accepted,
    respond(next: (request: RawRequest) => RawAnswer) {
      answer = next
    },
    /** Resolves with the n-th (from 1) complete request. */
    request: (n = 1): Promise<RawRequest> =>
      news.until(
        () => requests[n - 1],
        () => `request ${n}`
      ),
    /** Ends its connections; nothing listens there any more. */
    close
  }
}
