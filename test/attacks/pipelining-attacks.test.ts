// Requests that arrive together are answered one after the other, and none is lost or held up.
import net from 'node:net'
import t from 'tap'
import { collectGarbage } from '../support/garbage.ts'
import { startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      { path: '/open/*', upstream: 'raw', public: true },
      { path: '/api/*', upstream: 'raw' }
    ]
  }
})
const post = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: gw\r\nContent-Length: ${body.length}\r\n\r\n${body}`

t.test('thousands of pipelined requests whose answers are never read hold up no one else', async t => {
  // RW-01, RX-23; that each connection waits its turn is shown in test/http/http1/connection.test.ts.
  const quiet = await startGateway(t, { postgres: world.postgres, env: { LOG_LEVEL: 'warn' } })
  const held = () => {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const before = held()
  for (let i = 0; i < 100; i++) {
    const socket = net.connect(quiet.port, '127.0.0.1').pause()
    t.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2400))
  }
  for (let i = 0; i < 200; i++) t.equal((await quiet.fetch('/health')).status, 200)
  // The test's own sockets are in there too.
  const grownMb = (held() - before) / 1e6
  t.ok(grownMb < 60, `${Math.round(grownMb)} MB more`)
})

t.test('a request waits for the answer to the one before it, whatever it is', async t => {
  // RW-21, SM-15
  let release = () => {}
  raw.respond(({ method }) => {
    if (method !== 'POST') return OK
    return socket => {
      release = () => socket.write(OK)
    }
  })
  const connection = await world.connect()
  const before = raw.requests.length
  connection.send(`${post('/open/x', 'create')}DELETE /open/x HTTP/1.1\r\nHost: gw\r\n\r\n`)
  await until(() => raw.requests.length === before + 1)
  for (let i = 0; i < 3; i++) await world.fetch('/health')
  t.equal(raw.requests.length, before + 1, 'the DELETE has not overtaken the POST')
  release()
  t.match(await connection.response(), { status: 200 })
  t.match(await connection.response(), { status: 200 })
  t.same(
    raw.requests.slice(before).map(({ method }) => method),
    ['POST', 'DELETE']
  )
  connection.destroy()
})

t.test('a refused request with a body, and what follows it, loses no answer that is due', async t => {
  // RW-16, SM-14
  raw.respond(() => OK)
  const hidden = 'GET /open/hidden HTTP/1.1\r\nHost: gw\r\n\r\n'
  for (let i = 0; i < 20; i++) {
    const connection = await world.connect()
    const before = raw.requests.length
    connection.send(
      `${post('/open/done', 'executed')}${post('/api/refused', hidden.repeat(4000))}${post('/open/no', 'more')}`
    )
    t.match(await connection.response(), { status: 200 }, 'what was executed is told')
    t.match(await connection.response(), { status: 401, headers: { connection: 'close' } })
    t.equal(await connection.closed(), '')
    t.same(
      raw.requests.slice(before).map(({ target }) => target),
      ['/open/done']
    )
    connection.destroy()
  }
})

t.test('CONNECT goes no further, whatever the form of its target', async t => {
  // RW-80, RT-15
  raw.respond(() => OK)
  const before = raw.requests.length
  const ask = (target: string) => world.raw(`CONNECT ${target} HTTP/1.1\r\nHost: gw\r\n\r\n`)
  t.match(await ask('/open/x'), { status: 405, body: /GW_METHOD_NOT_ALLOWED/, headers: { allow: /GET/ } })
  t.match(await ask('http://gw/open/x'), { status: 405 })
  t.match(await ask('gw:80'), { status: 400 })
  t.equal(raw.requests.length, before, 'a proxy before the backend would relay what follows on the connection unread')
})

t.test('Max-Forwards counts the gateways that may still pass on OPTIONS; TRACE goes no further', async t => {
  // RFC 9110 §7.6.2
  raw.respond(() => OK)
  const ask = (method: string, value: string) =>
    world.raw(`${method} /open/x HTTP/1.1\r\nHost: gw\r\nMax-Forwards: ${value}\r\n\r\n`)
  const before = raw.requests.length
  t.match(await ask('OPTIONS', '0'), { status: 204, headers: { allow: /OPTIONS/ } })
  t.match(await ask('TRACE', '0'), { status: 405 })
  t.equal(raw.requests.length, before, 'nothing was passed on')
  t.match(await ask('TRACE', '2'), { status: 405, headers: { allow: /GET/ } })
  t.equal(raw.requests.length, before, 'TRACE would show what the gateway tells the backend')
  await ask('OPTIONS', '2')
  t.match(raw.requests.at(-1)?.head, /^max-forwards: 1\r$/im)
  await ask('GET', '0')
  t.match(raw.requests.at(-1)?.head, /^max-forwards: 0\r$/im, 'other methods keep it')
  await ask('OPTIONS', 'many')
  t.match(raw.requests.at(-1)?.head, /^max-forwards: many\r$/im)
})

t.test('a path that is costly to read is read only once the limiter has let it pass', async t => {
  // RW-26
  const limited = await startGateway(t, {
    postgres: world.postgres,
    env: { RATE_LIMIT_MAX: '5', RATE_LIMIT_TTL_MS: '3600000' },
    config: { upstreams: { raw: { url: raw.url } }, routes: [{ path: '/open/*', upstream: 'raw', public: true }] }
  })
  const connection = await limited.connect()
  for (let i = 0; i < 5; i++) {
    connection.send('GET /open/x HTTP/1.1\r\nHost: gw\r\n\r\n')
    await connection.response()
  }
  const count = 400
  /** Microseconds of work for each, the test's own part included. */
  const workFor = async (paths: readonly string[]) => {
    const from = process.cpuUsage()
    for (let i = 0; i < count; i++) {
      connection.send(`GET /open/${paths[i % paths.length]} HTTP/1.1\r\nHost: gw\r\n\r\n`)
      t.equal((await connection.response()).status, 429)
    }
    return process.cpuUsage(from).user / count
  }
  const plain = await workFor(['a'.repeat(8000)])
  const costly = await workFor(['a%2F'.repeat(2000), '%C4%B1'.repeat(1300)])
  t.ok(
    costly < Math.max(1000, 4 * plain),
    `${Math.round(costly)} µs each, ${Math.round(plain)} where nothing is costly`
  )
  connection.destroy()
})

t.test('a body that is malformed behind a request under way is refused, and its upstream let go', async t => {
  // SM-12, RX-05
  raw.respond(() => OK)
  const connection = await world.connect()
  // More than is buffered before the upstream is asked.
  const piece = 'a'.repeat(0x20000)
  connection.send(`POST /open/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n${piece}\r\n`)
  await until(() => raw.received().includes('a'.repeat(1000)))
  connection.send('nonsense\r\n')
  t.match(await connection.response(), { status: 400, headers: { connection: 'close' } })
  await connection.closed()
  t.ok(await world.logged(line => line.path === '/open/x' && line.reason === 'malformed-body'))
  t.equal(await isAlive(world, raw), undefined)
})
