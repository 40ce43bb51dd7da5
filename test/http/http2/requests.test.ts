// A request is answered in the same way over HTTP/1.1, with and without TLS, and over HTTP/2, and reaches the backend as the same.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { OutgoingHttpHeaders } from 'node:http2'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { fieldValues } from '../../../gateway/http/request.ts'
import { startGateway } from '../../support/gateway.ts'
import { answerOverHttp1, askHttp2, connectHttp2, startHttp2World } from '../../support/http2-client.ts'
import { OK } from '../../support/raw-upstream.ts'

const ENV = { MAX_BODY: '1KB', TRUST_PROXY: '127.0.0.1' }
const VARYING =
  /^(?:date|x-request-id|x-ratelimit-remaining|x-ratelimit-reset|connection|keep-alive|transfer-encoding|x-forwarded-proto|strict-transport-security)$/

t.test('status, fields, body and what the backend receives are the same over three transports', async t => {
  const { world, place, upstream } = await startHttp2World(t, { env: ENV })
  const plain = await startGateway(t, {
    postgres: world.postgres,
    config: parse(readFileSync(join(world.folder, 'routes.yaml'), 'utf8')),
    env: { PUBLIC_URL: 'https://gw.example', ...ENV }
  })
  upstream.respond(({ target, method }) => {
    if (target === '/open/empty') return 'HTTP/1.1 204 No Content\r\nX-A: 1\r\nX-A: 2\r\n\r\n'
    if (target === '/open/cookies')
      return 'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n'
    if (target === '/open/chunked') return 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    if (target === '/open/latin') return 'HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nContent-Length: 1\r\n\r\n\xe9'
    if (target === '/open/unchanged') return 'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n'
    if (target === '/open/events')
      return 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n0\r\n\r\n'
    return method === 'HEAD' ? 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n' : OK
  })
  const token = await world.tokenFor()
  const bearer = { authorization: `Bearer ${token}` }
  const asked = (uri: string) => ({ 'x-forwarded-method': 'GET', 'x-forwarded-uri': uri })
  const session = await connectHttp2(t, place)
  const cases: [number, string, string, Record<string, string>, string][] = [
    [200, 'GET', '/open/x?a=%20b', {}, ''],
    [200, 'HEAD', '/open/x', {}, ''],
    [204, 'GET', '/open/empty', {}, ''],
    [204, 'HEAD', '/open/empty', {}, ''],
    [304, 'GET', '/open/unchanged', { 'if-none-match': '"x"' }, ''],
    [200, 'GET', '/open/events', { accept: 'text/event-stream' }, ''],
    [401, 'GET', '/nowhere', {}, ''],
    [401, 'HEAD', '/nowhere', {}, ''],
    [200, 'GET', '/open/cookies', {}, ''],
    [200, 'GET', '/open/chunked', {}, ''],
    [200, 'GET', '/open/latin', {}, ''],
    [200, 'POST', '/open/x', { 'content-length': '5' }, 'hello'],
    [401, 'GET', '/private', {}, ''],
    [200, 'GET', '/private', bearer, ''],
    [403, 'GET', '/admin', bearer, ''],
    [404, 'GET', '/nowhere', bearer, ''],
    [401, 'GET', '/private', { accept: 'text/html', 'sec-fetch-mode': 'navigate' }, ''],
    [204, 'OPTIONS', '/private', { origin: 'https://gw.example', 'access-control-request-method': 'GET' }, ''],
    [400, 'GET', '/open/../private', {}, ''],
    [200, 'GET', '/auth/me', bearer, ''],
    [200, 'GET', '/private', { ...bearer, 'x-user-id': '1', x_user_id: '1', cookie: 'a=1; b=2' }, ''],
    [200, 'PUT', '/private', { ...bearer, 'content-length': '2' }, 'ok'],
    [401, 'GET', '/private', { authorization: 'Bearer x' }, ''],
    [200, 'HEAD', '/private', bearer, ''],
    [403, 'GET', '/auth/admin/users', bearer, ''],
    [400, 'POST', '/auth/login', { 'content-type': 'application/json', 'content-length': '2' }, '{}'],
    [413, 'POST', '/open/x', { 'content-length': '1025' }, 'x'.repeat(1025)],
    [401, 'GET', '/auth/forward', asked('/asked'), ''],
    [200, 'GET', '/auth/forward', { ...bearer, ...asked('/asked') }, ''],
    [403, 'GET', '/auth/forward', { ...bearer, ...asked('/asked/admin') }, ''],
    [401, 'GET', '/auth/forward', { ...asked('/asked'), accept: 'text/html', 'sec-fetch-mode': 'navigate' }, ''],
    [403, 'GET', '/auth/forward?mode=nginx', { ...bearer, ...asked('/asked/admin') }, ''],
    [405, 'TRACE', '/open/x', {}, ''],
    [400, 'GET', '/open/%2e%2e/private', {}, ''],
    [414, 'GET', `/open/${'x'.repeat(9000)}`, {}, '']
  ]
  for (const [status, method, path, headers, body] of cases) {
    const fields: OutgoingHttpHeaders = { ':method': method, ':path': path, ':authority': 'gw.example', ...headers }
    const received = () => {
      const fields = upstream.requests.splice(0).map(({ method, target, headers, body }) => ({
        line: [method, target, body],
        headers: headers.filter(([name]) => !VARYING.test(name.toLowerCase())).map(pair => pair.join(': '))
      }))
      return fields.map(one => ({ ...one, headers: one.headers.map(line => line.toLowerCase()).toSorted() }))
    }
    const over2 = await askHttp2(session, fields, body === '' ? [] : [body])
    const atBackend = received()
    const shown = (all: object) =>
      Object.fromEntries(Object.entries(all).filter(([name]) => !VARYING.test(name) && !name.startsWith(':')))
    const same = (text: string) => text.replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/, '')
    for (const other of [place, { port: plain.port }]) {
      const what = `${method} ${path.slice(0, 40)}, ${'ca' in other ? 'TLS' : 'HTTP/1.1'}`
      const over1 = await answerOverHttp1(other, method, path, { host: 'gw.example', ...headers }, body)
      t.equal(over2.status, over1.status, what)
      t.same(shown({ ...over2.headers }), shown(over1.headers), `fields of ${what}`)
      t.equal(same(over2.body), same(over1.body), `body of ${what}`)
      t.same(atBackend, received(), `at the backend: ${what}`)
    }
    t.match(over2, { status, code: 0 }, `${method} ${path.slice(0, 40)}`)
  }
  const line = await world.logged(one => one.protocol === 'h2' && one.path === '/private' && one.status === 200)
  t.equal(line.decision, 'allow')
  t.equal(line.reason, undefined, 'the response was delivered')
})

t.test('a response that HTTP/2 cannot carry as it is never leaves its client waiting', async t => {
  const { world, place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  const chunked = 'Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
  const cases: [what: string, response: string, status: number, body: string][] = [
    ['no status above 599 exists', 'HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\nok', 502, 'ok'],
    ['the same in chunks', `HTTP/1.1 999 Denied\r\n${chunked}`, 502, 'ok'],
    ['205 has no content', 'HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nok', 205, ''],
    ['the same in chunks', `HTTP/1.1 205 Reset Content\r\n${chunked}`, 205, ''],
    ['a field of another protocol', 'HTTP/1.1 200 OK\r\nHTTP2-Settings: AA\r\nContent-Length: 2\r\n\r\nok', 200, 'ok'],
    ['the same behind chunks', `HTTP/1.1 200 OK\r\n${chunked.slice(0, -2)}HTTP2-Settings: AA\r\n\r\n`, 200, 'ok']
  ]
  for (const [what, response, status, body] of cases) {
    upstream.respond(({ method }) => (method === 'HEAD' ? `${response.split('\r\n\r\n')[0]}\r\n\r\n` : response))
    const ask = (method: string) => askHttp2(session, { ':path': '/open/x', ':method': method })
    t.match(await ask('GET'), { status, body, code: 0 }, what)
    t.match(await ask('HEAD'), { status, body: '', code: 0 }, `HEAD, ${what}`)
  }
  t.notOk(world.log.some(({ level }) => level >= 50))
})

t.test('an empty field line beside another leaves no blank at the end of the value', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  upstream.respond(() => 'HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A:\r\nX-B:\r\nX-B: 2\r\nContent-Length: 2\r\n\r\nok')
  t.match((await askHttp2(session, { ':path': '/open/x' })).headers, { 'x-a': '1', 'x-b': '2' })
})

t.test('of several Strict-Transport-Security fields each stays a field, of which browsers take the first', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  const field = (days: number) => `Strict-Transport-Security: max-age=${days * 86_400}\r\n`
  upstream.respond(() => `HTTP/1.1 200 OK\r\n${field(365)}${field(730)}Content-Length: 0\r\n\r\n`)
  const stream = session.request({ ':path': '/open/x' })
  const [, , raw] = (await once(stream, 'response')) as [unknown, unknown, readonly string[]]
  t.same(fieldValues(raw, 'strict-transport-security'), ['max-age=31536000', 'max-age=63072000'])
  stream.close()
})

t.test('requests over HTTP/1.1 and HTTP/2 are counted together', async t => {
  const { world, place, upstream } = await startHttp2World(t, {
    env: { RATE_LIMIT_MAX: '2', RATE_LIMIT_TTL_MS: '3600000' }
  })
  upstream.respond(() => OK)
  const session = await connectHttp2(t, place)
  const fields = { ':path': '/open/x', ':authority': 'gw.example' }
  const over1 = () => answerOverHttp1(place, 'GET', '/open/x', { host: 'gw.example' }, '')
  for (const status of [200, 429]) {
    t.match(await askHttp2(session, fields), { status, ...(status === 429 && { body: /GW_RATE_LIMITED/ }) })
    t.match(await over1(), { status })
  }
  t.ok(await world.logged(one => one.protocol === 'h2' && one.status === 429))
})

t.test('a request with a body is logged once it is over, as delivered, also if its body was not read', async t => {
  const { world, place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  upstream.respond(() => OK)
  for (const size of [0, 10, 100_000]) {
    const body = size === 0 ? [] : [Buffer.alloc(size)]
    t.match(await askHttp2(session, { ':path': `/open/${size}`, ':method': 'POST' }, body), { status: 200 })
    t.notOk((await world.logged(({ path }) => path === `/open/${size}`)).reason, String(size))
  }
  t.match(await askHttp2(session, { ':path': '/private', ':method': 'POST' }, ['unread']), { status: 401 })
  t.match(await world.logged(({ path }) => path === '/private'), { status: 401, reason: 'no-token' })
})

t.test('a Host beside :authority may leave out the port of https, but not name another', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  upstream.respond(() => OK)
  const [bare, withPort] = ['gw.example', 'GW.example:443']
  const cases: [authority: string, host: string, status: number][] = [
    [bare, withPort, 200],
    [withPort, bare, 200],
    [bare, `${bare}:8443`, 400],
    [bare, 'other.example:443', 400]
  ]
  for (const [authority, host, status] of cases) {
    const answer = await askHttp2(session, { ':path': '/open/x', ':authority': authority, host })
    t.equal(answer.status, status, `${authority}, ${host}`)
  }
})

t.test('a head that is too large is answered or reset, and logged, like one over HTTP/1.1', async t => {
  const { world, place } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  t.match(await askHttp2(session, { ':path': '/open/x', cookie: 'c'.repeat(20_000) }), { status: 431 })
  const common = { msg: 'refused an unreadable request', code: 'GW_BAD_REQUEST', reason: 'too-large', protocol: 'h2' }
  t.match(await world.logged(({ status }) => status === 431), common)
  const many = Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`x-${i}`, 'y']))
  t.match(await askHttp2(session, { ':path': '/open/x', ...many }), { status: 0, code: 11 })
  t.match(await world.logged(({ reason, status }) => reason === 'too-large' && status === undefined), common)
})

t.test('interim responses and trailers pass, an expectation is met', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  upstream.respond(
    () =>
      'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n' +
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n'
  )
  const answer = await askHttp2(session, { ':path': '/open/x' })
  t.match(answer, { status: 200, body: 'ok', trailers: { 'x-sum': '7' } })
  t.match(answer.interim, [{ ':status': 103, link: '</a.css>; rel=preload' }])
  upstream.respond(() => OK)
  const waiting = await askHttp2(session, { ':path': '/open/x', ':method': 'POST', expect: '100-continue' }, ['x'])
  t.match(waiting, { status: 200, interim: [{ ':status': 100 }] })
})
