// A request over HTTP/2 is answered as the same request over HTTP/1.1, and reaches the backend as one of those.
import type { OutgoingHttpHeaders } from 'node:http2'
import t from 'tap'
import { readRequestHead } from '../../../gateway/http/http2/request-head.ts'
import {
  answerOverTls,
  askHttp2,
  connectFrames,
  connectHttp2,
  FRAMES,
  frame,
  literal,
  startHttp2World
} from '../../support/http2-client.ts'
import { OK } from '../../support/raw-upstream.ts'
import { until } from '../../support/until.ts'
import { fc } from '../../support/worlds.ts'

const VARYING =
  /^(?:date|x-request-id|x-ratelimit-remaining|x-ratelimit-reset|connection|keep-alive|transfer-encoding)$/

t.test('status, fields and body are those of HTTP/1.1', async t => {
  const { world, place, upstream } = await startHttp2World(t)
  upstream.respond(({ target, method }) => {
    if (target === '/open/empty') return 'HTTP/1.1 204 No Content\r\nX-A: 1\r\nX-A: 2\r\n\r\n'
    if (target === '/open/cookies')
      return 'HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n'
    if (target === '/open/chunked') return 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    if (target === '/open/latin') return 'HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nContent-Length: 1\r\n\r\n\xe9'
    return method === 'HEAD' ? 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n' : OK
  })
  const token = await world.tokenFor()
  const bearer = { authorization: `Bearer ${token}` }
  const session = await connectHttp2(t, place)
  const cases: [string, string, Record<string, string>, string][] = [
    ['GET', '/open/x?a=%20b', {}, ''],
    ['HEAD', '/open/x', {}, ''],
    ['GET', '/open/empty', {}, ''],
    ['GET', '/open/cookies', {}, ''],
    ['GET', '/open/chunked', {}, ''],
    ['GET', '/open/latin', {}, ''],
    ['POST', '/open/x', { 'content-length': '5' }, 'hello'],
    ['GET', '/private', {}, ''],
    ['GET', '/private', bearer, ''],
    ['GET', '/admin', bearer, ''],
    ['GET', '/nowhere', bearer, ''],
    ['GET', '/private', { accept: 'text/html', 'sec-fetch-mode': 'navigate' }, ''],
    ['OPTIONS', '/private', { origin: 'https://gw.example', 'access-control-request-method': 'GET' }, ''],
    ['GET', '/open/../private', {}, ''],
    ['GET', '/auth/me', bearer, '']
  ]
  for (const [method, path, headers, body] of cases) {
    const fields: OutgoingHttpHeaders = { ':method': method, ':path': path, ':authority': 'gw.example', ...headers }
    const over2 = await askHttp2(session, fields, body === '' ? [] : [body])
    const over1 = await answerOverTls(place, method, path, { host: 'gw.example', ...headers }, body)
    const shown = (all: object) =>
      Object.fromEntries(Object.entries(all).filter(([name]) => !VARYING.test(name) && !name.startsWith(':')))
    t.equal(over2.status, over1.status, `${method} ${path}`)
    t.same(shown({ ...over2.headers }), shown(over1.headers), `fields of ${method} ${path}`)
    const same = (text: string) => text.replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/, '')
    t.equal(same(over2.body), same(over1.body), `body of ${method} ${path}`)
    t.equal(over2.code, 0)
  }
  const line = await world.logged(one => one.protocol === 'h2' && one.path === '/private' && one.status === 200)
  t.equal(line.decision, 'allow')
  t.equal(line.reason, undefined, 'the response was delivered')
})

t.test('crumbs of a cookie are one field, and a body without a length is chunked', async t => {
  const { place, upstream } = await startHttp2World(t)
  const session = await connectHttp2(t, place)
  await askHttp2(session, { ':path': '/open/x', ':method': 'PUT', cookie: ['a=1', 'b=2'] }, ['he', 'llo'])
  const { head, body } = await upstream.request()
  t.match(head, /^PUT \/open\/x HTTP\/1\.1\r\n/)
  t.match(head, /\r\ncookie: a=1; b=2\r\n/)
  t.match(head, /\r\ntransfer-encoding: chunked\r\n/)
  t.equal(body.replace(/\r\n|[0-9a-f]+(?=\r\n)/g, ''), 'hello')
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

t.test('what HTTP/1.1 could not say, or would say otherwise, is refused, and the connection goes on', async t => {
  const { place, upstream } = await startHttp2World(t)
  const { socket, frames } = await connectFrames(t, place)
  const pseudo = { method: 'GET', path: '/open/x', scheme: 'https', authority: 'gw.example' }
  const block = (fields: object, ...more: readonly (readonly [string, string])[]) =>
    Buffer.concat([
      ...Object.entries(fields).map(([name, value]) => literal(`:${name}`, value)),
      ...more.map(([name, value]) => literal(name, value))
    ])
  const faulty: Record<string, Buffer> = {
    'upper case': block(pseudo, ['Abc', 'x']),
    connection: block(pseudo, ['connection', 'close']),
    'keep-alive': block(pseudo, ['keep-alive', '1']),
    'proxy-connection': block(pseudo, ['proxy-connection', 'x']),
    'transfer-encoding': block(pseudo, ['transfer-encoding', 'chunked']),
    upgrade: block(pseudo, ['upgrade', 'websocket']),
    'te other than trailers': block(pseudo, ['te', 'gzip']),
    'a late pseudo-field': Buffer.concat([literal('a', 'x'), block(pseudo)]),
    'an unknown pseudo-field': block({ ...pseudo, protocol: 'websocket' }),
    'two paths': Buffer.concat([block(pseudo), literal(':path', '/y')]),
    'no path': block({ method: 'GET', scheme: 'https', authority: 'gw.example' }),
    'an empty path': block({ ...pseudo, path: '' }),
    'a path with a space': block({ ...pseudo, path: '/open/x HTTP/1.1' }),
    'a path without a slash': block({ ...pseudo, path: 'open/x' }),
    'an unknown method': block({ ...pseudo, method: 'get' }),
    'a method with a line break': block({ ...pseudo, method: 'GET / HTTP/1.1\r\nx:' }),
    'two authorities': block(pseudo, ['host', 'other.example']),
    'two hosts': block(pseudo, ['host', 'gw.example'], ['host', 'gw.example']),
    'a bad content-length': block(pseudo, ['content-length', '1x']),
    'a length without a body': block(pseudo, ['content-length', '5']),
    CONNECT: block({ method: 'CONNECT', authority: 'db.example:5432' }),
    'extended CONNECT': block({ ...pseudo, method: 'CONNECT', protocol: 'websocket' })
  }
  let stream = -1
  for (const [name, bytes] of Object.entries(faulty)) {
    stream += 2
    socket.write(frame(FRAMES.headers, 0x5, stream, bytes))
    const own = () => frames.filter(one => one.stream === stream)
    await until(() => own().length > 0, name)
    const [first] = own()
    const isReset = first?.type === FRAMES.resetStream && first.payload.readUInt32BE(0) === 1
    // 400 is literal or indexed (RFC 7541, Appendix A: 8d).
    t.ok(
      isReset || first?.payload[0] === 0x8c || first?.payload.includes('400'),
      `${name}: ${first?.type} ${first?.payload.toString('hex')}`
    )
  }
  t.equal(upstream.requests.length, 0, 'no backend was asked')
  stream += 2
  socket.write(frame(FRAMES.headers, 0x5, stream, block(pseudo)))
  await upstream.request()
  t.notOk(socket.destroyed)
})

t.test('fields that no HTTP/1.1 message can carry reach no backend', async t => {
  const { place, upstream } = await startHttp2World(t)
  const { socket } = await connectFrames(t, place)
  const odd = [
    ...['a\r\nx-user-id: 1', 'a\0', 'a\n', ' a', 'a\x7f'].map(value => ['x-odd', value] as const),
    ...['x y', 'x:y', 'x\r\ny', ''].map(name => [name, 'x-user-id: 1'] as const)
  ]
  const pseudo = { method: 'GET', path: '/open/x', scheme: 'https', authority: 'gw.example' }
  const plain = Object.entries(pseudo).map(([name, value]) => literal(`:${name}`, value))
  for (const [index, [name, value]] of odd.entries())
    socket.write(frame(FRAMES.headers, 0x5, 2 * index + 1, Buffer.concat([...plain, literal(name, value)])))
  socket.write(frame(FRAMES.headers, 0x5, 101, Buffer.concat([...plain, literal('x-last', '1')])))
  await until(() => upstream.requests.some(({ head }) => head.includes('x-last')))
  t.notMatch(upstream.received(), /x-user-id/)
  for (const line of upstream.received().split('\r\n')) t.match(line, /^[\x20-\x7e]*$/)
})

t.test('a head is read exactly as the HTTP/1.1 request that it becomes, or not at all', async t => {
  const text = fc.string({
    unit: fc.constantFrom('a', 'B', '1', ' ', ':', ',', '\r', '\n', '\0', '\t', '/', ';', '=', '\x80', '"')
  })
  const name = fc.oneof(
    fc.constantFrom('host', 'cookie', 'content-length', 'te', 'a', 'x-b', ':path', ':authority', ':method'),
    text
  )
  const raw = fc.array(fc.tuple(name, fc.oneof(text, fc.constantFrom('a.example', '5', 'trailers', '/x'))), {
    maxLength: 8
  })
  let read = 0
  fc.assert(
    fc.property(raw, fc.boolean(), (pairs, hasBody) => {
      const head = readRequestHead(
        [':method', 'POST', ':path', '/p', ':authority', 'a.example', ...pairs.flat()],
        hasBody
      )
      if (typeof head === 'string') return
      read++
      const lines = [head.method, head.target, ...head.fields].join('\n')
      t.notOk(
        /[\r\0]/.test(lines) || [head.method, head.target, ...head.fields].some(part => part.includes('\n')),
        JSON.stringify(pairs)
      )
      for (let i = 0; i < head.fields.length; i += 2) t.match(head.fields[i], /^[\w!#$%&'*+.^`|~-]+$/)
    }),
    { numRuns: 5000 }
  )
  t.ok(read > 200, `${read} were read`)
})
