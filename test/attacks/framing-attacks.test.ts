// Two readers of a connection never disagree where a request ends, and requests that arrive together are answered one after the other.
import net from 'node:net'
import t from 'tap'
import { collectGarbage } from '../support/garbage.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { listen } from '../support/ports.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: routesTo(raw.url, [
    { path: '/api/*', roles: ['Agente'] },
    { path: '/api/admin/*', roles: ['Admin'] },
    { path: '/open/*', public: true }
  ])
})
const agent = await world.tokenFor({ profiles: ['Agente'] })
const admin = await world.tokenFor({ profiles: ['Admin'] })
const auth = `Authorization: Bearer ${agent}\r\n`
const smuggled = `GET /api/smuggled HTTP/1.1\r\nHost: x\r\n${auth}\r\n`

const post = (fields: string, body: string) => `POST /api/x HTTP/1.1\r\nHost: gw\r\n${auth}${fields}\r\n${body}`

t.test('a request framed in two ways is refused, and nothing after it is read as a request', async t => {
  // SM-01, SM-02, SM-03, SM-04, SM-05, SM-07, SM-08, SM-09, SM-12, RW-22, RV-18
  const attacks = [
    post(`Content-Length: ${5 + smuggled.length}\r\nTransfer-Encoding: chunked\r\n`, `0\r\n\r\n${smuggled}`),
    post('Transfer-Encoding: chunked\r\nContent-Length: 4\r\n', `0\r\n\r\n${smuggled}`),
    ...['xchunked', 'chunked, identity', '\x0bchunked', '"chunked"', 'chunked;q=1', ' chunked\r\n ', 'identity'].map(
      value => post(`Transfer-Encoding: ${value}\r\n`, `0\r\n\r\n${smuggled}`)
    ),
    post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', `0\r\n\r\n${smuggled}`),
    post('Transfer-Encoding : chunked\r\n', `0\r\n\r\n${smuggled}`),
    ...[
      ['2', '2'],
      ['2', '9']
    ].map(([a, b]) => post(`Content-Length: ${a}\r\nContent-Length: ${b}\r\n`, `ab${smuggled}`)),
    ...['2, 2', '+2', '0x2', '-1', '2 3', '', '9'.repeat(20), '9007199254740992', '1_0'].map(value =>
      post(`Content-Length: ${value}\r\n`, `ab${smuggled}`)
    ),
    ...['0x2', '-2', '2 ', '10000000000000002', 'g'].map(size =>
      post('Transfer-Encoding: chunked\r\n', `${size}\r\nab\r\n0\r\n\r\n${smuggled}`)
    ),
    post('Transfer-Encoding: chunked\r\n', `2\nab\r\n0\r\n\r\n${smuggled}`),
    post('Transfer-Encoding: chunked\r\n', `2\r\nab\n0\r\n\r\n${smuggled}`),
    `GET /api/x HTTP/1.1\nHost: gw\n${auth}\n`,
    `GET /api/x HTTP/1.1\r\nHost: gw\r\nX-A: b\rX-User-Id: 1\r\n${auth}\r\n`,
    `GET /api/x HTTP/1.1\r\nHost: gw\r\n${auth}\rX: 1\r\n\r\n${smuggled}`
  ]
  for (const bytes of attacks) {
    const connection = await world.connect()
    connection.send(bytes)
    const first = await connection.response()
    const shown = JSON.stringify(bytes.replace(auth, '').slice(0, 110))
    t.ok(first.status >= 400, `${shown} answers ${first.status}`)
    await connection.closed()
    t.notMatch(raw.received(), /smuggled/, shown)
  }
  const connection = await world.connect()
  connection.send(`GET /api/x HTTP/1.1\r\nHost: gw\r\n${auth}\r\n\rX: 1\r\n\r\n${smuggled}`)
  t.equal((await connection.response()).status, 200)
  t.equal((await connection.response()).status, 400, 'a bare CR behind a whole request')
  await connection.closed()
  t.notMatch(raw.received(), /smuggled/)
  t.equal(await isAlive(world, raw), undefined)
})

t.test('pipelined requests are checked each for itself and answered in order', async t => {
  // SM-15
  const connection = await world.connect()
  const as = (token: string | undefined, path: string) =>
    `GET ${path} HTTP/1.1\r\nHost: gw\r\n${token === undefined ? '' : `Authorization: Bearer ${token}\r\n`}\r\n`
  connection.send(
    as(admin, '/api/admin/1') + as(undefined, '/api/admin/2') + as(agent, '/api/admin/3') + as(agent, '/api/4')
  )
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await connection.response()).status)
  t.same(statuses, [200, 401, 403, 200])
})

t.test('a request that names a type but has no body at all is answered at once', async t => {
  const token = `Authorization: Bearer ${await world.tokenFor()}\r\n`
  const ask = (path: string) =>
    world.raw(`POST ${path} HTTP/1.1\r\nHost: gw\r\n${token}Content-Type: application/json\r\n\r\n`)
  t.match(await ask('/auth/login'), { status: 400 })
  t.match(await ask('/auth/logout'), { status: 204 })
})

t.test('a body on GET keeps its framing', async t => {
  // SM-13
  const before = raw.requests.length
  t.match(await world.raw(`GET /api/x HTTP/1.1\r\nHost: gw\r\n${auth}Content-Length: 0003\r\n\r\nabc`), { status: 200 })
  t.match(raw.requests[before], { body: 'abc', head: /content-length: 3\r\n/ })
})

t.test('a body that a backend leaves unread is not executed there as a request', async t => {
  // RW-46
  const seen: string[] = []
  // As handlers on Python's http.server: nothing after the head of a GET is read as its body, and `close` counts only if it stands alone.
  const careless = net.createServer(socket => {
    let pending = ''
    socket.on('error', () => socket.destroy())
    socket.on('data', bytes => {
      pending += bytes.toString('latin1')
      for (let end = pending.indexOf('\r\n\r\n'); end !== -1; end = pending.indexOf('\r\n\r\n')) {
        const head = pending.slice(0, end)
        pending = pending.slice(end + 4)
        seen.push(head.split('\r\n', 1)[0] ?? '')
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${head.startsWith('HEAD') ? 0 : 2}\r\n\r\n`)
        if (!head.startsWith('HEAD')) socket.write('ok')
        if (/^connection: close$/im.test(head)) return socket.end()
      }
    })
  })
  const port = await listen(t, careless)
  const careful = await startGateway(t, {
    postgres: world.postgres,
    config: routesTo(`http://127.0.0.1:${port}`, [
      { path: '/open/*', public: true },
      { path: '/admin/*', roles: ['Admin'] }
    ])
  })
  const hidden = 'DELETE /admin/people HTTP/1.1\r\nHost: x\r\nX-User-Profiles: Admin\r\n\r\n'
  const methods = ['GET', 'HEAD', 'DELETE', 'OPTIONS', 'MOVE']
  for (const method of methods) {
    const framed = [
      `Content-Length: ${hidden.length}\r\n\r\n${hidden}`,
      `TE: trailers\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
    ]
    for (const rest of framed) {
      const answer = await careful.raw(`${method} /open/x HTTP/1.1\r\nHost: gw\r\n${rest}`)
      t.equal(answer.status, 200, method)
    }
  }
  t.equal((await careful.fetch('/open/after')).status, 200)
  t.same(seen, [...methods.flatMap(method => Array(2).fill(`${method} /open/x HTTP/1.1`)), 'GET /open/after HTTP/1.1'])

  // After other methods, the answer to the hidden request shows what the backend does: it happens once.
  const posted = () => seen.filter(line => line.startsWith('POST')).length
  const executed = () => seen.filter(line => line.startsWith('DELETE /admin')).length
  for (let count = 1; count <= 3; count++) {
    const post = `POST /open/x HTTP/1.1\r\nHost: gw\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`
    t.equal((await careful.raw(post)).status, 200)
    t.equal(posted(), count)
    if (count === 1) await careful.logged(line => /sent bytes that no request asked for/.test(String(line.msg)))
  }
  t.equal(executed(), 1)
})

const postTo = (path: string, body: string) =>
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

t.test('a refused request with a body, and what follows it, loses no answer that is due', async t => {
  // RW-16, SM-14
  raw.respond(() => OK)
  const hidden = 'GET /open/hidden HTTP/1.1\r\nHost: gw\r\n\r\n'
  for (let i = 0; i < 20; i++) {
    const connection = await world.connect()
    const before = raw.requests.length
    connection.send(
      `${postTo('/open/done', 'executed')}${postTo('/api/refused', hidden.repeat(4000))}${postTo('/open/no', 'more')}`
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
  for (const target of ['/open/x', 'gw:80']) {
    const connection = await world.connect()
    connection.send(`CONNECT ${target} HTTP/1.1\r\nHost: gw\r\n\r\nGET /open/tunnelled HTTP/1.1\r\nHost: gw\r\n\r\n`)
    t.match(await connection.response(), { headers: { connection: 'close' } }, target)
    t.equal(await connection.closed(), '', 'the first bytes of a tunnel are no request')
    connection.destroy()
  }
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
    config: routesTo(raw.url, [{ path: '/open/*', public: true }])
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

t.test('a body that is malformed after its response has begun is not continued, and both sides end', async t => {
  // SM-12, SM-28
  let body = ''
  let isCut = false
  const server = net.createServer(socket => {
    socket
      .on('error', () => undefined)
      .on('close', () => {
        isCut = true
      })
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n'))
    socket.on('data', chunk => {
      body += chunk
    })
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  const config = routesTo(url, [{ path: '/open/*', public: true, streaming: true }])
  const own = await startGateway(t, { config })
  const client = net.connect(own.port, '127.0.0.1')
  t.teardown(() => client.destroy())
  let received = ''
  client
    .on('error', () => undefined)
    .on('data', chunk => {
      received += chunk
    })
  client.write('POST /open/x HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')
  await until(() => received.includes('early'))
  client.write('ZZ\r\n')
  await own.fetch('/health')
  client.write('5\r\nworld\r\n0\r\n\r\n')
  await until(() => isCut && client.closed)
  t.match(body, /hello/)
  t.notMatch(body, /world|\r\n0\r\n/)
})
