// Request bodies are buffered before they occupy a backend, and limited in size and slowness.
// RV-09, RV-10
import { once } from 'node:events'
import net from 'node:net'
import t, { type Test } from 'tap'
import { heldBodyBytes } from '../../gateway/http/body-buffer.ts'
import { routesTo, startGateway, type WorldOptions } from '../support/gateway.ts'
import { hurryTimers } from '../support/hurried-timers.ts'
import { listen } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import type { RawConnection } from '../support/raw-client.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const startWorld = async (
  t: Test,
  { env = {}, upstream: more = {} }: { env?: Record<string, string>; upstream?: object } = {}
) => {
  const upstream = await startRawUpstream(t)
  const config: WorldOptions['config'] = routesTo({ url: upstream.url, ...more }, [
    { path: '/*', public: true },
    { path: '/streaming', public: true, streaming: true },
    { path: '/large', public: true, maxBody: '1MB' },
    { path: '/private' }
  ])
  return { upstream, world: await startGateway(t, { postgres, config, env }) }
}

const head = (path: string, fields: string) => `POST ${path} HTTP/1.1\r\nHost: gw\r\n${fields}\r\n\r\n`

t.test('slow clients hold no connection of a backend while they send 64 KB or less', async t => {
  const { upstream, world } = await startWorld(t)
  const clients: RawConnection[] = []
  for (let i = 0; i < 200; i++) {
    const client = await world.connect()
    client.send(head('/slow', i % 2 === 0 ? 'Content-Length: 1000' : 'Transfer-Encoding: chunked'))
    clients.push(client)
  }
  // 100 bytes at a time: 10 seconds of what the slowest of them sends.
  for (let sent = 0; sent < 900; sent += 100) {
    for (const [i, client] of clients.entries())
      client.send(i % 2 === 0 ? 'x'.repeat(100) : `64\r\n${'x'.repeat(100)}\r\n`)
    t.equal((await world.raw('GET /quick HTTP/1.1\r\nHost: gw\r\n\r\n')).status, 200)
  }
  await until(() => heldBodyBytes() >= 200 * 900)
  t.ok(upstream.accepted() <= 9, 'only the ordinary requests opened any')
  t.ok(heldBodyBytes() <= 200 * 2048, `${heldBodyBytes()} bytes are held`)
  for (const [i, client] of clients.entries())
    client.send(i % 2 === 0 ? 'x'.repeat(100) : `64\r\n${'x'.repeat(100)}\r\n0\r\n\r\n`)
  for (const client of clients) t.equal((await client.response()).status, 200)
  const bodies = upstream.requests.filter(({ method }) => method === 'POST').map(({ body }) => body)
  t.equal(bodies.length, 200)
  const whole = ['x'.repeat(1000), `3e8\r\n${'x'.repeat(1000)}\r\n0\r\n\r\n`]
  t.ok(bodies.every(body => whole.includes(body)))
  t.equal(heldBodyBytes(), 0)
})

t.test('a body larger than requestBuffer is sent on when so much has come', async t => {
  const { upstream, world } = await startWorld(t, { upstream: { requestBuffer: '1KB' } })
  const client = await world.connect()
  client.send(head('/x', 'Content-Length: 2000') + 'a'.repeat(1000))
  t.equal((await world.raw('GET /quick HTTP/1.1\r\nHost: gw\r\n\r\n')).status, 200)
  t.notMatch(upstream.received(), 'POST')
  client.send('b'.repeat(24))
  await until(() => upstream.received().endsWith(`a${'b'.repeat(24)}`))
  client.send('c'.repeat(976))
  t.equal((await client.response()).status, 200)
  t.equal(upstream.requests.at(-1)?.body, `${'a'.repeat(1000)}${'b'.repeat(24)}${'c'.repeat(976)}`)
})

t.test('a buffered body counts among those in memory until its backend has taken it', async t => {
  const backend = net.createServer({ pauseOnConnect: true })
  const url = `http://127.0.0.1:${await listen(t, backend)}`
  const { world } = await startWorld(t, { upstream: { url, requestBuffer: '16MB' } })
  const connected = once(backend, 'connection')
  const client = await world.connect()
  // More than the kernel takes.
  client.send(head('/x', 'Content-Length: 14000000') + 'x'.repeat(14_000_000))
  const [socket] = (await connected) as [net.Socket]
  await once(socket, 'readable')
  t.ok(heldBodyBytes() >= 14_000_000, `${heldBodyBytes()} bytes are held`)
  socket.resume()
  await until(() => heldBodyBytes() === 0)
  socket.end(OK)
  t.equal((await client.response()).status, 200)
})

t.test('with streaming, each byte passes at once in both directions', async t => {
  const { upstream, world } = await startWorld(t)
  const client = await world.connect()
  client.send(head('/streaming', 'Content-Length: 3'))
  await until(() => upstream.open() === 1)
  for (const byte of 'abc') {
    client.send(byte)
    await until(() => upstream.received().endsWith(byte))
  }
  t.equal((await client.response()).status, 200)
})

// RX-04
t.test('MAX_BODY holds where a route says nothing', async t => {
  const { upstream, world } = await startWorld(t, { env: { MAX_BODY: '1KB' } })
  const long = 'x'.repeat(1025)
  const post = async (path: string, field: string, body: string) => (await world.raw(head(path, field) + body)).status
  const chunked = 'Transfer-Encoding: chunked'
  t.equal(await post('/x', 'Content-Length: 1025', long), 413)
  t.equal(await post('/x', chunked, `401\r\n${long}\r\n0\r\n\r\n`), 413)
  t.equal(await post('/x', 'Content-Length: 1024', long.slice(1)), 200)
  t.equal(await post('/large', 'Content-Length: 1025', long), 200)
  t.equal(await post('/streaming', chunked, `401\r\n${long}\r\n0\r\n\r\n`), 413)
  t.equal(upstream.requests.length, 2)
  t.equal(heldBodyBytes(), 0)
})

t.test('an upload that hardly moves is refused before a backend is asked', async t => {
  const { upstream, world } = await startWorld(t)
  hurryTimers(t)
  const client = await world.connect()
  client.send(`${head('/x', 'Content-Length: 10')}a`)
  t.match(await client.response(), { status: 408, body: /GW_BAD_REQUEST/ })
  t.equal(upstream.accepted(), 0)
})

t.test('once a response has begun, an upload may pause', async t => {
  const backend = net.createServer(socket => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n')
      let left = 40
      const drip = setInterval(() => {
        socket.write('d')
        if (--left === 0) clearInterval(drip)
      }, 50)
    })
  })
  const url = `http://127.0.0.1:${await listen(t, backend)}`
  const world = await startGateway(t, {
    postgres,
    config: routesTo(url, [{ path: '/*', public: true }])
  })
  hurryTimers(t)
  const client = await world.connect()
  const piece = `10000\r\n${'a'.repeat(65_536)}\r\n`
  client.send(head('/x', 'Transfer-Encoding: chunked') + piece)
  t.match(await client.response(), { status: 200, complete: true, body: 'd'.repeat(40) })
})

t.test('a streaming upload may be silent for idleTimeout', async t => {
  const { upstream, world } = await startWorld(t, { upstream: { idleTimeout: '300ms', timeout: '1h' } })
  upstream.respond(() => OK)
  const client = await world.connect()
  client.send(`${head('/streaming', 'Content-Length: 10')}a`)
  t.match(await client.response(), { status: 408, body: /GW_BAD_REQUEST/ })
})

t.test('an upload goes on whose bytes arrived while the process stood still', async t => {
  const { upstream, world } = await startWorld(t, { upstream: { idleTimeout: '400ms', timeout: '1h' } })
  hurryTimers(t)
  for (const path of ['/x', '/streaming']) {
    upstream.respond(() => OK)
    const client = await world.connect()
    client.send(head(path, 'Content-Length: 3002\r\nExpect: 100-continue'))
    t.equal((await client.response()).status, 100)
    client.send('a'.repeat(3001))
    const since = performance.now()
    while (performance.now() - since < 700);
    for (let turns = 0; turns < 3; turns++) await new Promise(resolve => setImmediate(resolve))
    client.send('b')
    t.equal((await client.response()).status, 200, path)
  }
})

t.test('a request whose login ends while its body, or a connection, is awaited is refused', async t => {
  const queued = { maxConnections: 1, queue: { max: 5, timeout: '60s' } }
  for (const [what, options] of Object.entries({ body: {}, connection: { upstream: queued } })) {
    const { upstream, world } = await startWorld(t, options)
    const token = await world.tokenFor()
    const client = await world.connect()
    let release = () => {}
    if (what === 'connection') {
      upstream.respond(() => socket => {
        release = () => socket.write(OK)
      })
      world.raw('GET /holds HTTP/1.1\r\nHost: gw\r\n\r\n').catch(() => undefined)
      await until(() => upstream.requests.length === 1)
    }
    const length = what === 'body' ? 'Content-Length: 4\r\n' : ''
    client.send(`POST /private HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\n${length}\r\n`)
    await world.fetch('/health')
    t.equal((await world.fetch('/auth/logout', { method: 'POST', token })).status, 204)
    if (what === 'body') client.send('body')
    release()
    t.match(await client.response(), { status: 401, body: /GW_TOKEN_REVOKED/ }, what)
    t.equal(upstream.requests.filter(({ target }) => target === '/private').length, 0, what)
  }
})
