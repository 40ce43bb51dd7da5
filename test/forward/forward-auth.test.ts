// Another proxy asks whether a request may pass, and forwards it itself.
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { words } from '../support/words.ts'

const raw = await startRawUpstream(t)
const world = await startGateway(t, {
  env: { TRUST_PROXY: '127.0.0.1', BROWSER_SESSION: 'true' },
  config: {
    upstreams: { raw: { url: raw.url } },
    routes: [
      { path: '/app/*', external: true, roles: ['Agente'] },
      { path: '/app/admin/*', external: true, roles: ['Admin'] },
      { path: '/app/public/*', external: true, public: true },
      { path: '/only/read', external: true, methods: ['GET'] },
      { path: '/app/calls', methods: ['GET'], external: true, roles: ['Agente'] },
      { path: '/app/calls', methods: ['OPTIONS'], external: true, roles: ['Admin'] },
      { path: '/app/shared/*', external: true, roles: ['Agente'] },
      { path: '/app/shared/*', methods: ['OPTIONS'], external: true, public: true },
      { path: '/open/upload', methods: ['PUT'], external: true, public: true },
      { path: '/app/few', external: true, rateLimit: { max: 1, window: '1h' } },
      { path: '/pages/*', external: true, browser: true },
      { path: '/readable', methods: ['GET'], upstream: 'raw' },
      { path: '/api/*', upstream: 'raw' }
    ],
    tests: ['GET /app/admin/x as Agente -> 403', 'GET /app/x as Agente -> allow']
  }
})
const person = { id: 7, name: 'Ana Sá', email: '', username: 'ana', profiles: ['Agente'] }
const token = await world.tokenFor(person)

type Fields = readonly (readonly [string, string])[]
const caddy = (method: string, uri: string): Fields => [
  ['X-Forwarded-Method', method],
  ['X-Forwarded-Uri', uri]
]
const nginx = (method: string, uri: string): Fields => [
  ['X-Original-Method', method],
  ['X-Original-URL', uri]
]
const ask = (fields: Fields, options: { bearer?: string | undefined; mode?: string; port?: number } = {}) => {
  const { bearer = token, mode = '' } = options
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const auth = bearer === '' ? '' : `Authorization: Bearer ${bearer}\r\n`
  return world.raw(`GET /auth/forward${mode} HTTP/1.1\r\nHost: gw\r\n${auth}${lines}\r\n`)
}
const NGINX = '?mode=nginx'
const identityOf = ({ headers }: { headers: Record<string, string> }) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-user-')))

const EMPTY = Object.fromEntries(
  words`id name email username provider profiles areas area-principal access-status`.map(name => [`x-user-${name}`, ''])
)

t.test('a request that may pass is answered with all nine identity headers, and nothing else', async t => {
  for (const fields of [
    caddy('GET', '/app/x?a=1'),
    nginx('POST', '/app/x'),
    nginx('GET', 'https://app.example.org/app/x')
  ]) {
    const answer = await ask([...fields, ['X-User-Id', '1'], ['X_User_Email', 'root@corp.example']])
    t.equal(answer.status, 200)
    t.equal(answer.body, '')
    t.equal(answer.headers['cache-control'], 'no-store')
    t.same(identityOf(answer), {
      ...EMPTY,
      'x-user-id': '7',
      'x-user-name': 'Ana S%C3%A1',
      'x-user-username': 'ana',
      'x-user-provider': 'ldap',
      'x-user-profiles': 'Agente',
      'x-user-areas': 'Geral',
      'x-user-area-principal': 'Geral',
      'x-user-access-status': 'assigned'
    })
  }
  const open = await ask(caddy('GET', '/app/public/x'))
  t.equal(open.status, 200)
  t.same(identityOf(open), EMPTY, 'empty on public routes, so that copying them removes what a client sent')
  t.equal((await ask(caddy('HEAD', '/only/read'))).status, 200)
})

t.test('a request that a proxy asks about is checked as if it had been sent here', async t => {
  for (const [method, uri, status, code] of [
    ['GET', '/app/admin/x', 403, 'GW_FORBIDDEN'],
    ['GET', '/app/%61dmin/x', 403, 'GW_FORBIDDEN'],
    ['GET', '/app/./admin/x', 400, 'GW_BAD_PATH'],
    ['GET', '/app/x#/public/', 400, 'GW_BAD_PATH'],
    ['POST', '/only/read', 405, 'GW_METHOD_NOT_ALLOWED'],
    ['GET', '/api/x', 404, 'GW_NO_ROUTE'],
    ['GET', '/auth/me', 404, 'GW_NO_ROUTE'],
    ['POST', '/auth/me', 404, 'GW_NO_ROUTE'],
    ['POST', '/readable', 404, 'GW_NO_ROUTE'],
    ['GET', '/nothing', 404, 'GW_NO_ROUTE']
  ] as const) {
    const answer = await ask(caddy(method, uri))
    t.equal(answer.status, status, `${method} ${uri}`)
    t.match(JSON.parse(answer.body), { code }, uri)
    const mapped = await ask(nginx(method, uri), { mode: NGINX })
    t.equal(mapped.status, 403, uri)
    t.equal(mapped.headers['x-auth-status'], status === 403 ? undefined : String(status), uri)
  }
  for (const mode of ['', NGINX]) t.equal((await ask(caddy('GET', '/app/x'), { bearer: '', mode })).status, 401)
  t.equal((await ask(caddy('GET', '/app/few'))).status, 200)
  const limited = await ask(nginx('GET', '/app/few'), { mode: NGINX })
  t.match(limited.headers, { 'x-auth-status': '429', 'retry-after': /^\d+$/ })
})

t.test('a preflight passes only by a public route, because the proxy would forward it', async t => {
  // HD-30
  const askPreflight = (uri: string, requested: string, options: Parameters<typeof ask>[1] = { bearer: '' }) =>
    ask([...caddy('OPTIONS', uri), ['Origin', world.url], ['Access-Control-Request-Method', requested]], options)
  for (const [uri, requested] of [
    ['/app/public/x', 'PUT'],
    ['/open/upload', 'PUT'],
    ['/app/shared/x', 'GET']
  ] as const) {
    const answer = await askPreflight(uri, requested)
    t.equal(answer.status, 200, uri)
    t.same(identityOf(answer), EMPTY, uri)
  }
  for (const [uri, requested] of [
    ['/app/x', 'GET'],
    ['/app/calls', 'GET'],
    ['/open/upload', 'GET'],
    ['/pages/x', 'GET'],
    ['/api/x', 'GET'],
    ['/nothing', 'GET']
  ] as const) {
    // Browsers send no token with it; with one, it would be checked as another method than the one that is forwarded.
    for (const bearer of ['', token]) {
      const answer = await askPreflight(uri, requested, { bearer })
      t.equal(answer.status, 401, uri)
      t.equal(JSON.parse(answer.body).code, 'GW_UNAUTHENTICATED', uri)
    }
  }
  t.equal((await askPreflight('/app//x', 'GET')).status, 400)
  t.equal((await ask(caddy('OPTIONS', '/app/x'))).status, 200, 'OPTIONS of another kind is an ordinary method')
  t.equal((await ask(caddy('OPTIONS', '/app/calls'))).status, 403)
})

t.test('exactly one family of headers is read, each of them once, by its own spelling', async t => {
  // RT-34, HD-02
  const good = caddy('GET', '/app/public/x')
  const other = nginx('GET', '/app/public/x')
  for (const fields of [
    [],
    good.slice(0, 1),
    good.slice(1),
    other.slice(0, 1),
    [...good, ...other],
    [...good, ...other.slice(1)],
    [...good, ...good.slice(1)],
    [...good, ...good.slice(0, 1)],
    [
      ['X_Forwarded_Method', 'GET'],
      ['X_Forwarded_Uri', '/app/public/x']
    ],
    [
      ['X-Forwarded-Method', 'GET'],
      ['X-Original-URL', '/app/public/x']
    ],
    caddy('', '/app/public/x'),
    // Methods are case-sensitive (RFC 9110 §9.1), but not for every backend (RW-83).
    caddy('delete', '/app/public/x'),
    nginx('Get', '/app/public/x'),
    caddy('GET /app HTTP/1.1', '/app/public/x'),
    caddy('GET', ''),
    caddy('GET', 'app/public/x'),
    caddy('GET', '//')
  ] as Fields[]) {
    t.equal((await ask(fields, { bearer: '' })).status, 400, JSON.stringify(fields))
    const mapped = await ask(fields, { bearer: '', mode: NGINX })
    t.match(mapped, { status: 403, headers: { 'x-auth-status': '400' } })
  }
  t.equal((await ask([...good, ['X_Forwarded_Uri', '/app/admin/x']], { bearer: '' })).status, 200)
  t.equal((await ask(good, { mode: '?mode=other' })).status, 400)
})

// RW-89
t.test('CONNECT, which begins a tunnel, is refused from the proxy that asks and as the method it names', async t => {
  const named = 'X-Forwarded-Method: GET\r\nX-Forwarded-Uri: /app/public/x\r\n'
  const answer = await world.raw(`CONNECT /auth/forward HTTP/1.1\r\nHost: gw\r\n${named}\r\n`)
  t.match(answer, { status: 405, headers: { allow: 'GET' } })
  t.equal((await ask(caddy('CONNECT', '/app/public/x'))).status, 405)
})

t.test('a proxy may ask with the query of the request that it names, as Caddy does; it decides nothing', async t => {
  for (const query of ['?', '?a=1', '?mode=nginx', '?mode=other', '?a=1?b=2']) {
    const allowed = await ask(caddy('GET', `/app/x${query}`), { mode: query })
    t.match(allowed, { status: 200, headers: { 'x-user-id': '7' } }, query)
    t.equal((await ask(caddy('GET', `/app/x${query}`), { mode: query, bearer: '' })).status, 401)
    const refused = await ask(caddy('GET', `/app/x/../y${query}`), { mode: query })
    t.equal(refused.status, 400, 'and not what nginx is answered')
  }
  t.equal((await ask(caddy('GET', '/app/x?a=1&b=2'), { mode: '?b=2' })).status, 400)
  t.equal((await ask(caddy('GET', '/app/x?a=1?b=2'), { mode: '?b=2' })).status, 400)
  t.equal((await ask(nginx('GET', '/app/x?a=1'), { mode: '?a=1' })).status, 400)
  const mapped = await ask(nginx('GET', '/app/x/../y?mode=nginx'), { mode: NGINX })
  t.match(mapped, { status: 403, headers: { 'x-auth-status': '400' } })
})

t.test('a client that TRUST_PROXY does not name learns nothing', async t => {
  const strict = await startGateway(t, {
    postgres: world.postgres,
    config: { upstreams: {}, routes: [{ path: '/app/*', external: true, public: true }] }
  })
  for (const mode of ['', NGINX]) {
    const answer = await strict.raw(
      `GET /auth/forward${mode} HTTP/1.1\r\nHost: gw\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /app/x\r\n\r\n`
    )
    t.equal(answer.status, 403)
    t.match(JSON.parse(answer.body), { code: 'GW_FORBIDDEN' })
    t.same(identityOf(answer), {})
  }
})

t.test('an external route is no route when it is asked directly', async t => {
  // RT-34, RT-35
  for (const path of ['/app/x', '/app/public/x', '/pages/x']) {
    const answer = await world.fetch(path, { token })
    t.equal(answer.status, 404, path)
    t.match(await answer.json(), { code: 'GW_NO_ROUTE' })
    t.equal((await world.fetch(path)).status, 401, 'as any unknown path')
  }
  for (const path of ['/only/read', '/open/upload']) {
    const other = await world.fetch(path, { method: 'DELETE', token })
    t.equal(other.status, 404, `no method of ${path}`)
    t.equal(other.headers.get('allow'), null)
    t.equal((await world.fetch(path, { method: 'DELETE' })).status, 401)
  }
  const named = { 'x-original-url': '/app/public/x', 'x-original-method': 'GET' }
  t.equal((await world.fetch('/app/admin/x', { token, headers: named })).status, 404)
  t.equal(raw.requests.length, 0)
})

const NAVIGATION = [
  ['Accept', 'text/html'],
  ['Sec-Fetch-Mode', 'navigate'],
  ['Sec-Fetch-Dest', 'document']
] as const

t.test('a navigation goes to the login page, and a session cookie counts as in a request sent here', async t => {
  const redirected = await ask([...caddy('GET', '/pages/x?a=1'), ...NAVIGATION], { bearer: '' })
  t.equal(redirected.status, 302)
  const login = '/auth/login?returnTo=%2Fpages%2Fx%3Fa%3D1'
  t.equal(redirected.headers.location, login)
  const mapped = await ask([...nginx('GET', '/pages/x?a=1'), ...NAVIGATION], { bearer: '', mode: NGINX })
  t.match(mapped, { status: 401, headers: { 'x-auth-location': login, 'www-authenticate': 'Bearer' } })
  t.equal(mapped.headers.location, undefined)
  t.equal((await ask([...caddy('POST', '/pages/x'), ...NAVIGATION], { bearer: '' })).status, 401)

  const cookie = ['Cookie', `portaria_session=${token}`] as const
  t.equal((await ask([...caddy('GET', '/pages/x'), cookie], { bearer: '' })).status, 200)
  const from = (method: string, origin: string, ...more: Fields) =>
    ask([...caddy(method, '/pages/x'), cookie, ['Origin', origin], ...more], { bearer: '' })
  t.equal((await from('POST', 'http://localhost:3000')).status, 200)
  t.equal((await from('POST', 'https://evil.example')).status, 403, 'the method that counts is the one named')
  t.equal((await from('GET', 'https://evil.example', ['Sec-Fetch-Mode', 'websocket'])).status, 403)
  // RW-85: nginx and Traefik ask without Upgrade, and not every browser sends Sec-Fetch-Mode.
  const key = ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='] as const
  t.match(await from('GET', 'https://evil.example', key), { status: 403, body: /GW_BAD_ORIGIN/ })
  t.equal((await from('GET', 'http://localhost:3000', key)).status, 200)
  // RW-87: over HTTP/2 a handshake has no key.
  t.match(await from('GET', 'https://evil.example', ['Sec-WebSocket-Version', '13']), { status: 403 })
  t.equal((await from('GET', 'https://evil.example')).status, 200, 'other pages may link to a page')
})

// RW-43
t.test('a request with a field by which its backend would serve another path, method or person is refused', async t => {
  for (const name of words`
    SCRIPT_NAME X-Script-Name X-HTTP-Method-Override x_rewrite_url X-Middleware-Subrequest X-Original-URL X_Original_URL
    HTTP_X_ORIGINAL_URL X.User.Id x.user-id X~User~Id HTTP_X_USER_ID http-x-user-id
    Grpc-Metadata-X-User-Id
  `) {
    const answer = await ask([...caddy('GET', '/app/x'), [name, '/app/admin']])
    t.equal(answer.status, 400, name)
    t.match(JSON.parse(answer.body), { code: 'GW_BAD_REQUEST' })
  }
  const harmless = await ask([...caddy('GET', '/app/x'), ['X-Middleware-Prefetch', '1'], ['X-Name', 'Script']])
  t.equal(harmless.status, 200)
})
