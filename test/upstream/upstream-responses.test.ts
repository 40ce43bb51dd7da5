// What is accepted from backends reaches clients in the strict form; the rest is refused, and HTTP/2 is called what it is.

import { createSecureServer, createServer, type Http2Server } from 'node:http2'
import { createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const authority = createCertificateAuthority(t.testdir({}))
const backends = [await startRawUpstream(t), await startRawUpstream(t, authority.issue('backend'))]
const world = await startGateway(t, {
  config: {
    upstreams: Object.fromEntries(
      backends.map(({ url }, i) => [`b${i}`, { url, ...(i === 1 ? { caFile: authority.caFile } : {}) }])
    ),
    routes: backends.map((_, i) => ({ path: `/${i}/*`, upstream: `b${i}`, public: true }))
  }
})
const ask = (i: number) => world.raw(`GET /${i}/x HTTP/1.1\r\nHost: gw\r\n\r\n`)

const accepted: [what: string, bytes: string, status: number, body: string][] = [
  ['an equal Content-Length twice', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok', 200, 'ok'],
  ['an equal Content-Length in a list', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok', 200, 'ok'],
  ['HTTP/1.2', 'HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok', 200, 'ok'],
  ['HTTP/1.9 in chunks', 'HTTP/1.9 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', 200, 'ok'],
  ['lines that end in LF', 'HTTP/1.1 200 OK\nX-One: 1\nContent-Length: 2\nX-Two: 2\r\n\nok', 200, 'ok'],
  ['LF in chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\n\n1\no\n1;a=b\r\nk\n0\nX-Sum: 1\n\n', 200, 'ok'],
  [
    'blanks in lines of chunks',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nok\r\n0\t \r\n\r\n',
    200,
    'ok'
  ],
  ['status 600', 'HTTP/1.1 600 Odd\r\nContent-Length: 2\r\n\r\nok', 600, 'ok'],
  ['status 999', 'HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n', 999, '']
]
t.test('what some backends send is accepted, and written strictly', async t => {
  // RV-18
  for (const [what, bytes, status, body] of accepted)
    for (const [i, backend] of backends.entries()) {
      backend.respond(() => bytes)
      const response = await ask(i)
      t.match(response, { status, body, complete: true }, what)
      t.notMatch(response.head, /(?:^|[^\r])\n/, 'no bare LF')
      t.ok((response.head.match(/content-length/gi) ?? []).length <= 1, what)
      // The connection is in step: an ordinary response follows.
      backend.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext')
      t.equal((await ask(i)).body, 'next', what)
    }
})

const refused: [what: string, bytes: string][] = [
  ['different lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk'],
  ['different lengths in a list', 'HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nokk'],
  [
    'a length beside chunks',
    'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
  ],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['an empty line first', '\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['a control byte in a value', 'HTTP/1.1 200 OK\r\nX-A: a\x01b\r\nContent-Length: 2\r\n\r\nok'],
  ['a CR in a value', 'HTTP/1.1 200 OK\r\nX-A: a\rb\r\nContent-Length: 2\r\n\r\nok'],
  ['a folded line', 'HTTP/1.1 200 OK\r\nX-A: a\n b\r\nContent-Length: 2\r\n\r\nok'],
  ['a blank before a colon', 'HTTP/1.1 200 OK\r\nA : b\r\n\r\n'],
  ['a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n'],
  ['CR alone at line ends', 'HTTP/1.1 200 OK\rContent-Length: 2\r\rok'],
  ['another transfer coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n'],
  ['an upgrade that nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n'],
  ['a head of 40 KB', `HTTP/1.1 200 OK\r\nA: ${'a'.repeat(40_000)}\r\n\r\n`],
  ['another protocol', 'SSH-2.0-OpenSSH\r\n\r\n'],
  ['a status that begins with 0', 'HTTP/1.1 099 No\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 60 No\r\n\r\n'],
  ['a status line without a minor version', 'HTTP/2 200\r\n\r\n'],
  ['HTTP/2.0', 'HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok']
]
t.test('a response that could be read in two ways, or is none, is refused', async t => {
  // RV-18, RX-10, SM-23
  for (const [what, bytes] of refused)
    for (const [i, backend] of backends.entries()) {
      backend.respond(() => Buffer.from(bytes, 'latin1'))
      t.match(await ask(i), { status: 502, body: /GW_BAD_UPSTREAM_RESPONSE/ }, what)
    }
})

const start = async (t: Test, server: Http2Server): Promise<number> => {
  server.on('sessionError', () => undefined)
  return listen(t, server)
}

const HTTP2_ONLY = 'upstream-http2-only'
const WARNING = /^an upstream target speaks HTTP\/2 only/

t.test('a backend that speaks HTTP/2 only is named in the log as what it is', async t => {
  const authority = createCertificateAuthority(t.testdir({}))
  // As gRPC servers do: the SETTINGS frame comes before anything was asked.
  const eager = createTcpServer(socket => {
    socket.on('error', () => undefined)
    socket.write(Buffer.from([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]))
  })
  const plain = await start(t, createServer())
  const secure = await start(
    t,
    createSecureServer({ ...pemOf(authority.issue('backend')), allowHTTP1: false, unknownProtocolTimeout: 100 })
  )
  const early = await start(t, eager as unknown as Http2Server)
  const world = await startGateway(t, {
    config: {
      upstreams: {
        plain: { url: `http://127.0.0.1:${plain}` },
        early: { url: `http://127.0.0.1:${early}` },
        secure: { url: `https://127.0.0.1:${secure}`, caFile: authority.caFile }
      },
      routes: ['plain', 'early', 'secure'].map(name => ({
        path: `/${name}`,
        upstream: name,
        public: true,
        websocket: {}
      }))
    }
  })
  for (const name of ['plain', 'early', 'secure']) {
    const answer = await world.fetch(`/${name}`)
    t.equal(answer.status, 502, name)
    t.match(await answer.json(), { code: 'GW_BAD_UPSTREAM_RESPONSE' }, name)
    await world.logged(({ msg, upstream }) => WARNING.test(msg) && upstream === name)
    t.match(await world.logged(({ route }) => route === `/${name}`), { reason: HTTP2_ONLY }, name)
    const upgrade = await rawWebSocket(world.port, { path: `/${name}?upgrade` })
    t.match(upgrade.head(), /^HTTP\/1\.1 502 /, name)
    await until(
      () => world.log.filter(({ reason, route }) => reason === HTTP2_ONLY && route === `/${name}`).length === 2
    )
  }
  t.equal(world.log.filter(({ msg }) => WARNING.test(msg)).length, 3, 'once a minute for each')
})
