// Pages of other origins read answers only where CORS_ORIGINS lists them.
import { createServer, type RequestListener } from 'node:http'
import { Server } from 'socket.io'
import t, { type Test } from 'tap'
import { launchBrowser } from '../support/browser.ts'
import { routesTo, startGateway } from '../support/gateway.ts'
import { listen } from '../support/ports.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const FRONTEND = 'https://app.example.org'
const PARTNER = 'https://partner.example.org'
const APP = 'capacitor://localhost'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { FRONTEND_URL: `${FRONTEND}/ui`, CORS_ORIGINS: `${PARTNER}:443/, http://intra.example:8080, ${APP}` },
  config: routesTo(raw.url, [
    { path: '/api/*' },
    { path: '/pages/*', browser: true },
    { path: '/open/*', public: true }
  ])
})
const token = await world.tokenFor()

const ask = (
  path: string,
  origin: string | undefined,
  options: { method?: string; lines?: string; token?: string } = {}
) =>
  world.raw(
    `${options.method ?? 'GET'} ${path} HTTP/1.1\r\nHost: gw\r\n${origin === undefined ? '' : `Origin: ${origin}\r\n`}` +
      `${options.token === undefined ? '' : `Authorization: Bearer ${options.token}\r\n`}${options.lines ?? ''}\r\n`
  )
const answering = (fields = '') => raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${fields}\r\nok`)
const cors = ({ headers }: { headers: Record<string, string> }) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))

t.test('a private answer can be read by pages of the listed origins, and by no others', async t => {
  // HD-30
  answering()
  for (const origin of [FRONTEND, PARTNER, 'http://intra.example:8080', APP]) {
    const answer = await ask('/api/x', origin, { token })
    t.equal(answer.headers['access-control-allow-origin'], origin)
    t.match(answer.headers['access-control-expose-headers'], /^\*, .*x-request-id/)
    t.match(answer.headers.vary, /\bOrigin\b/)
    t.equal(answer.headers['access-control-allow-credentials'], undefined)
  }
  for (const origin of [
    undefined,
    'null',
    'https://evil.example',
    `${FRONTEND}.evil.example`,
    'http://app.example.org'
  ]) {
    const answer = await ask('/api/x', origin, { token })
    t.equal(answer.status, 200)
    t.same(cors(answer), {}, origin ?? 'no origin')
    t.match(answer.headers.vary, /\bOrigin\b/)
  }
})

t.test('a backend that speaks CORS itself is left alone, and so is every public route', async t => {
  const own = 'Access-Control-Allow-Origin: https://own.example\r\nAccess-Control-Allow-Credentials: true\r\n'
  answering(own)
  const expected = {
    'access-control-allow-origin': 'https://own.example',
    'access-control-allow-credentials': 'true'
  }
  t.same(cors(await ask('/api/x', FRONTEND, { token })), expected)
  t.same(cors(await ask('/open/x', 'https://evil.example')), expected)
  t.same(cors(await ask('/pages/x', FRONTEND, { token })), expected)
  t.same(
    cors(await ask('/pages/x', 'https://evil.example', { token })),
    { 'access-control-allow-origin': 'https://own.example' },
    'no page of an unlisted origin reads what a session cookie opened'
  )
  answering()
  t.same(cors(await ask('/open/x', FRONTEND)), {})
})

t.test('a backend’s permission of credentials does not join the origin that the gateway names', async t => {
  answering('Access-Control-Allow-Credentials: true\r\n')
  const named = cors(await ask('/pages/x', FRONTEND, { token }))
  t.match(named, { 'access-control-allow-origin': FRONTEND })
  t.equal(named['access-control-allow-credentials'], undefined)
})

t.test('on a named host, a page of PUBLIC_URL reads nothing that a session cookie opened', async t => {
  const gateway = await startGateway(t, {
    postgres: world.postgres,
    env: { PUBLIC_URL: 'https://gw.example', CORS_ORIGINS: PARTNER },
    config: routesTo(raw.url, [{ host: 'a.example', path: '/*', browser: true }])
  })
  for (const origin of ['https://gw.example', PARTNER]) {
    answering(`Access-Control-Allow-Origin: ${origin}\r\nAccess-Control-Allow-Credentials: true\r\n`)
    const answer = await gateway.raw(
      `GET /x HTTP/1.1\r\nHost: a.example\r\nOrigin: ${origin}\r\nAuthorization: Bearer ${token}\r\n\r\n`
    )
    t.equal(answer.status, 200)
    t.equal(answer.headers['access-control-allow-credentials'], origin === PARTNER ? 'true' : undefined, origin)
  }
})

t.test('refusals and the gateway’s own answers name the origin that asked, when it is listed', async t => {
  for (const path of ['/api/x', '/auth/me', '/nothing', '/api//x']) {
    const answer = await ask(path, PARTNER)
    t.ok(answer.status >= 400, path)
    t.equal(answer.headers['access-control-allow-origin'], PARTNER, path)
    t.equal(answer.headers.vary, 'Origin', path)
    t.equal((await ask(path, 'https://evil.example')).headers['access-control-allow-origin'], FRONTEND, path)
  }
  const config = await ask('/auth/config', PARTNER)
  t.equal(config.headers['access-control-allow-origin'], PARTNER)
  // Such as the ETag of a person, and `portaria-session-expires`.
  t.match(config.headers['access-control-expose-headers'], /^\*, .*x-request-id/)
})

const PREFLIGHT = 'Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: authorization,x-api\r\n'

t.test('a preflight to a private route is answered here for listed origins, and never forwarded', async t => {
  // HD-30
  const before = raw.requests.length
  for (const origin of [FRONTEND, PARTNER]) {
    const answer = await ask('/api/x', origin, { method: 'OPTIONS', lines: PREFLIGHT })
    t.equal(answer.status, 204)
    t.equal(answer.headers['access-control-allow-origin'], origin)
    t.match(answer.headers['access-control-allow-methods'], /PATCH/)
    t.equal(answer.headers['access-control-allow-headers'], 'authorization,x-api')
    t.equal(answer.headers['access-control-allow-credentials'], undefined)
  }
  const report = 'Access-Control-Request-Method: REPORT\r\n'
  t.match(
    (await ask('/api/x', FRONTEND, { method: 'OPTIONS', lines: report })).headers['access-control-allow-methods'],
    /\bREPORT\b/
  )
  for (const origin of ['null', 'https://evil.example']) {
    t.equal((await ask('/api/x', origin, { method: 'OPTIONS', lines: PREFLIGHT })).status, 401, origin)
  }
  t.equal(raw.requests.length, before)
})

t.test('a preflight to a public route is forwarded, without a body', async t => {
  raw.respond(() => 'HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Origin: *\r\n\r\n')
  const before = raw.requests.length
  const answer = await world.raw(
    `OPTIONS /open/x HTTP/1.1\r\nHost: gw\r\nOrigin: https://evil.example\r\n${PREFLIGHT}Content-Length: 3\r\n\r\nabc`
  )
  t.equal(answer.status, 204)
  t.equal(answer.headers['access-control-allow-origin'], '*')
  const request = raw.requests[before]
  t.equal(request?.method, 'OPTIONS')
  t.notMatch(request?.head, /content-length|transfer-encoding/i)
  t.equal(request?.body, '')
})

const serve = async (t: Test, listener: RequestListener) => {
  const server = createServer(listener)
  const port = await listen(t, server)
  return { server, port }
}

/** Runs in the page: reads, posts, streams, and tells what it saw. */
const SCRIPT = `(async ([gateway, token]) => {
  const headers = { authorization: 'Bearer ' + token }
  const read = await fetch(gateway + '/api/read', { headers })
  const seen = { read: await read.text(), count: read.headers.get('x-total-count'), status: read.status }
  const post = await fetch(gateway + '/api/echo', { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: '{"a":1}' })
  seen.post = await post.text()
  const refused = await fetch(gateway + '/api/read')
  seen.refused = (await refused.json()).code
  const polling = gateway + '/socket.io/?EIO=4&transport=polling'
  seen.polling = await (await fetch(polling)).text()
  // A session that nobody closes holds its server up for half a minute.
  const { sid } = JSON.parse(seen.polling.slice(1))
  seen.closed = await (await fetch(polling + '&sid=' + sid, { method: 'POST', body: '1' })).text()
  return seen
})`

t.test('a page of another origin reads, posts and polls in a real browser', async t => {
  const { server, port } = await serve(t, (req, res) => {
    if (req.url?.startsWith('/socket.io/')) return
    if (req.url === '/api/echo') return void req.pipe(res)
    res.setHeader('x-total-count', '7').end('read')
  })
  const io = new Server(server)
  t.teardown(() => io.close())
  const page = await serve(t, (_, res) => void res.setHeader('content-type', 'text/html').end('<!doctype html>'))
  const origin = `http://127.0.0.1:${page.port}`
  const gateway = await startGateway(t, {
    postgres: world.postgres,
    env: { CORS_ORIGINS: origin },
    config: routesTo(`http://127.0.0.1:${port}`, [
      { path: '/api/*' },
      { path: '/socket.io/*', socketio: { namespaces: { '/': {} } } }
    ])
  })
  const browser = await launchBrowser(t)
  const seenFrom = async (address: string) => {
    const tab = await browser.newPage()
    await tab.goto(address)
    return tab.evaluate(`${SCRIPT}(${JSON.stringify([gateway.url, token])})`)
  }
  t.match(await seenFrom(origin), {
    read: 'read',
    count: '7',
    status: 200,
    post: '{"a":1}',
    refused: 'GW_UNAUTHENTICATED',
    polling: /^0\{"sid":/,
    closed: 'ok'
  })
  await t.rejects(seenFrom(`http://localhost:${page.port}`), /Failed to fetch/)
})
