// Clients and backends that break off, stall or take nothing hurt only themselves.
import t, { type Test } from 'tap'
import { startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { OK, type RawAnswer, type RawRequest, startRawUpstream } from '../support/raw-upstream.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const CLIENT_STALL_MS = 400

const raw = await startRawUpstream(t)
const other = await startRawUpstream(t)
const world = await startGateway(t, {
  limits: { clientStallMs: CLIENT_STALL_MS },
  config: {
    upstreams: {
      raw: { url: raw.url },
      other: { url: other.url }
    },
    routes: [
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/other/*', upstream: 'other', public: true },
      { path: '/live', upstream: 'raw', websocket: {} }
    ]
  }
})
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: gw\r\n\r\n`

/** Sends a request behind one whose answer is held back, and releases that once the other could have been read. */
const sendBehind = async (t: Pick<Test, 'equal' | 'match'>, second: string, answer: RawAnswer) => {
  const { promise: first, resolve } = Promise.withResolvers<RawRequest>()
  raw.respond(request => {
    if (request.target !== '/open/first') return answer
    resolve(request)
    return undefined
  })
  const before = raw.requests.length
  const connection = await world.connect()
  connection.send(get('/open/first') + second)
  const { socket } = await first
  for (let i = 0; i < 3; i++) await world.fetch('/health')
  t.equal(raw.requests.length, before + 1, 'the second waits for the answer to the first')
  socket.write(OK)
  t.match(await connection.response(), { status: 200, complete: true })
  return connection
}

t.test('an early hint behind another answer stays before its own answer', async t => {
  // RW-21, SM-15, SM-27: the head of the second answer must not overtake the hint and put it into the body
  const body = 'b'.repeat(20_000)
  const hint = 'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n'
  const connection = await sendBehind(
    t,
    get('/open/2'),
    `${hint}HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
  t.match(await connection.response(), { status: 103, body: '' })
  t.match(await connection.response(), { status: 200, body })
  connection.destroy()
})

t.test('a broken answer behind another one ends the connection when its turn comes', async t => {
  // RX-07, SM-15
  const connection = await sendBehind(t, get('/open/broken'), socket =>
    socket.end('HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\nnot all of it')
  )
  t.notMatch(await connection.closed(), /GW_/)
  t.ok(await world.logged(line => line.path === '/open/broken' && line.reason === 'upstream-nonsense'))
})

t.test('an upgrade behind an unanswered request does not end the process', async t => {
  // SM-18, RX-20, RX-24
  const key = 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const upgrade = `GET /live HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}\r\n`
  const connection = await sendBehind(t, upgrade, OK)
  t.match(await connection.response(), { status: 401 }, 'checked like any request')
  t.equal((await world.fetch('/health')).status, 200)
  connection.destroy()
})

t.test('a client that was slow for a moment gets the rest, however long it takes', async t => {
  // RX-03
  const piece = `1000\r\n${'c'.repeat(0x1000)}\r\n`.repeat(10)
  let finish = () => {}
  raw.respond(() => socket => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    let left = 400
    const more = () => {
      socket.write(piece)
      if (--left > 0) setImmediate(more)
    }
    more()
    finish = () => socket.write('0\r\n\r\n')
  })
  const answer = await undisturbed(CLIENT_STALL_MS / 4, async () => {
    const connection = await world.connect()
    connection.socket.pause()
    connection.send(get('/open/large'))
    await new Promise(resolve => setTimeout(resolve, CLIENT_STALL_MS / 4))
    connection.socket.resume()
    await new Promise(resolve => setTimeout(resolve, CLIENT_STALL_MS * 3))
    finish()
    const response = await connection.response()
    connection.destroy()
    return response
  })
  t.match(answer, { status: 200, complete: true })
})

t.test('a large answer that waits behind a slow one is not its client taking nothing', async t => {
  // RX-03
  const size = 3_000_000
  raw.respond(({ target }) => {
    if (target === '/open/large') return `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n${'l'.repeat(size)}`
    return socket => void setTimeout(() => socket.write(OK), CLIENT_STALL_MS * 3)
  })
  const connection = await world.connect()
  connection.send(get('/open/slow') + get('/open/large'))
  t.match(await connection.response(), { status: 200, complete: true })
  const large = await connection.response()
  t.match(large, { status: 200, complete: true })
  t.equal(large.body.length, size)
})

t.test('a client that takes nothing is cut off, in the middle of an answer and after its end', async t => {
  // RX-03, RX-23
  raw.respond(() => socket => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 40000000\r\n\r\n')
    const more = () => {
      while (!socket.destroyed && socket.write(Buffer.alloc(1_000_000)));
    }
    socket.on('drain', more)
    more()
  })
  const middle = await world.connect()
  middle.socket.pause()
  middle.send(get('/open/endless'))

  t.ok(await world.logged(line => line.path === '/open/endless'), 'its upstream is let go')
  middle.destroy()

  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n${'e'.repeat(60_000)}`)
  const after = await world.connect()
  after.socket.pause()
  after.send(get('/open/ended').repeat(400))
  t.ok(await world.logged(line => line.path === '/open/ended' && line.reason === 'client-gone'))
  after.destroy()
  await until(() => raw.open() <= 128)
  t.equal(await isAlive(world, raw, 128), undefined)
})
