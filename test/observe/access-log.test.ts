// The access log says of each request who, where, decided how and why, and how long; of secrets it says nothing.
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { demoPeople, startDemoDirectory } from '../demo/directory.ts'
import { createCloudBrowser, logInAtProvider, readFragment } from '../support/cloud-browser.ts'
import { type LogLine, startGateway, TEST_SECRET, type World } from '../support/gateway.ts'
import { maria, startOidcProvider } from '../support/oidc-provider.ts'
import { only } from '../support/only.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, type RawRequest, startRawUpstream } from '../support/raw-upstream.ts'
import { rawWebSocket, switchingProtocols } from '../support/raw-websocket.ts'

const postgres = await startPostgres(t)

const requestLine = (world: World, path: string): Promise<LogLine> =>
  world.logged(line => line.msg === 'request' && line.path === path)

const startWorld = async (test: Parameters<typeof startRawUpstream>[0], env: Record<string, string> = {}) => {
  const raw = await startRawUpstream(test)
  const world = await startGateway(test, {
    postgres,
    env,
    config: {
      upstreams: { app: { url: raw.url }, dead: { url: `http://127.0.0.1:${await freePort()}` } },
      routes: [
        { path: '/api/*', upstream: 'app', roles: ['Admin'] },
        { path: '/open/*', upstream: 'app', public: true },
        { path: '/dead', upstream: 'dead', public: true }
      ]
    }
  })
  return { raw, world }
}

t.test('one line tells of each request, whatever became of it', async t => {
  const { raw, world } = await startWorld(t)
  const token = await world.tokenFor({ id: 42, profiles: ['Admin'] })
  const answer = await world.fetch('/api/7?page=2', { token })
  const allowed = await requestLine(world, '/api/7')
  t.match(allowed, {
    level: 30,
    pid: process.pid,
    requestId: answer.headers.get('x-request-id') ?? '',
    method: 'GET',
    route: '/api/*',
    status: 200,
    decision: 'allow',
    user: 42,
    profiles: only('Admin'),
    accessStatus: 'assigned',
    provider: 'ldap',
    ip: '127.0.0.1'
  })
  t.ok(Math.abs(Number(allowed.time) - Date.now()) < 60_000)
  for (const field of ['ms', 'upstreamMs', 'gatewayMs']) t.type(allowed[field], 'number', field)

  const refused = await world.fetch('/api/8', { token: await world.tokenFor({ id: 17, profiles: ['Agente'] }) })
  t.match(await requestLine(world, '/api/8'), {
    requestId: refused.headers.get('x-request-id') ?? 'none',
    route: '/api/*',
    user: 17,
    status: 403,
    decision: 'refuse',
    code: 'GW_FORBIDDEN',
    reason: 'role-missing',
    upstreamMs: undefined
  })
  await world.fetch('/nowhere')
  t.match(await requestLine(world, '/nowhere'), {
    status: 401,
    decision: 'refuse',
    reason: 'no-token',
    route: undefined
  })
  await world.fetch('/dead')
  t.match(await requestLine(world, '/dead'), {
    level: 40,
    status: 502,
    decision: 'fail',
    reason: 'upstream-unreachable',
    causes: [/ECONNREFUSED/]
  })
  raw.respond(() => undefined)
  const connection = await world.connect()
  connection.send('GET /open/gone HTTP/1.1\r\nHost: gw\r\n\r\n')
  await raw.request(2)
  connection.destroy()
  t.match(await requestLine(world, '/open/gone'), { decision: 'allow', reason: 'client-gone', status: undefined })
  await world.fetch('/auth/config')
  await requestLine(world, '/auth/config')
  const lines = world.log.filter(line => line.msg === 'request')
  t.equal(lines.length, 6)
  // Without a backend's answer, all of the time is the gateway's, as in the metric.
  for (const { path, ms, upstreamMs, gatewayMs } of lines) {
    if (upstreamMs === undefined) t.equal(gatewayMs, ms, `${path}`)
    else t.ok(Number(gatewayMs) <= Number(ms), `${path}`)
  }
})

t.test('the time until a backend accepts a socket, or answers a poll, is the backend’s', async t => {
  const raw = await startRawUpstream(t)
  const world = await startGateway(t, {
    postgres,
    config: {
      upstreams: { app: { url: raw.url } },
      routes: [
        { path: '/open', upstream: 'app', public: true },
        { path: '/ws', upstream: 'app', public: true, websocket: {} },
        { path: '/socket.io/*', upstream: 'app', socketio: { namespaces: { '/': {} } } }
      ]
    }
  })
  /** The backend answers once another request has been served. */
  const check = async (path: string, ask: () => Promise<unknown>, answer: (request: RawRequest) => string) => {
    const [requests, lines] = [raw.requests.length, world.log.length]
    raw.respond(({ target }) => (target === '/open' ? OK : undefined))
    const asked = ask()
    const request = await raw.request(requests + 1)
    const from = performance.now()
    await world.fetch('/open')
    const heldMs = performance.now() - from
    request.socket.write(answer(request))
    await asked
    const line = await world.logged(one => world.log.indexOf(one) >= lines && one.path === path)
    const what = `${line.method} ${path} ${line.status}`
    t.ok(Number(line.upstreamMs) >= heldMs - 0.01, `${what}: ${line.upstreamMs} ms of ${heldMs}`)
    t.type(line.gatewayMs, 'number', what)
  }
  const ok = (body: string) => () => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const socket = () => rawWebSocket(world.port, { path: '/ws' }).then(({ socket }) => socket.destroy())
  await check('/ws', socket, ({ head }) => switchingProtocols(head))
  await check('/ws', socket, () => 'HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n')

  const polling = (query = '', options = {}) => world.fetch(`/socket.io/?EIO=4&transport=polling${query}`, options)
  const post = (sid: string, body: string) =>
    polling(`&sid=${sid}`, { method: 'POST', body, headers: { 'content-type': 'text/plain' } })
  let opened = ''
  const handshake = async () => {
    opened = await (await polling()).text()
  }
  await check('/socket.io/', handshake, ok('0{"sid":"s","upgrades":[],"pingInterval":25000,"pingTimeout":20000}'))
  const { sid } = JSON.parse(opened.slice(1)) as { sid: string }
  const connect = `40${JSON.stringify({ token: await world.tokenFor() })}`
  await check('/socket.io/', () => post(sid, connect), ok('ok'))
  await check('/socket.io/', () => polling(`&sid=${sid}`), ok('40{"sid":"a"}'))
  raw.respond(ok('ok'))
  await post(sid, '1')
})

t.test('whatever a client writes stays one line of JSON', async t => {
  const { world } = await startWorld(t)
  for (const target of ['/open/"x"', '/open/\\n{"level":60}', '/open/\xe3\x81', '/open/%0d%0a%22', '*', '/open/x;"y'])
    await world.raw(Buffer.from(`GET ${target} HTTP/1.1\r\nHost: gw\r\n\r\n`, 'latin1'))
  await world.fetch('/open/last')
  await requestLine(world, '/open/last')
  t.ok(world.log.every(line => line.level < 60))
})

t.test('below its level the access log says nothing', async t => {
  const { world } = await startWorld(t, { LOG_LEVEL: 'error' })
  await world.fetch('/open/x')
  await world.fetch('/dead')
  await world.gateway.close()
  const lines = world.log.filter(line => line.msg === 'request')
  t.same(lines, [])
})

// OA-10, RX-21
t.test('no secret of a whole day is in the log, at any level', async t => {
  const canary = (what: string) => `canary-${what}-${randomBytes(8).toString('hex')}`
  const password = canary('password')
  const directory = await startDemoDirectory(
    t,
    demoPeople(() => password)
  )
  // The provider knows the address that it was registered with; this browser takes the callback to where the gateway is.
  const callback = 'http://127.0.0.1:3999/auth/oauth/cloudidp/callback'
  const provider = await startOidcProvider(t, { redirectUris: [callback] })
  const { raw, world } = await startWorld(t, {
    LOG_LEVEL: 'trace',
    ...directory,
    ...provider.environment,
    CLOUDIDP_REDIRECT_URI: callback,
    CLOUDIDP_TENANT_ID: 'corp'
  })
  const secrets = new Map<string, string>([
    ['the signing secret', TEST_SECRET],
    ['a password', password],
    ['the client secret', provider.clientSecret],
    ['a cloud password', maria.password]
  ])
  const post = (path: string, body: unknown, token?: string) =>
    world.fetch(path, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
      token
    })

  const login = await post('/auth/login', { username: 'maria', password })
  t.equal(login.status, 200)
  const { token } = (await login.json()) as { token: string }
  secrets.set('a token', token.split('.')[2] ?? '')
  secrets.set("a token's claims", token.split('.')[1] ?? '')
  const wrong = canary('wrong-password')
  secrets.set('a wrong password', wrong)
  t.equal((await post('/auth/login', { username: 'maria', password: wrong })).status, 401)
  t.equal((await post('/auth/login', { username: { $ne: wrong }, password: wrong })).status, 400)
  await post(`/auth/login?password=${wrong}`, `{"broken ${wrong}`)

  const browser = createCloudBrowser()
  const started = await browser.get(`${world.url}/auth/oauth/cloudidp/start`)
  const asked = new URL(started.headers.get('location') ?? '')
  const returned = await logInAtProvider(browser, asked.href, maria)
  const query = new URL(returned).searchParams
  for (const [name, values] of [...(browser.cookies.get(world.url) ?? [])]) secrets.set(`cookie ${name}`, values)
  for (const name of ['code', 'state']) secrets.set(`the ${name}`, query.get(name) ?? '')
  const done = await browser.get(returned.replace('http://127.0.0.1:3999', world.url))
  t.equal(done.status, 302)
  secrets.set('a cloud token', readFragment(done.headers.get('location') ?? '').token.split('.')[2] ?? '')
  await world.fetch(`/auth/oauth/cloudidp/callback?code=${canary('code')}&state=${query.get('state')}`)

  const refreshed = ((await (await post('/auth/refresh', {}, token)).json()) as { token: string }).token
  secrets.set('a refreshed token', refreshed.split('.')[2] ?? '')
  for (const what of ['cookie', 'api-key', 'query', 'basic', 'path-token', 'body', 'answer-cookie', 'header'])
    secrets.set(what, canary(what))
  const secret = (what: string) => secrets.get(what) ?? ''
  raw.respond(() => OK.replace('\r\n\r\n', `\r\nSet-Cookie: sid=${secret('answer-cookie')}\r\n\r\n`))
  await world.fetch(`/open/x?access_token=${secret('query')}&token=${refreshed}`, {
    method: 'POST',
    body: secret('body'),
    headers: {
      cookie: `session=${secret('cookie')}`,
      'x-api-key': secret('api-key'),
      'x-anything': secret('header'),
      authorization: `Basic ${Buffer.from(secret('basic')).toString('base64')}`
    }
  })
  secrets.set('basic', Buffer.from(secret('basic')).toString('base64'))
  await world.fetch(`/open/reset/${refreshed}`)
  await world.fetch(`/nowhere/${refreshed}?x=${secret('query')}`)
  await world.fetch(`/open//${refreshed}`)
  raw.respond(() => `HTTP/1.1 nonsense ${secret('answer-cookie')}\r\n\r\n`)
  await world.fetch('/open/broken', { token: refreshed })
  await world.fetch('/auth/me', { token: `${refreshed.slice(0, -2)}xx` })
  await post('/auth/logout', {}, refreshed)
  await world.fetch('/auth/me', { token })
  await world.fetch('/open/last')
  await requestLine(world, '/open/last')

  const text = world.logText()
  t.ok(world.log.length >= 18, `${world.log.length} lines`)
  for (const [what, value] of secrets) {
    t.ok(value.length >= 8, what)
    t.notOk(text.includes(value), what)
    t.notOk(text.includes(encodeURIComponent(value)), `${what}, encoded`)
  }
  t.notMatch(text, /eyJ[\w-]{10,}\./, 'no token at all')
})
