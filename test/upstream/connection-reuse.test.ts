// Which requests share a connection to a backend: never those of two clients where one could get the other's response or login.
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, type RawUpstream, startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const authority = createCertificateAuthority(t.testdir({}))
const certificate = authority.issue('backend')
const postgres = await startPostgres(t)

const startWorld = async (t: Test, raw: RawUpstream, options = {}, env = {}): Promise<World> => {
  const url = raw.url
  const b = { url, ...(url.startsWith('https') ? { caFile: authority.caFile } : {}), ...options }
  return startGateway(t, {
    postgres,
    env,
    config: routesTo(b, [
      { path: '/*', public: true },
      { path: '/socket.io/*', socketio: { namespaces: { '/': {} } } }
    ])
  })
}
const get = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\nHost: gw\r\n${fields}\r\n`
const respond = (body: string, fields = '') =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n${fields}\r\n${body}`

/** On a keep-alive connection of its own. */
const connectClient = async (world: World) => {
  const connection = await world.connect()
  return (bytes: string, options = {}) => {
    connection.send(bytes)
    return connection.response(options)
  }
}

t.test('behind a proxy, whose connections carry requests of many, none gets what another caused', async t => {
  // RV-02, RV-03
  const raw = await startRawUpstream(t)
  const world = await startWorld(t, raw, {}, { TRUST_PROXY: '127.0.0.1' })
  const proxy = await connectClient(world)
  const from = (n: number) => `X-Forwarded-For: 198.51.100.${n}\r\n`
  /** On how many connections of the backend these requests arrive. */
  const spread = async (...requests: string[]) => {
    for (const request of requests) await proxy(request)
    return new Set(raw.requests.slice(-requests.length).map(({ socket }) => socket)).size
  }
  const plain = get('/x', from(1))
  t.equal(await spread(...Array(50).fill(plain)), 1, 'requests of one client use one connection')
  t.equal(
    await spread(get('/x', `Authorization: NTLM type3\r\n${from(1)}`), plain),
    2,
    'except one that authenticates it'
  )
  raw.respond(() => 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n')
  t.equal(await spread(plain, plain), 2, 'or one that may authenticate it next')
  let count = 0
  raw.respond(({ target }) => socket => {
    socket.write(respond(target))
    setTimeout(() => socket.write(respond('an extra answer')), count++ % 7)
  })
  for (let n = 0; n < 20; n++) t.equal((await proxy(get(`/${n}`, from(n)))).body, `/${n}`)
})

for (const scheme of ['http', 'https']) {
  const start = (t: Test) => startRawUpstream(t, scheme === 'https' ? certificate : undefined)

  t.test(`an ${scheme} connection that a backend has authenticated serves that client alone`, async t => {
    // RV-02
    const raw = await start(t)
    const world = await startWorld(t, raw)
    const people = new WeakMap<object, string>()
    raw.respond(({ headers, socket }) => {
      const sent = headers.find(([name]) => name.toLowerCase() === 'authorization')?.[1] ?? ''
      if (sent === 'NTLM type3') people.set(socket, 'the page of A')
      const page = people.get(socket)
      if (page !== undefined) return respond(page)
      const asked = sent === 'NTLM type1' ? 'NTLM type2' : 'NTLM'
      return `HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: ${asked}\r\nContent-Length: 0\r\n\r\n`
    })
    const a = await connectClient(world)
    t.equal((await a(get('/x'))).status, 401)
    t.equal((await a(get('/x', 'Authorization: NTLM type1\r\n'))).status, 401)
    t.equal((await a(get('/x', 'Authorization: NTLM type3\r\n'))).body, 'the page of A')
    const used = raw.accepted()
    const waited = performance.now() + 300
    await until(() => performance.now() > waited)
    t.equal((await world.raw(get('/x'))).status, 401, 'another client, although the connection has been idle')
    t.equal((await a(get('/x'))).body, 'the page of A', 'its own client')
    t.ok(raw.accepted() > used)
  })

  for (const isOnce of [false, true])
    t.test(`answers that come twice go to no other client over ${scheme}: once ${isOnce}`, async t => {
      // RV-03, SM-24
      const raw = await start(t)
      const world = await startWorld(t, raw)
      let count = 0
      raw.respond(({ target }) => socket => {
        socket.write(respond(target))
        if (isOnce && count > 0) return
        setTimeout(() => socket.write(respond('an extra answer')), count++ % 7)
      })
      const ask = async (n: number) => (await world.raw(get(`/${n}`))).body === `/${n}`
      // What a connection carries is the same over TLS, which each of these requests would begin anew.
      const inTurn = scheme === 'http' ? 100 : 20
      let right = 0
      for (let n = 0; n < inTurn; n++) if (await ask(n)) right++
      for (let n = inTurn; n < 4 * inTurn; n += 8)
        right += (await Promise.all(Array.from({ length: 8 }, (_, i) => ask(n + i)))).filter(Boolean).length
      t.equal(right, scheme === 'http' ? 404 : 84)
      await world.logged(({ msg }) => /sent bytes that no request asked for/.test(msg))
      t.equal(world.log.filter(({ msg }) => /sent bytes that no request/.test(msg)).length, 1, 'it is said once')
    })

  t.test(`fifty HEAD requests of a client over ${scheme} use one connection`, async t => {
    // RV-14
    const raw = await start(t)
    const world = await startWorld(t, raw)
    raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
    const ask = await connectClient(world)
    for (let n = 0; n < 50; n++) {
      const head = await ask(`HEAD /${n} HTTP/1.1\r\nHost: gw\r\n\r\n`, { head: true })
      t.match(head, { status: 200, headers: { 'content-length': '5' } })
    }
    t.ok(raw.accepted() <= 2)
  })
}

for (const method of ['GET', 'POST'])
  t.test(`a late second response is no response to a ${method} that arrives in the same moment`, async t => {
    // RV-03
    const raw = await startRawUpstream(t)
    const world = await startWorld(t, raw)
    raw.respond(({ target }) => respond(target))
    const [a, b] = [await connectClient(world), await connectClient(world)]
    t.equal((await a(get('/a'))).body, '/a')
    const waited = performance.now() + 100
    await until(() => performance.now() > waited)
    const response = b(
      `${method} /b HTTP/1.1\r\nHost: gw\r\n${method === 'POST' ? 'Content-Length: 5\r\n\r\nhello' : '\r\n'}`
    )
    raw.requests[0]?.socket.write(respond('an extra answer'))
    t.match(await response, { status: 200, body: '/b' })
    t.equal(raw.requests.filter(({ target }) => target === '/b').length, 1)
  })

t.test('a connection that a poll of Socket.IO may have authenticated carries no request of another client', async t => {
  // RV-02
  const raw = await startRawUpstream(t)
  const world = await startWorld(t, raw)
  const [a, b] = [await connectClient(world), await connectClient(world)]
  await a(get('/socket.io/?EIO=4&transport=polling', 'Authorization: Negotiate dG9rZW4=\r\n'))
  const waited = performance.now() + 100
  await until(() => performance.now() > waited)
  t.equal((await b(get('/b'))).body, 'ok')
  const [poll, other] = raw.requests
  t.match(poll?.head, /\r\nAuthorization: Negotiate dG9rZW4=\r\n/)
  t.ok(other !== undefined && other.socket !== poll?.socket)
})

t.test('a login of a connection is not closed midway for another client while a free one is idle', async t => {
  // RV-02
  const raw = await startRawUpstream(t)
  const world = await startWorld(t, raw, { maxConnections: 2 })
  const begun = new WeakSet<object>()
  raw.respond(({ headers, socket, target }) => {
    const sent = headers.find(([name]) => name.toLowerCase() === 'authorization')?.[1]
    if (sent === undefined || (sent === 'NTLM type3' && begun.has(socket))) return respond(target)
    begun.add(socket)
    return 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM type2\r\nContent-Length: 0\r\n\r\n'
  })
  const [a, b, c] = [await connectClient(world), await connectClient(world), await connectClient(world)]
  t.equal((await a(get('/a', 'Authorization: NTLM type1\r\n'))).status, 401)
  t.equal((await b(get('/b'))).body, '/b')
  t.equal((await c(get('/c'))).body, '/c')
  t.equal((await a(get('/a', 'Authorization: NTLM type3\r\n'))).body, '/a')
})

t.test('a body that a response must not have is no response to the next request', async t => {
  // RV-14, RW-47
  const raw = await startRawUpstream(t)
  const world = await startWorld(t, raw)
  const announced = 'Content-Length: 5\r\n\r\nhello'
  const responses: Readonly<Record<string, string>> = {
    '/length': `HTTP/1.1 200 OK\r\n${announced}`,
    '/chunked': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    '/unchanged': `HTTP/1.1 304 Not Modified\r\n${announced}`
  }
  raw.respond(({ target }) => responses[target] ?? OK)
  const ask = await connectClient(world)
  const asked = ['HEAD /length', 'HEAD /chunked', 'GET /unchanged']
  for (const line of [...asked, ...asked]) {
    await ask(`${line} HTTP/1.1\r\nHost: gw\r\n\r\n`, { head: line.startsWith('HEAD') })
    t.equal((await ask(get('/'))).body, 'ok', line)
    t.equal((await world.raw(get('/'))).body, 'ok', `${line}, another client`)
  }
  await world.logged(({ msg }) => /sent bytes that no request asked for/.test(msg))
  raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n')
  const before = raw.accepted()
  for (let n = 0; n < 3; n++) await ask('HEAD / HTTP/1.1\r\nHost: gw\r\n\r\n', { head: true })
  t.ok(raw.accepted() - before >= 2)
})

t.test('a request with a body costs no more time over TLS than one without', async t => {
  // RV-04: the body waited for the delayed acknowledgement of its head, 40 ms each time.
  const raw = await startRawUpstream(t, certificate)
  const ask = await connectClient(await startWorld(t, raw))
  const time = async (request: string): Promise<number> => {
    const begun = performance.now()
    for (let n = 0; n < 20; n++) t.equal((await ask(request)).status, 200)
    return performance.now() - begun
  }
  let extraMs = Number.POSITIVE_INFINITY
  // On a busy machine, once more.
  for (let round = 0; round < 10 && extraMs >= 20 * 20; round++) {
    const withoutBody = await time(get('/x'))
    extraMs = (await time('POST /x HTTP/1.1\r\nHost: gw\r\nContent-Length: 5\r\n\r\nhello')) - withoutBody
  }
  t.ok(extraMs < 20 * 20, `${extraMs} ms`)
})
