// Nothing that strangers or backends do takes time, memory or connections from the others.
import t from 'tap'
import { collectGarbage } from '../support/garbage.ts'
import { startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { measureOwnTime } from '../support/own-time.ts'
import type { RawConnection } from '../support/raw-client.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const raw = await startRawUpstream(t)
const other = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { LOG_LEVEL: 'info' },
  config: {
    upstreams: { raw: { url: raw.url, timeout: '5s' }, other: { url: other.url } },
    routes: [
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/other/*', upstream: 'other', public: true },
      { path: '/api/*', upstream: 'raw' }
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
      world.writeRoutes({
        upstreams: { raw: { url: raw.url } },
        routes: [...routes, { path: '/open/*', upstream: 'raw', public: true }]
      })
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
