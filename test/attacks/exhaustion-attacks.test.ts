// Nothing that strangers or backends do takes time, memory or connections from the others; who breaks off, stalls or takes
// nothing hurts only themselves.
import t, { type Test } from 'tap'
import { collectGarbage } from '../support/garbage.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { measureOwnTime } from '../support/own-time.ts'
import type { RawConnection } from '../support/raw-client.ts'
import { OK, type RawAnswer, type RawRequest, startRawUpstream } from '../support/raw-upstream.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const CLIENT_STALL_MS = 400

const raw = await startRawUpstream(t)
const other = await startRawUpstream(t)
const world = await startGateway(t, {
  limits: { clientStallMs: CLIENT_STALL_MS },
  config: {
    upstreams: { raw: { url: raw.url }, other: { url: other.url } },
    routes: [
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/other/*', upstream: 'other', public: true },
      { path: '/api/*', upstream: 'raw' },
      { path: '/live', upstream: 'raw', websocket: {} }
    ]
  }
})
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: gw\r\n\r\n`

t.test('an upstream that resets at any byte of its answer breaks that answer and nothing else', async t => {
  // RX-20, RX-07, RX-06
  const whole =
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n'
  for (let cut = 0; cut < whole.length; cut++) {
    raw.respond(() => socket => socket.write(whole.slice(0, cut), () => socket.resetAndDestroy()))
    const connection = await world.connect()
    connection.send(get('/open/cut'))
    const answer = await connection.response().catch(() => undefined)
    const isHonest = answer === undefined || answer.status === 502 || !answer.complete
    if (!isHonest) t.fail(`cut at ${cut}: ${answer.status} ${JSON.stringify(answer.body)}`)
    connection.destroy()
  }
  raw.respond(() => OK)
  t.equal((await world.raw(get('/open/after'))).status, 200)
  t.equal(await isAlive(world, raw), undefined)
})

t.test('an upstream that hangs takes nothing from another one', async t => {
  // RX-13
  raw.respond(() => undefined)
  other.respond(() => OK)
  const before = raw.requests.length
  const hanging: RawConnection[] = []
  for (let i = 0; i < 200; i++) {
    const connection = await world.connect()
    connection.send(get('/open/hang'))
    hanging.push(connection)
  }
  await until(() => raw.requests.length - before >= 100)
  const ownTimeMs = measureOwnTime()
  for (let i = 0; i < 50; i++) t.equal((await world.raw(get('/other/x'))).status, 200)
  t.ok(ownTimeMs() < 5000)
  for (const connection of hanging) connection.destroy()
  // RX-05: all that nobody waits for is given up.
  await until(() => raw.open() === 0)
  raw.respond(() => OK)
})

t.test('a person with a hundred areas is described within the length of a token', async t => {
  // HD-17: a longer token is refused before it is read, so identity fields are bounded with it
  const areas = Array.from({ length: 100 }, (_, i) => `Área ${i} ${'ç'.repeat(5)}`)
  raw.respond(() => OK)
  const token = await world.tokenFor({ areas })
  const answer = await world.raw(`GET /api/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  t.equal(answer.status, 200)
  const head = raw.requests.at(-1)?.head ?? ''
  t.equal(/^x-user-areas: (.*)\r$/im.exec(head)?.[1]?.split(',').length, 100)
  t.ok(head.length < 24 * 1024)
})

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

/** How long the thread worked between two looks at the event loop while this went on, in milliseconds of its own time, sorted. */
const turnsDuring = async (work: () => Promise<unknown>): Promise<number[]> => {
  const turns: number[] = []
  let isOver = false
  const watch = async () => {
    while (!isOver) {
      const { user, system } = process.threadCpuUsage()
      await new Promise(resolve => setTimeout(resolve, 2))
      const used = process.threadCpuUsage({ user, system })
      turns.push((used.user + used.system) / 1000)
    }
  }
  const watching = watch()
  await work()
  isOver = true
  await watching
  return turns.sort((a, b) => a - b)
}

const oneByOne = async (count: number, one: (index: number) => Promise<unknown>) => {
  for (let index = 0; index < count; index++) await one(index)
}

t.test('nothing that a stranger sends, and no reload, keeps the event loop from the others', async t => {
  // RX-18
  raw.respond(() => OK)
  const login = (body: string) =>
    world.fetch('/auth/login', { method: 'POST', body, headers: { 'content-type': 'application/json' } })
  // V8 hashes names that are numbers by a seed of its own, but many that share a bucket would be felt here.
  const keys = Array.from({ length: 4000 }, (_, n) => `"${n * 65_536}":1`).join()
  const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
  const paths = [
    '/a'.repeat(4000),
    '/%61'.repeat(2000),
    `/${'a;'.repeat(4000)}`,
    `/${'.%2e/'.repeat(1600)}`,
    `/${'+.'.repeat(4000)}`
  ]
  const routes = Array.from({ length: 2000 }, (_, n) => ({ path: `/many/${n}/:id`, upstream: 'raw' }))
  const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
    'a megabyte of JSON': () => oneByOne(4, () => login(`"${'x'.repeat(1_000_000)}"`).catch(() => undefined)),
    'names of one bucket': () => oneByOne(8, () => login(`{${keys}}`)),
    nesting: () => oneByOne(8, () => login(deep)),
    'paths of 8 KB': () => oneByOne(25, index => world.raw(get(paths[index % paths.length] ?? '/'))),
    'tokens of 8 KB': () =>
      oneByOne(25, () =>
        world.raw(`GET /api/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${'e.'.repeat(4000)}\r\n\r\n`)
      ),
    'a reload of two thousand routes': async () => {
      world.writeRoutes(routesTo(raw.url, [...routes, { path: '/open/*', public: true }]))
      await world.gateway.reload()
    }
  }
  // What is done for the first time is compiled first, which is no work that a stranger can repeat.
  await login(`{${keys}}`)
  for (const [kind, work] of Object.entries(kinds)) {
    const turns = await turnsDuring(work)
    const p99 = turns[Math.floor(turns.length * 0.99)] ?? 0
    t.ok(
      p99 < 50 && (turns.at(-1) ?? 0) < 250,
      `${kind}: ${p99.toFixed(1)} ms at the 99th percentile of ${turns.length} turns, ${turns.at(-1)?.toFixed(1)} at most`
    )
  }
  t.equal((await world.raw(get('/open/x'))).status, 200)
})

t.test('memory stays flat over many requests', async t => {
  // RX-23
  const clients = await Promise.all(Array.from({ length: 16 }, () => world.connect()))
  /** What is held after so many. */
  const heldAfter = async (count: number): Promise<number> => {
    const ask = async (client: RawConnection) => {
      client.send(get('/nothing/here'))
      await client.response()
    }
    await Promise.all(clients.map(client => oneByOne(count / clients.length, () => ask(client))))
    world.log.length = 0
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const before = await heldAfter(3200)
  const grown = (await heldAfter(9600)) - before
  for (const client of clients) client.destroy()
  t.ok(grown < 24 * 1024 * 1024, `${Math.round(grown / 1024)} KB more`)
})
