// A client that sends its whole body before it reads gets the answer that was given early, although writing the rest of the body
// to the backend fails.
// RV-11, RV-99, RV-120
import { once } from 'node:events'
import net from 'node:net'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import type { HttpRequest } from '../../gateway/http/request.ts'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startListener } from '../support/http-listener.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { connectRaw } from '../support/raw-client.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const MEGABYTE = 1024 * 1024

/** Sends a request whole, as Python's http.client does, and only then reads everything until the end of the connection. */
const sendThenRead = async (port: number, head: string, bodyBytes: number): Promise<string> => {
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  await once(socket, 'connect')
  socket.pause()
  socket.write(`${head}Host: gw\r\nContent-Length: ${bodyBytes}\r\n\r\n`)
  const piece = Buffer.alloc(64 * 1024, 'x')
  for (let left = bodyBytes; left > 0; left -= piece.length)
    if (!socket.write(piece.subarray(0, left))) await once(socket, 'drain')
  let text = ''
  socket.on('data', bytes => {
    text += bytes.toString('latin1')
  })
  socket.resume()
  await once(socket, 'end')
  socket.end()
  return text
}

t.test('a refusal is read after 8 MB that nobody wanted', async t => {
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: routesTo(upstream.url, [{ path: '/private' }, { path: '/small', public: true, maxBody: '1MB' }])
  })
  t.match(await sendThenRead(world.port, 'POST /private HTTP/1.1\r\n', 8 * MEGABYTE), /^HTTP\/1\.1 401 /)
  t.match(await sendThenRead(world.port, 'POST /small HTTP/1.1\r\n', 8 * MEGABYTE), /^HTTP\/1\.1 413 /)
  t.equal(upstream.requests.length, 0)
})

// Each to a backend of its own, which answers the first request of a connection alone.
for (const megabytes of [3, 30])
  t.test(`an early answer of a backend is read whole after the upload of ${megabytes} MB`, async t => {
    const body = 'a'.repeat(MEGABYTE)
    const backend = net.createServer(socket => {
      socket.on('error', () => undefined)
      socket.once('data', () => {
        socket.pause()
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
      })
    })
    const port = await listen(t, backend)
    const world = await startGateway(t, {
      config: routesTo(`http://127.0.0.1:${port}`, [{ path: '/*', public: true }])
    })
    const text = await sendThenRead(world.port, 'POST /x HTTP/1.1\r\n', megabytes * MEGABYTE)
    t.match(text, /^HTTP\/1\.1 200 OK/)
    t.equal(text.slice(text.indexOf('\r\n\r\n') + 4).length, body.length)
  })

const DRAIN_MS = 60_000
const begun = { status: 200, headers: [] }

/** How long a drain takes that begins while a request is answered, on a connection that its client leaves open. */
const drainDuring = async (
  test: Test,
  { before, after }: { before: (request: HttpRequest) => void; after: (request: HttpRequest) => void }
) => {
  const arrived = Promise.withResolvers<HttpRequest>()
  const { port, server } = await startListener(test, request => {
    before(request)
    arrived.resolve(request)
  })
  const client = await connectRaw(port)
  test.teardown(() => client.destroy())
  client.send('GET / HTTP/1.1\r\nHost: gw\r\n\r\n')
  const request = await arrived.promise
  const startedAt = performance.now()
  const unused = await connectRaw(port)
  const drained = server.drain(DRAIN_MS)
  // By now, unused connections have been closed.
  await unused.closed()
  after(request)
  const response = await client.response()
  await drained
  return { response, drainMs: performance.now() - startedAt }
}

t.test('a drain waits a second for a client that was told that its connection closes', async t => {
  const { response, drainMs } = await drainDuring(t, {
    before: () => undefined,
    after: ({ response }) => response.whole({ status: 200, headers: ['content-length', '2'] }, 'ok')
  })
  t.match(response, { status: 200, headers: { connection: 'close' } })
  t.ok(drainMs < DRAIN_MS / 2, `${drainMs} ms`)
})

t.test('a drain closes the connection of a response that ends in the meantime', async t => {
  const { response, drainMs } = await drainDuring(t, {
    before: ({ response }) => response.begin(begun, -1),
    after: ({ response }) => response.end()
  })
  t.match(response, { status: 200, headers: { connection: 'keep-alive' }, complete: true })
  t.ok(drainMs < DRAIN_MS / 2, `${drainMs} ms`)
})

const CLIENTS = 40
const PIECE = Buffer.alloc(65_536, 'u')
const PIECES = 320

const authority = createCertificateAuthority(t.testdir({}))
const certificate = authority.issue('backend')
const options = pemOf(certificate)
const postgres = await startPostgres(t)

/** Reads a part of an upload, answers, and closes with the rest unread, which resets the connection. */
const startHasty = async (t: Test, isTls: boolean): Promise<string> => {
  const onConnection = (socket: net.Socket) => {
    let got = 0
    socket.on('error', () => socket.destroy())
    socket.on('data', bytes => {
      got += bytes.length
      if (got < 200_000) return
      socket.pause()
      const head = `HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\n`
      socket.write(`${head}too large`, () => socket.destroy())
    })
  }
  const server = isTls ? tls.createServer(options, onConnection) : net.createServer(onConnection)
  return `${isTls ? 'https' : 'http'}://127.0.0.1:${await listen(t, server)}`
}

/** Resolves with the response, as far as it came. */
const upload = (port: number): Promise<string> =>
  new Promise(resolve => {
    const socket = net.connect(port, '127.0.0.1')
    let received = ''
    let sent = 0
    const send = () => {
      while (sent < PIECES && !socket.destroyed) {
        sent++
        if (!socket.write(PIECE)) return
      }
    }
    socket.write(`POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: ${PIECES * PIECE.length}\r\n\r\n`)
    send()
    socket.on('drain', send)
    socket.on('data', bytes => {
      received += bytes.toString('latin1')
      if (received.endsWith('too large')) socket.destroy()
    })
    socket.on('error', () => socket.destroy())
    socket.on('close', () => resolve(received))
  })

for (const isTls of [false, true])
  t.test(`every client gets the early refusal of an upload, ${isTls ? 'over TLS' : 'in plain text'}`, async t => {
    // RV-07, SM-25
    const b = { url: await startHasty(t, isTls), connectTimeout: '30s', ...(isTls ? { caFile: authority.caFile } : {}) }
    const world = await startGateway(t, {
      postgres,
      config: routesTo(b, [{ path: '/x', public: true }])
    })
    const answers = await Promise.all(Array.from({ length: CLIENTS }, () => upload(world.port)))
    t.same(
      answers.filter(answer => !/^HTTP\/1\.1 413 [\s\S]*too large$/.test(answer)).map(answer => answer.slice(0, 40)),
      []
    )
  })
