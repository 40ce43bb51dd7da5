// The gateway terminates TLS, replaces certificates under load, and redirects plain HTTP.
// CF-13, CF-14
import { copyFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import tls from 'node:tls'
import t, { type Test } from 'tap'
import { type CertificateFiles, createCertificateAuthority } from '../support/certificates.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { routeFile, startBackend, startGatewayProcess } from '../support/gateway-process.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { rawExchange } from '../support/raw-client.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const config = (url: string) =>
  routesTo(url, [
    { path: '/open/*', public: true },
    { path: '/ws', websocket: {} }
  ])

const certificateFiles = (t: Test) => {
  const folder = t.testdir({})
  const authority = createCertificateAuthority(folder)
  const live = { certFile: join(folder, 'live.crt'), keyFile: join(folder, 'live.key') }
  const use = (from: CertificateFiles) => {
    copyFileSync(from.certFile, live.certFile)
    copyFileSync(from.keyFile, live.keyFile)
  }
  const [one, two] = [authority.issue('one'), authority.issue('two')]
  use(one)
  const env = { TLS_CERT_FILE: live.certFile, TLS_KEY_FILE: live.keyFile, PUBLIC_URL: 'https://gw.example' }
  return { authority, live, use, one, two, env }
}

interface Answer {
  status: number
  headers: Record<string, string | string[] | undefined>
  body: string
  /** Common name of the certificate that was served. */
  servedBy: string
}

/** One request on a connection of its own. */
const get = (port: number, ca: string, path: string): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, path, ca, servername: 'localhost', agent: false }
    const req = request(options, res => {
      const servedBy = String((res.socket as tls.TLSSocket).getPeerCertificate().subject?.CN)
      let body = ''
      res.on('data', chunk => {
        body += chunk
      })
      res.on('end', () => resolve({ status: res.statusCode ?? 0, headers: res.headers, body, servedBy }))
      res.on('error', reject)
    })
    req.on('error', reject)
    req.end()
  })

t.test('the listener speaks TLS: backends learn it, own answers carry HSTS, and forwarded ones do not', async t => {
  const { authority, env } = certificateFiles(t)
  const upstream = await startRawUpstream(t)
  const world = await startGateway(t, { config: config(upstream.url), env })
  const askHealth = () => get(world.port, authority.ca, '/health')
  // On a busy machine the database may seem away for a moment.
  await until(async () => JSON.parse((await askHealth()).body).status === 'ok', 'healthy')
  const health = await askHealth()
  t.match(health, { status: 200, headers: { 'strict-transport-security': 'max-age=15552000' } })
  t.match(JSON.parse(health.body), { checks: { tls: 'ok' } })
  const refused = await get(world.port, authority.ca, '/nowhere')
  t.match(refused, { status: 401, headers: { 'strict-transport-security': 'max-age=15552000' } })

  const forwarded = await get(world.port, authority.ca, '/open/x')
  t.equal(forwarded.status, 200)
  t.equal(forwarded.headers['strict-transport-security'], undefined)
  t.match(upstream.received(), /\r\nx-forwarded-proto: https\r\n/)
})

t.test('an answer to an HTTP/1.0 client that its backend breaks off is cut off over TLS too', async t => {
  const { authority, env } = certificateFiles(t)
  const raw = await startRawUpstream(t)
  raw.respond(() => socket => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n', () => socket.destroy())
  })
  const world = await startGateway(t, { env, config: config(raw.url) })
  const client = tls.connect({ host: '127.0.0.1', port: world.port, ca: authority.ca, servername: 'localhost' })
  t.teardown(() => client.destroy())
  let text = ''
  client.on('data', chunk => {
    text += chunk
  })
  client.on('error', () => undefined)
  client.write('GET /open/x HTTP/1.0\r\nHost: localhost\r\n\r\n')
  await new Promise(resolve => client.once('close', resolve))
  t.match(text, /part$/)
  t.match(await world.logged(line => line.path === '/open/x'), { code: 'GW_BAD_UPSTREAM_RESPONSE' })
  t.same(
    world.log.filter(({ level }) => Number(level) >= 50),
    []
  )
})

t.test('REDIRECT_PORT leads to PUBLIC_URL, or to a named host at its port, path and query kept', async t => {
  const own = 'https://gw.example:8443'
  const { gateway } = await startGateway(t, {
    env: { ...certificateFiles(t).env, PUBLIC_URL: own, REDIRECT_PORT: '0' },
    config: routesTo('http://127.0.0.1:9', [{ path: '/*', host: ['grafana.example', '*.docs.example'] }])
  })
  const ask = (host: string, line = 'GET /a/b?c=d', rest = '\r\n') => {
    const bytes = `${line} HTTP/1.1\r\nHost: ${host}\r\n${rest}`
    return rawExchange(gateway.redirectPort ?? 0, bytes, { head: line.startsWith('HEAD') })
  }
  for (const [host, location, ...request] of [
    ['gw.example', `${own}/a/b?c=d`],
    ['gw.example', `${own}/a/b?c=d`, 'POST /a/b?c=d', `Content-Length: 100000\r\n\r\n${'x'.repeat(100_000)}`],
    ['gw.example', `${own}/`, 'HEAD /'],
    ['Grafana.example:80', 'https://grafana.example:8443/a/b?c=d'],
    ['a.docs.example', 'https://a.docs.example:8443/a/b?c=d'],
    ['evil.example', `${own}/a/b?c=d`],
    ['grafana.example.', `${own}/a/b?c=d`],
    ['x@grafana.example', `${own}/a/b?c=d`]
  ] as const) {
    const answer = await ask(host, ...request)
    t.same([answer.status, answer.headers.location], [308, location], host)
    t.equal(answer.headers['strict-transport-security'], undefined)
  }
  // RFC 9112 §3.2.
  for (const [version, hosts, status] of [
    ['1.0', '', 308],
    ['1.1', '', 400],
    ['1.1', 'Host: gw.example\r\nHost: grafana.example\r\n', 400]
  ] as const) {
    const answer = await rawExchange(gateway.redirectPort ?? 0, `GET / HTTP/${version}\r\n${hosts}\r\n`)
    t.same([answer.status, answer.headers.location], [status, status === 308 ? `${own}/` : undefined], hosts)
  }
})

t.test('several workers serve the certificate that one process follows, also while it is broken', async t => {
  const { authority, env, live, use, two } = certificateFiles(t)
  const [postgres, redis, backend] = await Promise.all([startPostgres(t), startRedis(t), startBackend(t)])
  const gateway = await startGatewayProcess(t, routeFile(t, config(backend.url)).folder, {
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    WORKERS: '2',
    // While no worker listens, any other port would change.
    PORT: String(await freePort()),
    ...env
  })
  const { port } = gateway
  const served = async () => (await get(port, authority.ca, '/health')).servedBy
  t.equal(await served(), 'one')
  use(two)
  await gateway.logged('a new certificate is in use')
  // Each worker takes some of so many connections.
  const all = async () => new Set(await Promise.all(Array.from({ length: 24 }, served)))
  await until(async () => [...(await all())].join() === 'two')

  writeFileSync(live.certFile, 'nonsense')
  await gateway.logged('the certificate files cannot be used; the previous certificate stays in use')
  for (const pid of gateway.workers()) {
    process.kill(pid, 'SIGKILL')
    await until(() => gateway.workers().length === 2 && !gateway.workers().includes(pid))
    await until(async () => (await all().catch(() => new Set())).size > 0)
  }
  t.strictSame([...(await all())], ['two'])
  t.match(JSON.parse((await get(port, authority.ca, '/health')).body), { checks: { tls: 'degraded' } })
  gateway.signal('SIGTERM')
  t.equal(await gateway.ended, 0)
})
