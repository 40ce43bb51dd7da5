// The doctor finds what is broken over HTTP/2 alone, and nothing where nothing is.
import net from 'node:net'
import tls from 'node:tls'
import t from 'tap'
import { createCertificateAuthority, pemOf } from '../support/certificates.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { checkFoundOut, type Diagnosis, startEcho } from '../support/doctor.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { FRAMES, frame, readFrames } from '../support/http2-client.ts'
import { listen } from '../support/ports.ts'
import { ERRS_OVER_HTTP2, startVulnerableProxy } from '../support/vulnerable-proxy.ts'

const certificate = createCertificateAuthority(t.testdir({})).issue('one')
const idsOf = ({ findings }: Diagnosis) => findings.map(({ id }) => id).filter(id => id.startsWith('http2'))

t.test('a proxy whose rules are for HTTP/1.1 alone is found out', t =>
  checkFoundOut(
    t,
    ERRS_OVER_HTTP2,
    [
      [
        ['http2-open'],
        'http2-header-method-override',
        'http2-method-unguarded',
        'http2-identity-believed',
        'http2-address-believed',
        'http2-host-confused',
        'http2-sni-confused',
        'tls'
      ],
      [
        ['http2-head-open', 'http2-token-in-crumbs', 'dots', 'identity-forwarded'],
        'path-slashes',
        'path-backslash',
        'path-tail',
        'path-absolute',
        'host-confused',
        'token-on-public',
        'http2-path-dots',
        'http2-path-slashes',
        'http2-path-backslash',
        'http2-path-tail',
        'http2-identity-forged',
        'http2-token-on-public',
        'tls'
      ]
    ],
    certificate
  )
)

t.test('a server that takes malformed HTTP/2 requests is found out', async t => {
  const proxy = await startVulnerableProxy(t)
  const server = tls.createServer({ ...pemOf(certificate), ALPNProtocols: ['h2', 'http/1.1'] }, socket => {
    socket.on('error', () => undefined)
    if (socket.alpnProtocol !== 'h2') {
      const behind = net.connect(Number(new URL(proxy.url).port), '127.0.0.1').on('error', () => socket.destroy())
      return void socket.pipe(behind).pipe(socket)
    }
    socket.write(frame(FRAMES.settings, 0, 0))
    const answer = readFrames(({ type, stream }) => {
      if (type === FRAMES.headers) socket.write(frame(FRAMES.headers, 5, stream, Buffer.from([0x88])))
    })
    let skipped = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      const preface = 24 - skipped.length
      skipped = Buffer.concat([skipped, bytes.subarray(0, Math.max(preface, 0))])
      answer(bytes.subarray(Math.max(preface, 0)))
    })
  })
  const url = `https://127.0.0.1:${await listen(t, server)}`
  const result = await portaria(['doctor', url, '--private', '/private/data', '--public', '/public/page', '--json'])
  t.same(idsOf(result.json<Diagnosis>()), ['http2-malformed'])
  t.match(result.stdout, /transfer-encoding: chunked succeeds/)
})

t.test('the doctor finds nothing in this gateway over HTTP/2', async t => {
  const url = await startEcho(t)
  const world = await startGateway(t, {
    env: { TLS_CERT_FILE: certificate.certFile, TLS_KEY_FILE: certificate.keyFile },
    config: {
      upstreams: { echo: { url } },
      routes: [
        { path: '/public/*', upstream: 'echo', public: true },
        { path: '/private/*', upstream: 'echo' }
      ]
    }
  })
  const token = await world.tokenFor()
  const knowing = ['--config', world.folder, '--token', token, '--with-secret', '--max-requests', '2000', '--json']
  const address = `https://127.0.0.1:${world.port}`
  const result = await portaria(['doctor', address, ...knowing], { env: { JWT_SECRET: TEST_SECRET } })
  const { findings, requests, complete } = result.json<Diagnosis>()
  const ids = findings.map(({ id }) => id)
  t.same(ids, ['tls'], 'nothing but the certificate, whose authority nobody knows')
  t.ok(complete && requests > 300, `${requests} requests were made`)
})
