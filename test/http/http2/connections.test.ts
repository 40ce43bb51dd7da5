// One HTTP/2 connection holds no more than others, ends only what is meant, and a flood on it harms nobody else.
import { once } from 'node:events'
import type { ClientHttp2Session } from 'node:http2'
import net, { type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { heldBodyBytes } from '../../../gateway/http/body-buffer.ts'
import { allowedIn, FrameCounter } from '../../../gateway/http/http2/frame-counter.ts'
import { MeteredSocket } from '../../../gateway/http/http2/metered-socket.ts'
import type { HttpRequest } from '../../../gateway/http/request.ts'
import type { HttpServer } from '../../../gateway/http/server.ts'
import { shiftClocks } from '../../support/clocks.ts'
import { collectGarbage } from '../../support/garbage.ts'
import { startTlsServer } from '../../support/http-listener.ts'
import {
  askHttp2,
  connectFrames,
  connectHttp2,
  FRAMES,
  frame,
  literal,
  startHttp2World
} from '../../support/http2-client.ts'
import { listen } from '../../support/ports.ts'
import { OK } from '../../support/raw-upstream.ts'
import { until } from '../../support/until.ts'

const PROTOCOL_ERROR = 1
const INTERNAL_ERROR = 2
const REFUSED_STREAM = 7
const ENHANCE_YOUR_CALM = 11
const END_STREAM = 1
const END_HEADERS = 4
const REST = [literal(':path', '/open/x'), literal(':scheme', 'https'), literal(':authority', 'gw.example')]
const HEAD = Buffer.concat([literal(':method', 'GET'), ...REST])
const POST = Buffer.concat([literal(':method', 'POST'), ...REST])
const REQUEST_HEAD = Buffer.concat([literal(':method', 'HEAD'), ...REST])

const CANCEL = 8

for (const code of [0, CANCEL])
  t.test(`a client that resets a stream ends its request at the backend, and no other: code ${code}`, async t => {
    const { place, upstream } = await startHttp2World(t)
    const session = await connectHttp2(t, place)
    const sockets: Socket[] = []
    upstream.respond(({ socket, target }) => {
      if (target === '/open/slow') sockets.push(socket)
      return target === '/open/slow' ? undefined : 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
    })
    const streams = [0, 1].map(() => session.request({ ':path': '/open/slow' }))
    for (const stream of streams) stream.on('error', () => undefined)
    await until(() => sockets.length === 2)
    const ends = sockets.map(socket => once(socket, 'close').then(() => socket))
    streams[0]?.close(code)
    const first = await Promise.race(ends)
    t.equal(sockets.filter(socket => socket.destroyed).length, 1)
    sockets.find(socket => socket !== first)?.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    const [headers] = await once(streams[1] ?? session, 'response')
    t.equal(headers[':status'], 200)
    t.match(await askHttp2(session, { ':path': '/open/x' }), { status: 200, body: 'ok' })
  })

t.test('a response that breaks off is reset, one that comes before the end of a body is complete', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  upstream.respond(() => socket => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf')
    setImmediate(() => socket.destroy())
  })
  const broken = await askHttp2(session, { ':path': '/open/x' })
  t.equal(broken.body, 'half')
  t.not(broken.code, 0)
  const stream = session.request({ ':method': 'POST', ':path': '/private' })
  stream.on('error', () => undefined)
  stream.write('the beginning')
  const [headers] = await once(stream, 'response')
  t.equal(headers[':status'], 401)
  stream.resume()
  await once(stream, 'close')
  t.equal(stream.rstCode, 0, 'NO_ERROR: the rest of the body is not wanted')
})

t.test('a stream that lacks only its end is answered, and reset if its client keeps the end back', async t => {
  const { place, upstream } = await startHttp2World(t)
  upstream.respond(() => OK)
  // Beside each other: a reset takes seconds.
  const ask = async (body: string) => {
    const { socket, frames } = await connectFrames(t, place)
    const head = Buffer.concat([POST, literal('content-length', String(body.length))])
    const streams = [1, 3]
    for (const stream of streams) {
      socket.write(frame(FRAMES.headers, END_HEADERS, stream, head))
      if (body !== '') socket.write(frame(FRAMES.data, 0, stream, Buffer.from(body)))
    }
    const isAnswered = (id: number) => frames.some(({ stream, flags }) => stream === id && (flags & END_STREAM) !== 0)
    const resets = () => frames.filter(({ type }) => type === FRAMES.resetStream).map(({ stream }) => stream)
    await until(() => streams.every(isAnswered))
    t.same(resets(), [])
    socket.write(frame(FRAMES.data, END_STREAM, 1))
    await until(() => resets().length > 0)
    t.same(resets(), [3])
  }
  const bodies = ['hello', '']
  await Promise.all(bodies.map(ask))
  for (const body of bodies) t.equal(upstream.requests.filter(request => request.body === body).length, 2)
})

const startUpload = (head: Buffer) =>
  Buffer.concat([frame(FRAMES.headers, END_HEADERS, 1, head), frame(FRAMES.data, 0, 1, Buffer.alloc(9))])
const GET = frame(FRAMES.headers, END_HEADERS | END_STREAM, 1, HEAD)
const endEarly =
  (trailers: string) =>
  ({ response }: HttpRequest) => {
    response.begin({ status: 200 }, -1)
    response.write(Buffer.from('early'))
    response.end(trailers)
  }
const refuse = ({ response }: HttpRequest) => response.whole({ status: 401, headers: ['content-length', '2'] }, 'no')
const breakOff =
  (length: number) =>
  ({ response }: HttpRequest) => {
    response.begin({ status: 200, ...(length < 0 ? {} : { headers: ['content-length', String(length)] }) }, length)
    response.write(Buffer.from('early'))
    setImmediate(() => response.abort())
  }

/** What a server does with a request, and the frames of its stream; `.`: with END_STREAM. */
const ENDS: Readonly<Record<string, readonly [sent: Buffer, onRequest: (request: HttpRequest) => void, ends: RegExp]>> =
  {
    'a response in pieces, before the end of a body, is complete': [startUpload(POST), endEarly(''), /data\. reset 0$/],
    'the same with trailers': [startUpload(POST), endEarly('x-sum: 1\r\n'), /headers\. reset 0$/],
    'the body of a HEAD is not wanted': [startUpload(REQUEST_HEAD), refuse, /^headers\. reset 0$/],
    'the same after a later response': [
      startUpload(REQUEST_HEAD),
      one => setImmediate(refuse, one),
      /^headers\. reset 0$/
    ],
    'a response with a length that breaks off never ends': [GET, breakOff(10), /^headers data reset [1-9]/],
    'the same in pieces': [GET, breakOff(-1), /^headers data reset [1-9]/]
  }

for (const [what, [sent, onRequest, ends]] of Object.entries(ENDS))
  t.test(`before a stream is reset, its response is complete, or never ended: ${what}`, async t => {
    const { place } = await startTlsServer(t, onRequest)
    const { socket, frames } = await connectFrames(t, place)
    socket.write(sent)
    await until(() => frames.some(({ type }) => type === FRAMES.resetStream), 'the stream is released', 10_000)
    const shown = frames.flatMap(({ type, flags, stream, payload }) => {
      if (stream !== 1) return []
      if (type === FRAMES.resetStream) return `reset ${payload.readUInt32BE(0)}`
      return `${type === FRAMES.data ? 'data' : 'headers'}${(flags & END_STREAM) === 0 ? '' : '.'}`
    })
    t.match(shown.join(' '), ends)
  })

const UNKNOWN_FRAMES = Buffer.alloc(9 * 200, frame(200, 0, 0))

/** What cuts the responses of a connection before they are complete. */
const CUTS: Readonly<Record<string, (server: HttpServer, client: Socket) => unknown>> = {
  'the server is closed': server => server.close(),
  'a drain has waited for long enough': server => server.drain(0),
  'their client sends a flood': (_server, client) => client.write(UNKNOWN_FRAMES)
}

for (const [what, cut] of Object.entries(CUTS))
  t.test(`responses of unknown length that are cut do not look complete: ${what}`, async t => {
    const { server, place } = await startTlsServer(t, ({ response }) => {
      response.begin({ status: 200 }, -1)
      response.write(Buffer.from('half'))
    })
    const { socket, frames, closed } = await connectFrames(t, place)
    for (const stream of [1, 3, 5]) socket.write(frame(FRAMES.headers, END_STREAM | END_HEADERS, stream, HEAD))
    await until(() => frames.filter(({ type }) => type === FRAMES.data).length === 3)
    cut(server, socket)
    await closed
    const codes = frames.filter(({ type }) => type === FRAMES.resetStream).map(({ payload }) => payload.readUInt32BE(0))
    t.ok(codes.length > 0)
    t.ok(
      codes.every(code => code === INTERNAL_ERROR),
      `RST_STREAM ${codes}`
    )
    t.notOk(frames.some(({ stream, flags }) => stream > 0 && (flags & END_STREAM) !== 0))
  })

t.test('large bodies arrive whole both ways, beside a stream whose client reads nothing', async t => {
  const { world, place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  const bytes = Buffer.alloc(2_000_000, 'abcdefghij')
  upstream.respond(({ method, body }) => {
    const down = `HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`
    if (method === 'GET') return Buffer.concat([Buffer.from(down), bytes])
    return `HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n${String(body.length).padStart(7, '0')}`
  })
  const unread = session.request({ ':path': '/open/unread' })
  unread.on('error', () => undefined)
  await once(unread, 'response')
  const down = await askHttp2(session, { ':path': '/open/down' })
  t.ok(down.body === bytes.toString(), 'all bytes came down')
  const up = await askHttp2(session, { ':path': '/open/up', ':method': 'PUT', 'content-length': bytes.length }, [bytes])
  t.equal(up.body, '2000000')
  unread.close(8)
  t.match(await world.logged(({ path }) => path === '/open/unread'), { status: 200, reason: 'client-gone' })
})

t.test('a large response that its client has not taken yet holds up no other request of its connection', async t => {
  const onRequest = ({ target, response }: HttpRequest) => {
    const body = target === '/large' ? 'x'.repeat(12_000_000) : 'ok'
    response.whole({ status: 200, headers: ['content-length', String(body.length)] }, body)
  }
  const { place } = await startTlsServer(t, onRequest)
  const session = await connectHttp2(t, place)
  const large = session.request({ ':path': '/large' })
  await once(large, 'response')
  t.match(await askHttp2(session, { ':path': '/small' }), { status: 200, body: 'ok', code: 0 })
  let length = 0
  for await (const bytes of large) length += bytes.length
  t.equal(length, 12_000_000)
})

t.test('a response in tiny pieces is held up while many of them wait for its client', async t => {
  let [written, rounds] = [0, 0]
  const { place } = await startTlsServer(t, ({ response }) => {
    const write = () => {
      for (let isTaken = true; isTaken && written < 60_000; written++) isTaken = response.write(Buffer.from('x'))
    }
    const onTaken = () => {
      if (++rounds < 3) write()
      else response.end()
    }
    response.taker = { onTaken }
    response.begin({ status: 200 }, -1)
    write()
  })
  const session = await connectHttp2(t, place, { settings: { initialWindowSize: 0 } })
  const stream = session.request({ ':path': '/x' })
  await once(stream, 'response')
  t.ok(written < 1000, `${written} pieces`)
  session.settings({ initialWindowSize: 65_535 })
  let length = 0
  for await (const bytes of stream) length += bytes.length
  t.equal(length, written)
  t.ok(written < 3000, `${written} pieces`)
})

t.test('requests of one client, one after the other, use one connection to the backend', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  for (let n = 0; n < 20; n++) t.equal((await askHttp2(session, { ':path': '/open/x' })).status, 200)
  t.equal(upstream.accepted(), 1)
})

t.test('of bodies that nobody takes, a connection can make the gateway hold about a megabyte', async t => {
  const { place, upstream } = await startHttp2World(t)
  // The backend takes no bodies.
  upstream.respond(() => undefined)
  const { socket } = await connectFrames(t, place)
  const piece = Buffer.alloc(16_000)
  const before = process.memoryUsage().rss
  let written = 0
  for (let stream = 1; stream < 200; stream += 2) {
    socket.write(frame(FRAMES.headers, 0x4, stream, POST))
    for (let n = 0; n < 4; n++) socket.write(frame(FRAMES.data, 0, stream, piece), () => (written += piece.length))
  }
  await until(() => written > 1_000_000)
  t.ok(process.memoryUsage().rss - before < 60_000_000)
  t.match(await askHttp2(await connectHttp2(t, place), { ':path': '/health' }), { status: 200 })
})

t.test('bodies in tiny pieces that nobody takes hold no more memory, and all of them arrive', async t => {
  const requests: HttpRequest[] = []
  const { place } = await startTlsServer(t, request => void requests.push(request))
  const { socket } = await connectFrames(t, place)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let stream = 1; stream <= 33; stream += 2) {
    socket.write(frame(FRAMES.headers, END_HEADERS, stream, POST))
    const byte = frame(FRAMES.data, 0, stream, Buffer.from('x'))
    for (let n = 0; n < 60; n++) socket.write(Buffer.alloc(1000 * byte.length, byte))
  }
  let [left, unchanged] = [0, 0]
  await until(() => {
    unchanged = socket.writableLength === left ? unchanged + 1 : 0
    left = socket.writableLength
    return unchanged > 20
  })
  collectGarbage()
  t.ok(process.memoryUsage().heapUsed - before < 30_000_000)
  let taken = 0
  const onUpload = (chunk: Buffer) => {
    taken += chunk.length
  }
  await until(() => {
    for (const request of requests.splice(0)) request.read({ onUpload, onUploadEnd: () => undefined })
    return taken === 17 * 60_000
  })
})

t.test('bodies that arrive byte by byte hold as much memory as any others of their size', async t => {
  const { place } = await startHttp2World(t)
  const { socket, frames } = await connectFrames(t, place)
  const login = Buffer.concat([literal(':method', 'POST'), literal(':path', '/auth/login'), ...REST.slice(1)])
  const type = literal('content-type', 'application/json')
  const streams = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (const stream of streams) {
    const byte = frame(FRAMES.data, 0, stream, Buffer.from('x'))
    socket.write(frame(FRAMES.headers, END_HEADERS, stream, Buffer.concat([login, type])))
    socket.write(Buffer.alloc(60_000 * byte.length, byte))
  }
  await until(() => heldBodyBytes() >= streams.length * 60_000)
  t.ok(heldBodyBytes() <= streams.length * 65_536, `${heldBodyBytes()} bytes`)
  collectGarbage()
  t.ok(process.memoryUsage().heapUsed - before < 30_000_000)
  for (const stream of streams) socket.write(frame(FRAMES.data, END_STREAM, stream))
  await until(() => streams.every(id => frames.some(({ stream, type }) => stream === id && type === FRAMES.headers)))
  t.equal(heldBodyBytes(), 0)
})

t.test('a piece of a body that waits does not keep what was read with it of other bodies', async t => {
  let [asked, taken] = [0, 0]
  const onUpload = (chunk: Buffer) => {
    taken += chunk.length
  }
  const { place } = await startTlsServer(t, request => {
    if (asked++ > 0) request.read({ onUpload, onUploadEnd: () => undefined })
  })
  const { socket } = await connectFrames(t, place)
  const others = [3, 5, 7, 9, 11, 13, 15, 17]
  for (const stream of [1, ...others]) socket.write(frame(FRAMES.headers, END_HEADERS, stream, POST))
  const before = process.memoryUsage().arrayBuffers
  for (let n = 0; n < 250; n++)
    for (const stream of others) {
      socket.write(frame(FRAMES.data, 0, 1, Buffer.from('x')))
      socket.write(frame(FRAMES.data, 0, stream, Buffer.alloc(16_000)))
    }
  await until(() => taken === 250 * others.length * 16_000)
  await until(() => {
    collectGarbage()
    return process.memoryUsage().arrayBuffers - before < 10_000_000
  })
})

t.test('bulky reads of many connections wait for their turn', async t => {
  const requests: HttpRequest[] = []
  const { place } = await startTlsServer(t, request => void requests.push(request))
  const clients = await Promise.all(Array.from({ length: 20 }, () => connectFrames(t, place)))
  for (const { socket } of clients) socket.write(frame(FRAMES.headers, END_HEADERS, 1, POST))
  await until(() => requests.length === clients.length)
  let [taken, takenInTurn, most] = [0, 0, 0]
  const onUpload = (chunk: Buffer) => {
    taken += chunk.length
    takenInTurn++
    // One that is costly.
    for (const end = performance.now() + 2.5; performance.now() < end; );
  }
  for (const request of requests) request.read({ onUpload, onUploadEnd: () => undefined })
  for (const { socket } of clients)
    for (let n = 0; n < 4; n++) socket.write(frame(FRAMES.data, 0, 1, Buffer.alloc(14_000)))
  while (taken < clients.length * 4 * 14_000) {
    await new Promise(resolve => setImmediate(resolve))
    most = Math.max(most, takenInTurn)
    takenInTurn = 0
  }
  // One at once, and one that waited, each of up to 64 KB.
  t.ok(most <= 12, `${most} pieces of bodies in one turn`)
})

/** Refuses each request at once, and counts how many of them came in one turn of the event loop. */
const startRefusing = async (t: Test) => {
  let [asked, askedInTurn] = [0, 0]
  const { place } = await startTlsServer(t, ({ response }) => {
    asked++
    askedInTurn++
    response.whole({ status: 429, headers: ['content-length', '0'] }, '')
  })
  const mostInTurn = async (count: number): Promise<number> => {
    let most = 0
    while (asked < count) {
      await new Promise(resolve => setImmediate(resolve))
      most = Math.max(most, askedInTurn)
      askedInTurn = 0
    }
    return most
  }
  return { place, mostInTurn }
}

t.test('small reads of many connections, each with dozens of requests, wait for their turn', async t => {
  const { place, mostInTurn } = await startRefusing(t)
  const clients = await Promise.all(Array.from({ length: 50 }, () => connectFrames(t, place)))
  await until(() => clients.every(({ frames }) => frames.length > 0))
  const heads = Array.from({ length: 36 }, (_, i) => frame(FRAMES.headers, END_HEADERS | END_STREAM, 2 * i + 1, HEAD))
  for (const { socket } of clients) socket.write(Buffer.concat(heads))
  const count = clients.length * heads.length
  const most = await mostInTurn(count)
  t.ok(most < count / 2, `${most} of ${count} requests in one turn`)
})

/** GET / of a host in 15 bytes, so that two of them are in a record of 30 (RFC 7541, appendix A). */
const TINY_HEAD = Buffer.from([0x82, 0x84, 0x87, 0x01, 0x01, 0x61])

/** Sends each of these in a TLS record of its own, all of them at once. */
const connectRecords = async (t: Test, { port, ca }: { port: number; ca: string }, pieces: readonly Buffer[]) => {
  const raw = net.connect(port, '127.0.0.1')
  t.teardown(() => raw.destroy())
  const records: Buffer[] = []
  let isGathering = false
  const between = new Duplex({
    read: () => undefined,
    write(bytes: Buffer, _encoding, done) {
      if (isGathering) records.push(bytes)
      else raw.write(bytes)
      done()
    }
  })
  raw.on('data', bytes => between.push(bytes))
  const socket = tls.connect({ socket: between, servername: 'localhost', ca, ALPNProtocols: ['h2'] })
  socket.on('error', () => undefined).resume()
  await once(socket, 'secureConnect')
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(FRAMES.settings, 0, 0)]))
  await once(socket, 'data')
  isGathering = true
  for (const piece of pieces) await new Promise(resolve => socket.write(piece, resolve))
  return () => raw.write(Buffer.concat(records))
}

t.test('requests of many connections, in TLS records of two each, wait for their turn', async t => {
  const { place, mostInTurn } = await startRefusing(t)
  const head = (stream: number) => frame(FRAMES.headers, END_HEADERS | END_STREAM, stream, TINY_HEAD)
  const pairs = Array.from({ length: 18 }, (_, i) => Buffer.concat([head(4 * i + 1), head(4 * i + 3)]))
  const sends = await Promise.all(Array.from({ length: 50 }, () => connectRecords(t, place, pairs)))
  for (const send of sends) send()
  const count = sends.length * pairs.length * 2
  const most = await mostInTurn(count)
  t.ok(most < count / 2, `${most} of ${count} requests in one turn`)
})

/** Puts a field into the table once, then sends references to it (RFC 7541 §6.1, §6.2.1). */
const growingHead = (n: number, field: Buffer, references: number): Buffer => {
  const added = [Buffer.from([0x40]), field.subarray(1)]
  const more = n === 0 ? added : [Buffer.alloc(references, 0xbe)]
  return frame(FRAMES.headers, 0x5, 2 * n + 1, Buffer.concat([HEAD, ...more]))
}

const LARGE_COOKIE = literal('cookie', `a=${'y'.repeat(100)}`)

const FLOODS: Record<string, (n: number) => Buffer> = {
  'streams that are reset at once': n =>
    Buffer.concat([
      frame(FRAMES.headers, 0x5, 2 * n + 1, HEAD),
      frame(FRAMES.resetStream, 0, 2 * n + 1, Buffer.alloc(4, 0))
    ]),
  'streams that make the server reset them': n =>
    Buffer.concat([
      frame(FRAMES.headers, 0x4, 2 * n + 1, HEAD),
      frame(FRAMES.windowUpdate, 0, 2 * n + 1, Buffer.alloc(4))
    ]),
  'heads without an end': n =>
    frame(n === 0 ? FRAMES.headers : FRAMES.continuation, 0, 1, n === 0 ? HEAD : Buffer.alloc(0)),
  'malformed heads': n => frame(FRAMES.headers, 0x5, 2 * n + 1, literal('Upper', 'x')),
  'empty DATA': n => (n === 0 ? frame(FRAMES.headers, 0x4, 1, POST) : frame(FRAMES.data, 0, 1)),
  PING: () => frame(FRAMES.ping, 0, 0, Buffer.alloc(8)),
  SETTINGS: () => frame(FRAMES.settings, 0, 0),
  PRIORITY: n => frame(FRAMES.priority, 0, 2 * n + 1, Buffer.from([0, 0, 0, 0, 1])),
  PRIORITY_UPDATE: () => frame(FRAMES.priorityUpdate, 0, 0, Buffer.from('\0\0\0\x01u=5')),
  'frames of no known type': () => frame(200, 0, 0, Buffer.alloc(1)),
  'a head that grows in the table': n => growingHead(n, literal('x', 'y'.repeat(3900)), 8000),
  // 20 KB each once they are read.
  'heads that are refused': n => growingHead(n, LARGE_COOKIE, 200)
}

t.test('a flood ends its own connection, which is told so', async t => {
  const { place, upstream } = await startHttp2World(t)
  upstream.respond(() => undefined)
  const bystander = await connectHttp2(t, place)
  // Beside each other: after its end, a connection is kept for a while for what its client still sends.
  const send = async ([name, flood]: readonly [string, (n: number) => Buffer]) => {
    const { socket, frames, closed } = await connectFrames(t, place)
    for (let n = 0; n < 20_000 && !socket.destroyed; n++) {
      if (!socket.write(flood(n))) await Promise.race([new Promise(resolve => socket.once('drain', resolve)), closed])
      if (frames.some(({ type }) => type === FRAMES.goaway)) break
    }
    await closed
    const goaway = frames.find(({ type }) => type === FRAMES.goaway)
    t.ok(goaway, `GOAWAY: ${name}`)
    t.ok([PROTOCOL_ERROR, ENHANCE_YOUR_CALM].includes(goaway?.payload.readUInt32BE(4) ?? -1), name)
    t.match(await askHttp2(bystander, { ':path': '/health' }), { status: 200 }, name)
  }
  await Promise.all(Object.entries(FLOODS).map(send))
})

t.test('a client that resets 200 streams in each second keeps its connection', async t => {
  const clocks = shiftClocks(t)
  const { place } = await startTlsServer(t, () => undefined)
  const { socket, frames } = await connectFrames(t, place)
  const seconds = 8
  for (let second = 0; second < seconds; second++) {
    for (let n = 0; n < 200; n++) {
      const stream = 2 * (200 * second + n) + 1
      socket.write(frame(FRAMES.headers, END_STREAM | END_HEADERS, stream, TINY_HEAD))
      socket.write(frame(FRAMES.resetStream, 0, stream, Buffer.alloc(4)))
    }
    socket.write(frame(FRAMES.ping, 0, 0, Buffer.alloc(8)))
    const pings = () => frames.filter(({ type }) => type === FRAMES.ping).length
    await until(() => pings() > second || frames.some(({ type }) => type === FRAMES.goaway))
    clocks.monotonicMs += 1000
  }
  t.notOk(frames.some(({ type }) => type === FRAMES.goaway))
})

t.test('a page of many parts whose cookies are too large gets refusals, and keeps its connection', async t => {
  const { place, upstream } = await startHttp2World(t)
  upstream.respond(() => OK)
  const { socket, frames } = await connectFrames(t, place)
  const streams = Array.from({ length: 90 }, (_, n) => 2 * n + 1)
  for (const n of streams.keys()) socket.write(growingHead(n, LARGE_COOKIE, 200))
  const isAnswered = (id: number) => frames.some(({ stream, flags }) => stream === id && (flags & END_STREAM) !== 0)
  const isEnded = () => frames.some(({ type }) => type === FRAMES.goaway)
  await until(() => streams.every(isAnswered) || isEnded())
  t.notOk(isEnded())
})

t.test('hundreds of responses that their backend breaks off in a second are no flood of their client', async t => {
  const { place } = await startTlsServer(t, ({ target, response }) => {
    if (target === '/whole') return response.whole({ status: 200, headers: ['content-length', '2'] }, 'ok')
    response.begin({ status: 200 }, -1)
    response.write(Buffer.from('early'))
    setImmediate(() => response.abort())
  })
  const session = await connectHttp2(t, place)
  for (let n = 0; n < 4; n++) {
    const broken = await Promise.all(Array.from({ length: 60 }, () => askHttp2(session, { ':path': '/broken' })))
    t.ok(broken.every(({ status, code }) => status === 200 && code !== 0))
  }
  t.match(await askHttp2(session, { ':path': '/whole' }), { status: 200, body: 'ok', code: 0 })
})

t.test('a browser that changes the priorities of a hundred streams a few times is no flood', async t => {
  const payloads = [
    [FRAMES.priority, Buffer.alloc(5)],
    [FRAMES.priorityUpdate, Buffer.from('\0\0\0\x01u=5')]
  ] as const
  for (const [type, payload] of payloads) {
    const counter = new FrameCounter(allowedIn, 0, () => 0)
    const change = frame(type, 0, 0, payload)
    t.notOk(counter.isFlood(Buffer.concat(Array.from({ length: 500 }, () => change))), String(type))
    t.ok(counter.isFlood(change))
  }
})

t.test('a fast download is not taken for a flood by the updates of its windows', async t => {
  const update = frame(FRAMES.windowUpdate, 0, 1, Buffer.from([0, 0, 16, 0]))
  const updates = Buffer.concat(Array.from({ length: 20_000 }, () => update))
  const counter = new FrameCounter(allowedIn, 0, () => 0)
  // Go's clients send two for each 4 KB that they read: 82 MB a second.
  counter.noteSent(20_000 * 4096)
  t.notOk(counter.isFlood(updates))
  t.notOk(counter.isFlood(updates))
  t.notOk(counter.isFlood(updates), 'as many as nothing was sent for')
  t.ok(counter.isFlood(update))
})

t.test('hundreds of refused uploads in a second all get their responses', async t => {
  const onRequest = ({ response }: HttpRequest) =>
    response.whole({ status: 401, headers: ['content-length', '2'] }, 'no')
  const { place } = await startTlsServer(t, onRequest)
  const session = await connectHttp2(t, place)
  const upload = async () => {
    const stream = session.request({ ':method': 'POST', ':path': '/x' })
    stream.on('error', () => undefined)
    stream.write('the beginning')
    const [headers] = await once(stream, 'response')
    stream.resume()
    await once(stream, 'close')
    return headers[':status']
  }
  for (let n = 0; n < 6; n++)
    t.same(
      await Promise.all(Array.from({ length: 90 }, upload)),
      Array.from({ length: 90 }, () => 401)
    )
})

t.test('a refusal over the rate limit is not kept for a client whose window has no room for it', async t => {
  const { place, upstream } = await startHttp2World(t, {
    env: { RATE_LIMIT_MAX: '1', RATE_LIMIT_TTL_MS: '3600000' }
  })
  upstream.respond(() => 'HTTP/1.1 204 No Content\r\n\r\n')
  const session = await connectHttp2(t, place, { settings: { initialWindowSize: 0 } })
  const ask = (method: string, body: string[] = []) =>
    askHttp2(session, { ':method': method, ':path': '/open/x' }, body)
  t.match(await ask('GET'), { status: 204 })
  const from = performance.now()
  const refused = { status: 429, headers: { 'retry-after': /^\d+$/ }, body: '', code: CANCEL }
  t.match(await ask('GET'), refused)
  t.match(await ask('POST', ['x'.repeat(60_000)]), refused)
  t.ok(performance.now() - from < 60_000, 'long before clients that take nothing of a response are cut')
})

t.test('the streams of uploads that their client resets with NO_ERROR are released', async t => {
  let [asked, closed] = [0, 0]
  const onRequest = (request: HttpRequest) => {
    asked++
    request.owner = { onClosed: () => void closed++, onBodyFault: () => undefined, onThrown: () => undefined }
    request.read({ onUpload: () => (asked % 2 === 0 ? request.pause() : undefined), onUploadEnd: () => undefined })
  }
  const { place } = await startTlsServer(t, onRequest)
  const session = await connectHttp2(t, place)
  for (let n = 1; n <= 120; n++) {
    const stream = session.request({ ':method': 'POST', ':path': '/x' })
    stream.on('error', () => undefined)
    stream.write('the beginning')
    await until(() => asked === n)
    stream.close(0)
    await until(() => closed === n)
  }
  t.equal(closed, 120, 'more than may be open at once')
})

t.test('a reset whose reserved bit is set resets the same stream', async t => {
  // RFC 9113 §4.1
  const resets: number[] = []
  const counter = new FrameCounter(allowedIn)
  counter.onReset = stream => {
    resets.push(stream)
    return true
  }
  counter.isFlood(frame(FRAMES.resetStream, 0, 0x80000003, Buffer.alloc(4)))
  t.same(resets, [3])
})

/** Answers each request with more than a client takes unasked, and counts those that are over. */
const startLarge = async (t: Test) => {
  const responses: HttpRequest['response'][] = []
  let closed = 0
  const onRequest = (request: HttpRequest) => {
    request.owner = { onClosed: () => void closed++, onBodyFault: () => undefined, onThrown: () => undefined }
    responses.push(request.response)
    request.response.whole({ status: 200, headers: ['content-length', '300000'] }, 'x'.repeat(300_000))
  }
  const { place } = await startTlsServer(t, onRequest)
  return { place, responses, closed: () => closed }
}

t.test('a response that its client resets with NO_ERROR is released, and counts as cut', async t => {
  const { place, responses, closed } = await startLarge(t)
  const session = await connectHttp2(t, place)
  for (const [n, method] of ['GET', 'POST'].entries()) {
    const stream = session.request({ ':method': method, ':path': '/x' })
    stream.on('error', () => undefined)
    await until(() => responses.length === n + 1)
    stream.close(0)
    await until(() => closed() === n + 1, method, 10_000)
  }
  t.strictSame(
    responses.map(({ isDelivered }) => isDelivered),
    [false, false]
  )
})

t.test('a response whose client leaves before it has taken all of it counts as cut', async t => {
  const { place, responses, closed } = await startLarge(t)
  const { socket, frames } = await connectFrames(t, place)
  socket.write(frame(FRAMES.headers, END_STREAM | END_HEADERS, 1, HEAD))
  await until(
    () => frames.reduce((sum, { type, payload }) => sum + (type === FRAMES.data ? payload.length : 0), 0) > 60_000
  )
  socket.end()
  await until(() => closed() === 1)
  t.equal(responses[0]?.isDelivered, false)
})

t.test('a request that its client resets in the same moment is released and logged, as no fault', async t => {
  const { world, place } = await startHttp2World(t)
  const { socket } = await connectFrames(t, place)
  const [get, post] = ['GET', 'POST'].map(method =>
    Buffer.concat([literal(':method', method), literal(':path', '/private'), ...REST.slice(1)])
  )
  const reset = (stream: number) => frame(FRAMES.resetStream, 0, stream, Buffer.alloc(4))
  socket.write(Buffer.concat([frame(FRAMES.headers, END_STREAM | END_HEADERS, 1, get), reset(1)]))
  for (const [stream, flags] of [
    [3, END_STREAM],
    [5, 0]
  ] as const)
    socket.write(
      Buffer.concat([
        frame(FRAMES.headers, END_HEADERS, stream, post),
        frame(FRAMES.data, flags, stream, Buffer.from('x')),
        reset(stream)
      ])
    )
  await until(() => world.log.filter(({ path }) => path === '/private').length === 3)
  t.same(
    world.log.filter(({ level }) => level >= 50),
    []
  )
})

t.test('a draining gateway lets streams finish and takes no more', async t => {
  const { world, place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  const { promise: arrived, resolve } = Promise.withResolvers<Socket>()
  upstream.respond(({ socket }) => {
    resolve(socket)
    return undefined
  })
  const answer = askHttp2(session, { ':path': '/open/x' })
  const socket = await arrived
  const goaway = once(session, 'goaway')
  const closing = world.gateway.close()
  const [code] = await goaway
  t.equal(code, 0)
  socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  t.match(await answer, { status: 200, body: 'ok' })
  await closing
  t.ok(session.closed)
})

t.test('a connection whose end was sent a while ago is closed at once', async t => {
  const accepted = Promise.withResolvers<Socket>()
  const port = await listen(t, net.createServer({ allowHalfOpen: true }, accepted.resolve))
  const client = net.connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  t.teardown(() => client.destroy())
  const socket = await accepted.promise
  const metered = new MeteredSocket(socket, {
    read: () => undefined,
    onFlood: () => undefined,
    onBytes: () => undefined,
    onEnd: () => undefined,
    onClientReset: () => undefined,
    onReset: () => true
  })
  metered.end('GOAWAY')
  client.resume()
  await once(client, 'end')
  metered.destroy()
  // In less than the second for which one lingers that has just ended.
  await until(() => socket.destroyed, 'it is closed', 900)
})

t.test('an announced end lets clients send late requests again, and new connections serve one each', async t => {
  const waiting: HttpRequest['response'][] = []
  const { server, place } = await startTlsServer(t, ({ target, response }) => {
    if (target === '/open/x') waiting.push(response)
    else response.whole({ status: 200, headers: ['content-length', '2'] }, 'ok')
  })
  const ask = (session: ClientHttp2Session) => askHttp2(session, { ':path': '/' })
  const [used, unused] = [await connectHttp2(t, place), await connectHttp2(t, place)]
  t.equal((await ask(used)).status, 200)
  const { socket, frames, closed } = await connectFrames(t, place)
  const request = (stream: number) => socket.write(frame(FRAMES.headers, END_STREAM | END_HEADERS, stream, HEAD))
  request(1)
  await until(() => waiting.length === 1)
  server.announceEnd()
  request(3)
  t.equal((await ask(used)).code, REFUSED_STREAM, 'not processed (RFC 9113 §8.7)')
  for (const session of [unused, await connectHttp2(t, place)]) {
    const goaway = once(session, 'goaway')
    t.match(await ask(session), { status: 200, body: 'ok', code: 0 })
    t.equal((await goaway)[0], 0)
  }
  waiting[0]?.whole({ status: 200, headers: ['content-length', '4'] }, 'slow')
  await closed
  t.ok(frames.some(({ stream, payload }) => stream === 1 && String(payload) === 'slow'))
  const goaways = frames.filter(({ type }) => type === FRAMES.goaway).map(({ payload }) => payload.readUInt32BE(0))
  t.same([...new Set(goaways)], [1], 'the last that is served (RFC 9113 §6.8)')
  t.equal(waiting.length, 1)
  await until(() => server.count() === 0)
})

t.test('the connection of a client that leaves in the middle of a request is closed at once', async t => {
  let asked = 0
  const { server, place } = await startTlsServer(t, () => void asked++)
  const { socket } = await connectFrames(t, place, { allowHalfOpen: true })
  socket.write(frame(FRAMES.headers, 0x5, 1, HEAD))
  await until(() => asked === 1)
  socket.end()
  // Long before a connection counts as idle.
  await until(() => server.count() === 0, 'it is closed', 10_000)
})

t.test('a client that neither asks nor closes its side is cut off', async t => {
  const limits = { headMs: 50, idleMs: 50, lingerSilenceMs: 50 }
  const { server, place } = await startTlsServer(t, () => undefined, { limits })
  await connectFrames(t, place, { allowHalfOpen: true })
  await until(() => server.count() === 1)
  await until(() => server.count() === 0)
})

t.test('TLS_HTTP2=false offers HTTP/1.1 alone', async t => {
  const { place } = await startHttp2World(t, { env: { TLS_HTTP2: 'false' } })
  const { port, ca } = place
  const socket = tls.connect({
    port,
    host: '127.0.0.1',
    servername: 'localhost',
    ca,
    ALPNProtocols: ['h2', 'http/1.1']
  })
  t.teardown(() => socket.destroy())
  await once(socket, 'secureConnect')
  t.equal(socket.alpnProtocol, 'http/1.1')
})
