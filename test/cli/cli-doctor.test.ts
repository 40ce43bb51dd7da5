// The doctor finds what is broken, and nothing where nothing is.
import { once } from 'node:events'
import http from 'node:http'
import t from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { checkFoundOut, type Diagnosis, examine, startEcho } from '../support/doctor.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { READS_LAXLY, startVulnerableProxy } from '../support/vulnerable-proxy.ts'

// RW-10, RW-11, RW-40, RW-41, RW-42, RT-01 to RT-13
t.test('a proxy that reads paths laxly is found out, with its remedy', t =>
  checkFoundOut(t, READS_LAXLY, [
    [['slashes', 'encoded-slash', 'encoding', 'backslash', 'case', 'tail', 'format', 'script', 'plus', 'unicode']],
    [['double-encoding', 'parameters'], 'path-encoded-slash', 'path-encoding', 'path-slashes'],
    [['folding', 'absolute'], 'host-confused'],
    [['dots'], 'path-slashes', 'path-backslash', 'path-tail', 'path-absolute', 'host-confused']
  ])
)

t.test('a sound proxy gets a clean bill', async t => {
  const result = await examine(t)
  t.same(result.json<Diagnosis>().findings, [])
  t.equal(result.code, 0)
})

t.test('a doctor that meets a rate limit waits as asked, and says so when that takes too long', async t => {
  const { url } = await startVulnerableProxy(t, [], 40)
  const patient = await portaria(['doctor', url, '--private', '/private/data', '--json'])
  t.match(patient.json(), { complete: true, findings: [] })
  t.equal(patient.code, 0)
  const shut = await startVulnerableProxy(t, [], 1)
  const hasty = await portaria(['doctor', shut.url, '--private', '/private/data', '--max-seconds', '1'])
  t.equal(hasty.code, 2)
  t.match(hasty.stderr, /Nothing could be tried/)
})

t.test('the doctor finds nothing in this gateway, whatever it knows about it', async t => {
  const url = await startEcho(t)
  const world = await startGateway(t, {
    config: {
      upstreams: { echo: { url } },
      routes: [
        { path: '/', upstream: 'echo', public: true },
        { path: '/public/*', upstream: 'echo', public: true },
        { path: '/private/*', upstream: 'echo' },
        { path: '/private/admin/*', upstream: 'echo', roles: ['Admin'] },
        { path: '/live', upstream: 'echo', websocket: {} }
      ]
    }
  })
  const token = await world.tokenFor()
  const knowing = ['--config', world.folder, '--token', token, '--with-secret', '--max-requests', '1000', '--json']
  const result = await portaria(['doctor', world.url, ...knowing], { env: { JWT_SECRET: TEST_SECRET } })
  const { findings, requests } = result.json<Diagnosis>()
  t.same(findings, [])
  t.ok(requests > 150, `${requests} requests were made`)
  t.equal(result.code, 0)

  t.match(await portaria(['doctor', world.url]), { code: 0, stdout: /Nothing found/ })
})

t.test('the doctor finds nothing on a host of its own, beside others where everything is public', async t => {
  const url = await startEcho(t)
  const { certFile, keyFile } = createCertificateAuthority(t.testdir()).selfSigned('localhost')
  const world = await startGateway(t, {
    env: { PUBLIC_URL: 'https://localhost', TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile },
    config: {
      upstreams: { echo: { url } },
      routes: [
        { path: '/*', upstream: 'echo', public: true },
        { path: '/*', upstream: 'echo', public: true, host: 'open.example' },
        { path: '/private/*', upstream: 'echo', host: 'localhost' }
      ]
    }
  })
  const result = await portaria(['doctor', `https://localhost:${world.port}`, '--config', world.folder, '--json'])
  t.match(result.json(), { complete: true, ended: '' })
  const ids = result.json<Diagnosis>().findings.map(({ id }) => id)
  t.same(ids, ['tls'], 'which a test certificate deserves')
})

t.test('on a host that TRUST_PROXY names the doctor says so, and finds no weakness in it', async t => {
  const url = await startEcho(t)
  const world = await startGateway(t, {
    env: { TRUST_PROXY: '127.0.0.1' },
    config: { upstreams: { echo: { url } }, routes: [{ path: '/private/*', upstream: 'echo' }] }
  })
  const result = await portaria(['doctor', world.url, '--private', '/private/x', '--json'])
  const { findings, notes } = result.json<Diagnosis>()
  t.same(findings, [])
  t.match(notes, [/TRUST_PROXY names it/])
  t.equal(result.code, 0)
})

t.test('a Server header, which a proxy in front may add, is a note and no weakness', async t => {
  const { url } = await startVulnerableProxy(t, [], undefined, { Server: 'nginx/1.22.1' })
  const result = await portaria(['doctor', url, '--private', '/private/data', '--json'])
  const { findings, notes } = result.json<Diagnosis>()
  t.same(findings, [])
  t.match(notes, [/Server: nginx\/1\.22\.1.*proxy in front/])
  t.equal(result.code, 0)
})

t.test('a rate limit whose window ends during the probe is not taken for one that clients evade', async t => {
  let count = 50
  const server = http.createServer((request, response) => {
    if (request.headers['x-forwarded-for'] === '198.51.100.7') count = 0
    response.writeHead(401, { 'x-ratelimit-remaining': 1000 - ++count, 'www-authenticate': 'Bearer' }).end()
  })
  const result = await portaria(['doctor', `http://127.0.0.1:${await listen(t, server)}`, '--json'])
  const { findings } = result.json<Diagnosis>()
  t.notOk(
    findings.some(({ id }) => id === 'rate-limit-address'),
    `${JSON.stringify(findings)}${result.stderr}`
  )
})

t.test('the doctor keeps to this machine, to its bounds, and to gateways', async t => {
  t.match(await portaria(['doctor', 'https://gateway.example']), { code: 2, stderr: /--i-own-this/ })
  t.match(await portaria(['doctor', 'http://127.0.0.1:1']), { code: 2, stderr: /does not respond/ })
  const echo = await startEcho(t)
  t.match(await portaria(['doctor', echo]), { code: 2, stderr: /--private/ })
  const { url } = await startVulnerableProxy(t)
  const cut = await portaria(['doctor', url, '--private', '/private/data', '--max-requests', '5'])
  t.equal(cut.code, 2)
  t.match(cut.stderr, /not all tried: 5 requests/)
})

t.test('a probe that is upgraded leaves no connection open', async t => {
  const server = http.createServer((_request, response) => response.writeHead(401).end())
  const ends: Promise<unknown>[] = []
  server.on('upgrade', (_request, socket) => {
    ends.push(once(socket.resume(), 'end').then(() => socket.end()))
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
  })
  const url = `http://127.0.0.1:${await listen(t, server)}`
  const { stdout } = await portaria(['doctor', url, '--private', '/private', '--json'])
  t.match(stdout, /"id": "websocket-no-token"/)
  t.ok(ends.length > 1)
  await Promise.all(ends)
})
