// Names a backend that does not speak HTTP/1.1.
import { readFileSync } from 'node:fs'
import { createSecureServer, createServer, type Http2Server } from 'node:http2'
import { createServer as createTcpServer } from 'node:net'
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { until } from '../support/until.ts'

const start = async (t: Test, server: Http2Server): Promise<number> => {
  server.on('sessionError', () => undefined)
  return listen(t, server)
}

const HTTP2_ONLY = 'upstream-http2-only'
const WARNING = /^an upstream target speaks HTTP\/2 only/

t.test('a backend that speaks HTTP/2 only is named in the log as what it is', async t => {
  const authority = createCertificateAuthority(t.testdir({}))
  const { certFile, keyFile } = authority.issue('backend')
  const files = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
  // As gRPC servers do: the SETTINGS frame comes before anything was asked.
  const eager = createTcpServer(socket => {
    socket.on('error', () => undefined)
    socket.write(Buffer.from([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100]))
  })
  const plain = await start(t, createServer())
  const secure = await start(t, createSecureServer({ ...files, allowHTTP1: false, unknownProtocolTimeout: 100 }))
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
