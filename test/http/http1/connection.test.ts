// Requests are read off a connection, one in a turn, within bounds of time and memory.
// RW-01, RW-16, RW-21, RW-22, SM-13, SM-15, SM-30, SM-22, SM-12, SM-06
import net from 'node:net'
import t from 'tap'
import { HeadReader } from '../../../gateway/http/http1/intake.ts'
import type { HttpRequest } from '../../../gateway/http/request.ts'
import type { HttpResponse } from '../../../gateway/http/response.ts'
import { DEFAULT_LIMITS, type HttpServer } from '../../../gateway/http/server.ts'
import { collectGarbage } from '../../support/garbage.ts'
import { startListener } from '../../support/http-listener.ts'
import { openConnection, readMessages } from '../../support/message-reader.ts'
import { connectRaw } from '../../support/raw-client.ts'
import { until } from '../../support/until.ts'

const post = (body: string) => `POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n${body}`
const get = 'GET /g HTTP/1.1\r\nHost: a\r\n\r\n'

t.test('of hundreds of pipelined requests one is read in a turn of the event loop', async t => {
  // RW-01
  const turns: string[][] = []
  const read = readMessages([get.repeat(500)], undefined, targets => turns.push(targets))
  t.equal(read.requests.length, 500)
  t.equal(turns.length, 500)
  t.ok(turns.every(targets => targets.length === 1))
})

t.test('a connection reads on when less than 16 KB of its requests wait for their turn', async t => {
  // RW-01: each answer used to read another 64 KB of requests, which were copied again with each read that followed
  const read = readMessages([get.repeat(2500)])
  t.equal(read.requests.length, 2500)
  const [resumed = 0] = read.resumedAt
  t.ok((2500 - resumed) * get.length < 16 * 1024, `after ${resumed} requests`)
  t.ok((2500 - resumed + 1) * get.length >= 16 * 1024, 'and not later')
  t.equal(read.resumedAt.length, 1)
})

t.test('nothing is read behind a request that ends its connection, or that cannot be framed', async t => {
  const keep = get.replace('Host: a', 'Host: a\r\nConnection: keep-alive')
  const old = keep.replace('1.1', '1.0')
  t.equal(readMessages([old + get]).requests.length, 2)
  for (const last of [
    get.replace('Host: a', 'Host: a\r\nConnection: close'),
    get.replace('1.1', '1.0'),
    old.replace('Host: a', 'Host: a\r\nConnection: close'),
    keep.replace(' HTTP/1.1', ''),
    keep.replace('1.1', '2.0')
  ])
    t.equal(readMessages([last + get]).requests.length, 1, JSON.stringify(last))
  const chunked = 'PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n'
  t.match(readMessages([`${get}nonsense\r\n\r\n${get}`]), { requests: { length: 1 }, fault: 'malformed' })
  t.match(readMessages([chunked + get]), { requests: { length: 1 }, fault: 'malformed-body' })
})

t.test('what is no head is refused at once, wherever it begins', async t => {
  t.match(readMessages(['\x16\x03\x01']), { fault: 'malformed' })
  t.match(readMessages(['GET /a HTTP/1.1\r\nHo', 'st : b']), { fault: 'malformed' })
  t.match(readMessages(['GET /a HTTP/1.1\r\n', `A: ${'a'.repeat(20_000)}`]), { fault: 'too-large' })
  for (const line of ['G\xc3T /a HTTP/1.1', 'GET\xa0/a HTTP/1.1', 'GET /a HTTP/1\xa01', '\xc3GET /a HTTP/1.1'])
    t.equal(new HeadReader().read(Buffer.from(`${line}\r\nHost: a\r\n\r\n`, 'latin1')), 'malformed', line)
})

t.test('after a refusal, the rest of a slow upload is read for as long as it arrives, but not for ever', async t => {
  // RFC 9112 §9.6: a reset would destroy the refusal. SM-14
  const { connection, host, due } = openConnection({
    onRequest({ response }) {
      response.keepAlive = false
      response.whole({ status: 413, headers: ['content-length', '0'] }, '')
    },
    onFault: () => undefined
  })
  const { lingerMs, lingerSilenceMs } = DEFAULT_LIMITS
  connection.take(Buffer.from(post('hello').slice(0, -5)))
  for (const next of due.splice(0)) next()
  t.equal(connection.deadline, lingerSilenceMs)
  for (host.now = 0; host.now < lingerMs; host.now += 1000) {
    t.ok(connection.take(Buffer.from('x')))
    t.equal(connection.deadline, Math.min(lingerMs, host.now + lingerSilenceMs))
  }
})

t.test('a head must be complete in time after its first byte; a fault is answered', async t => {
  const { connection, host, socket, due } = openConnection({
    onRequest: () => undefined,
    onFault: (_, fault, response) => response?.whole({ status: 400, reason: fault, hasDate: true }, '')
  })
  const { headMs } = DEFAULT_LIMITS
  host.now = 1000
  connection.take(Buffer.from('GET '))
  t.equal(connection.deadline, 1000 + headMs)
  host.now = 2000
  connection.take(Buffer.from('/a'))
  t.equal(connection.deadline, 1000 + headMs, 'further bytes gain no time')
  connection.take(Buffer.from(' nonsense\r\n\r\n'))
  for (const next of due.splice(0)) next()
  t.equal(socket.written, 'HTTP/1.1 400 malformed\r\nconnection: close\r\n\r\n')
})

t.test('an empty line behind a request begins no head: its connection stays idle, and ends unanswered', async t => {
  // RFC 9112 §2.2
  const { connection, host, socket, due } = openConnection({
    onRequest: ({ response }) => response.whole({ status: 204, headers: ['date', ''] }, ''),
    onFault: (_, fault, response) => response?.whole({ status: 408, reason: fault, hasDate: true }, '')
  })
  const { headMs, idleMs } = DEFAULT_LIMITS
  connection.take(Buffer.from(`${get}\r\n`))
  for (let next = due.shift(); next !== undefined; next = due.shift()) next()
  t.match(socket.written, /^HTTP\/1\.1 204/)
  host.now = 1000
  connection.take(Buffer.from('\r\n\r\n'))
  t.equal(connection.deadline, idleMs)
  connection.take(Buffer.from('\r'))
  t.equal(connection.deadline, idleMs, 'nor does the first half of one')
  host.now = 2000
  connection.take(Buffer.from('\nGET '))
  t.equal(connection.deadline, 2000 + headMs)
  connection.take(Buffer.from(get.slice(4)))
  for (let next = due.shift(); next !== undefined; next = due.shift()) next()
  connection.take(Buffer.from('\r\n\r'))
  t.equal(connection.deadline, 2000 + idleMs)
  connection.expire()
  for (const next of due.splice(0)) next()
  t.equal(socket.written.match(/HTTP/g)?.length, 2)
})

t.test('a client that half-closes is taken to have left, unless its response is ready', async t => {
  for (const isReady of [false, true]) {
    let response: HttpResponse | undefined
    const { connection, socket, due } = openConnection({
      onRequest(request) {
        response = request.response
      },
      onFault: () => undefined
    })
    const ended: string[] = []
    socket.end = () => void ended.push('end')
    socket.destroy = () => void ended.push('destroy')
    connection.take(Buffer.from(get))
    connection.onPeerEnd()
    if (isReady) response?.whole({ status: 204, headers: ['date', ''] }, '')
    for (const next of due.splice(0)) next()
    t.equal(/^HTTP\/1\.1 204/.test(socket.written), isReady)
    t.equal(ended[0], isReady ? 'end' : 'destroy')
  }
})

t.test('a response that only the end of its connection ends does not look complete when it is cut', async t => {
  const cuts: [string, (client: net.Socket, server: HttpServer) => void][] = [
    ['its client has half-closed', client => client.end()],
    ['the time of a drain is over', (_client, server) => void server.drain(0)]
  ]
  for (const [what, cut] of cuts) {
    const { port, server } = await startListener(t, ({ response }) => {
      response.begin({ status: 200 }, -1)
      response.write(Buffer.from('the first half'))
    })
    const { socket, send, sees } = await connectRaw(port)
    const ended = new Promise(resolve => socket.on('end', () => resolve('complete')).on('error', resolve))
    send(get.replace('1.1', '1.0'))
    await sees('the first half')
    cut(socket, server)
    t.match(await ended, { code: 'ECONNRESET' }, what)
  }
})

t.test('of a long line that arrives byte by byte only the start is read each time', async t => {
  const lines = ['GET /', 'A: ', 'A'].map(start => start + 'a'.repeat(4000))
  const bytes = Buffer.from(`${lines[0]} HTTP/1.1\r\n${lines[1]}\r\n${lines[2]}:\r\n\r\n`)
  const reads = t.capture(Buffer.prototype, 'toString', Buffer.prototype.toString)
  const reader = new HeadReader()
  for (let length = 1; length < bytes.length; length++) t.equal(reader.read(bytes.subarray(0, length)), undefined)
  t.match(reader.read(bytes), { end: bytes.length })
  const read = reads().reduce((sum, call) => sum + ('returned' in call ? String(call.returned).length : 0), 0)
  t.ok(read < 300 * bytes.length, `${read} characters`)
})

t.test('an incomplete head holds little more than its bytes', async t => {
  const bytes = Buffer.from(`GET / HTTP/1.1\r\n${Array.from({ length: 2000 }, (_, i) => `${i}:b\r\n`).join('')}`)
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  const readers = Array.from({ length: 200 }, () => new HeadReader())
  for (const reader of readers) t.equal(reader.read(bytes), undefined)
  collectGarbage()
  const each = (process.memoryUsage().heapUsed - before) / readers.length
  t.ok(each < bytes.length, `${Math.round(each)} bytes`)
  t.match(readers[0]?.read(Buffer.from(`${bytes}\r\n`)), { method: 'GET', fields: { length: 4000 } })
})

t.test('a standstill of the process ends no connection on which a request has arrived in time', async t => {
  const answer = ({ response }: HttpRequest) => response.whole({ status: 204, headers: [] }, '')
  const { port } = await startListener(t, answer, { limits: { idleMs: 300, lingerSilenceMs: 50 } })
  const client = await connectRaw(port)
  client.send(get)
  t.equal((await client.response()).status, 204)
  client.send(get)
  const since = performance.now()
  while (performance.now() - since < 500);
  t.equal((await client.response()).status, 204)
  await client.closed()
})

t.test('a drain closes idle connections at once, spares new ones for a moment, and then all is over', async t => {
  const answer = ({ response }: HttpRequest) => response.whole({ status: 204, headers: [] }, '')
  const { port, server } = await startListener(t, answer)
  // Some clients send an empty line behind a request (RFC 9112 §2.2).
  const idle = ['', '\r', '\r\n', '\r\n\r'].map(async rest => {
    const used = await connectRaw(port)
    used.send(get + rest)
    t.equal((await used.response()).status, 204)
    return used
  })
  const used = await Promise.all(idle)
  const fresh = await connectRaw(port)
  await until(() => server.count() === used.length + 1)
  const drained = server.drain(60_000)
  for (const one of used) {
    await one.closed()
    one.destroy()
  }
  t.equal(server.count(), 1, 'the new one may have sent a request by now')
  fresh.destroy()
  await drained
  const late = new net.Socket()
  const told: unknown[] = []
  server.accept(late, { peer: '192.0.2.1', onClosed: peer => told.push(peer) })
  t.ok(late.destroyed)
  t.same(told, ['192.0.2.1'])
})
