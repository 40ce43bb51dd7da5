// Requests that are framed in two ways, cut short or refused in the middle smuggle nothing past the gateway.
import { once } from 'node:events'
import net from 'node:net'
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { isAlive } from '../support/oracles.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      { path: '/api/*', upstream: 'raw', roles: ['Agente'] },
      { path: '/api/admin/*', upstream: 'raw', roles: ['Admin'] }
    ]
  }
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
  connection.destroy()
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
  // As handlers on Python's http.server: nothing after the head of a GET is read as its body.
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
        if (/^connection:.*\bclose\b/im.test(head)) return socket.end()
      }
    })
  })
  t.teardown(() => careless.close())
  await once(careless.listen(0, '127.0.0.1'), 'listening')
  const { port } = careless.address() as net.AddressInfo
  const careful = await startGateway(t, {
    postgres: world.postgres,
    config: {
      upstreams: { careless: { url: `http://127.0.0.1:${port}` } },
      routes: [
        { path: '/open/*', upstream: 'careless', public: true },
        { path: '/admin/*', upstream: 'careless', roles: ['Admin'] }
      ]
    }
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

t.test('an upload that ends early is an aborted request upstream', async t => {
  // SM-28
  const before = raw.requests.length
  const connection = await world.connect()
  const beginning = 'b'.repeat(64 * 1024)
  connection.send(post('Content-Length: 100000\r\n', beginning))
  while (!raw.received().endsWith(`\r\n\r\n${beginning}`)) await new Promise(resolve => setImmediate(resolve))
  connection.destroy()
  await world.logged(line => line.path === '/api/x' && line.reason === 'client-gone')
  t.equal(raw.requests.length, before, 'never a complete shorter body')
  t.equal(await isAlive(world, raw), undefined)
})
