// Commands say what the gateway decides: external routes, access tokens, kinds of people, limits, warnings.
import { randomBytes } from 'node:crypto'
import t from 'tap'
import { checkSaid, portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { routeFolder } from '../support/route-files.ts'

const UP = 'upstreams:\n  up: { url: http://127.0.0.1:4001 }\n'

// RV-24
t.test('explain says what an external route answers at /auth/forward and asked directly', async t => {
  const folder = await routeFolder(t, { 'a.yaml': 'routes: [{ path: /app/*, external: true, roles: [Agente] }]\n' })
  const direct = /allow(?:.|\n)*answer at \/auth\/forward; asked directly, it is 404 GW_NO_ROUTE/
  await checkSaid(t, folder, [
    ['explain GET /app/x --as Agente --config FOLDER', 0, direct],
    ['explain GET /auth/forward --config FOLDER', 0, /403 GW_FORBIDDEN/, /TRUST_PROXY/],
    ['matrix --config FOLDER', 0, /\/app\/\* .* external$/m]
  ])
})

// RV-25
t.test("replay of a gateway's own log with its own files changes nothing", async t => {
  const config = {
    routes: [
      { path: '/app/*', external: true },
      { path: '/app/admin/*', external: true, roles: ['Admin'] },
      { path: '/read/*', external: true, methods: ['GET'] }
    ]
  }
  const world = await startGateway(t, { config, env: { TRUST_PROXY: '127.0.0.2' } })
  const proxy = await startGateway(t, { config, env: { TRUST_PROXY: '127.0.0.1' }, postgres: world.postgres })
  const token = await world.tokenFor()
  t.equal((await world.fetch('/app/x', { token })).status, 404, 'asked directly')
  t.equal((await world.fetch('/read/x', { method: 'DELETE', token })).status, 404, 'whatever the method')
  t.equal((await world.fetch('/app/x')).status, 401)
  t.equal((await world.fetch('/auth/forward', { token })).status, 403, 'no trusted proxy')
  const grant = { method: 'POST', body: new URLSearchParams({ grant_type: 'client_credentials' }) }
  t.equal((await fetch(`${world.url}/auth/token`, grant)).status, 401, 'a client without credentials')
  t.equal((await world.fetch('/auth/apps', { headers: { accept: 'application/json' } })).status, 401)
  const asked = (path: string) =>
    proxy.fetch('/auth/forward', { token, headers: { 'x-forwarded-method': 'GET', 'x-forwarded-uri': path } })
  t.equal((await asked('/app/x')).status, 200)
  t.equal((await asked('/app/admin/x')).status, 403)
  t.equal((await asked('/nowhere/x?q=1')).status, 404)
  t.equal((await asked('/app//x')).status, 400)
  await world.logged(({ path }) => path === '/auth/apps')
  for (const path of ['/app/admin/x', '/nowhere/x', '/app//x'])
    await proxy.logged(line => line.path === path && line.forwardAuth === true)
  const { code, json } = await portaria(['replay', '-', '--config', world.folder, '--json'], {
    input: world.logText() + proxy.logText()
  })
  t.match(json(), { changes: [], decisions: 7 })
  t.equal(code, 0)
})

// RV-25
t.test('what neither routes nor roles decided is no change at a replay with the same files', async t => {
  const raw = await startRawUpstream(t)
  const world = await startGateway(t, {
    config: {
      upstreams: { up: { url: raw.url } },
      routes: [
        { path: '/socket.io/*', upstream: 'up', socketio: { namespaces: { '/m': {} } } },
        { path: '/traced', upstream: 'up', public: true, methods: ['TRACE'] },
        { path: '/open', upstream: 'up', public: true, methods: ['GET'] },
        { path: '/files/*', upstream: 'up', public: true },
        { path: '/api/*', upstream: 'up' },
        { path: '/api/office', upstream: 'up', methods: ['GET'], from: ['10.0.0.0/8'] }
      ]
    }
  })
  const copy = { method: 'COPY', headers: { destination: '/api/1' } }
  t.equal((await world.fetch('/files/1', copy)).status, 401, 'for where it would write to')
  t.equal((await world.raw('DELETE /socket.io/ HTTP/1.1\r\nHost: gw\r\n\r\n')).status, 405)
  t.equal((await world.raw('TRACE /traced HTTP/1.1\r\nHost: gw\r\nMax-Forwards: 0\r\n\r\n')).status, 405)
  const preflight = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
  const answer = await world.fetch('/open', { method: 'OPTIONS', headers: preflight })
  t.equal(answer.status, 200, 'as the backend answers it')
  const refused = await world.fetch('/api/office', { method: 'OPTIONS', headers: preflight })
  t.equal(refused.status, 403, 'for the address, by the route of the method that the preflight asks for')
  t.equal((await world.raw('GET /api/2?a#b HTTP/1.1\r\nHost: gw\r\n\r\n')).status, 400, 'for what is in the query')
  t.equal(
    (await world.raw('GET /api/\xc3\xa9 HTTP/1.1\r\nHost: gw\r\n\r\n')).status,
    400,
    'for a byte that the log encodes'
  )
  const long = `/api/${'x'.repeat(300)}`
  t.equal((await world.fetch(`${long}//`)).status, 400, 'for what the log no longer shows')
  for (const path of [
    '/files/1',
    '/socket.io/',
    '/traced',
    '/open',
    '/api/office',
    '/api/2',
    '/api/%C3%A9',
    long.slice(0, 256)
  ])
    await world.logged(line => line.path === path)
  const line = { msg: 'request', method: 'GET', path: '/api/1', route: '/api/*', decision: 'allow' }
  const left = JSON.stringify({ ...line, reason: 'client-gone', ip: '127.0.0.1', ms: 3 })
  const { code, json } = await portaria(['replay', '-', '--config', world.folder, '--json'], {
    input: `${world.logText()}${left}\n`
  })
  t.match(json(), { changes: only(), decisions: 0, other: 9 })
  t.equal(code, 0)
})

// RV-26
t.test('explain looks an access token up in the database, or says that it cannot', async t => {
  const folder = await routeFolder(t, { 'a.yaml': `${UP}routes: [{ path: /api/*, upstream: up, roles: [Agente] }]\n` })
  const asked = `explain GET /api/x --token pt_${'a'.repeat(43)} --config FOLDER`
  const { postgres } = await startGateway(t)
  const databases = [
    [{ DATA_DIR: '/nonexistent' }, 2, /There is no database in \/nonexistent: set DATABASE_URL/],
    [{ DATABASE_URL: postgres.url }, 0, /401 GW_UNAUTHENTICATED.*unknown-access-token/]
  ] as const
  for (const [env, code, says] of databases)
    await checkSaid(t, folder, [[asked, code, says]], { env: { JWT_SECRET: TEST_SECRET, ...env } })
})

// RV-35
t.test('check names what a less strict route leaves open, unless it is usual or said to be meant', async t => {
  const admin = (route: string) => `{ path: ${route}, upstream: up, roles: [Admin] }`
  const any = (path: string) => `{ path: ${path}, upstream: up }`
  const leaves = /leaves POST, PUT, PATCH, DELETE, OPTIONS and unknown methods.*accept: \[wider-methods\]/
  const rows: readonly (readonly [routes: string | readonly string[], warning?: RegExp])[] = [
    [admin('/api/orders/:id, methods: [DELETE]')],
    [admin('/api/orders/:id, methods: [GET]'), leaves],
    [admin('/api/orders/:id, methods: [GET], accept: [wider-methods]')],
    [admin('/api/written/:id, methods: [POST, PUT, PATCH, DELETE]')],
    [admin('/api/set/*, methods: [GET, DELETE]'), /leaves POST, PUT, PATCH, OPTIONS and unknown methods/],
    [admin('/api/people/*, methods: [POST]'), /leaves GET, HEAD, PUT, PATCH, DELETE, OPTIONS and unknown methods/],
    [[admin('/api/shown/*, methods: [POST]'), any('/api/shown/*')]],
    [
      [admin('/api/by-id/new, methods: [GET]'), any('/api/by-id/:id')],
      /leaves POST, .* to the less strict "\/api\/by-id\/:id"/
    ],
    [
      admin('/api/all'),
      /"\/api\/all" does not cover paths below it.*"\/api\/\*" at .*:5:5.*; add "\/api\/all\/\*", or "accept: \[wider-paths\]/
    ],
    [admin('/api/all, accept: [wider-paths]')],
    [
      [admin('/'), any('/*')],
      /"\/" does not cover paths below it: \/x belongs to .*; make that one as strict, or add "accept/
    ],
    [[admin('/, methods: [GET], accept: [wider-paths]'), any('/*')], leaves],
    [[admin('/deep/'), any('/deep/*')], /"\/deep\/" does not cover paths below it: \/deep\/x belongs to/],
    [any('/api/open')],
    [[admin('/api/closed'), admin('/api/closed/*, methods: [GET, POST, PUT, PATCH, DELETE, OPTIONS]')]],
    [admin('/api/script.php')],
    [
      [admin('/admin/*'), any('/app/*, stripPrefix: /app')],
      /less strict "\/app\/\*" at .*:\d+:5 leads to what "\/admin\/\*" protects: \/app\/admin\/0 reaches the backend as \/admin\/0/
    ],
    [admin('/old/api/:id, stripPrefix: /old'), /"\/api\/\*" at .* protects: \/api\/\S+ reaches the backend as \/api\//],
    [[admin('/admin/*, accept: [wider-paths]'), any('/app/*, stripPrefix: /app')]],
    [[admin('/admin/*'), admin('/app/*, stripPrefix: /app')]],
    [[admin('/php/admin/*, stripPrefix: /php'), any('/php/*, stripPrefix: /php')]],
    ['{ path: /api/elsewhere, upstream: other, roles: [Admin] }']
  ]
  for (const [routes, warning] of rows) {
    const lines = [any('/api/*'), ...[routes].flat()].map(route => `  - ${route}\n`)
    const yaml = `${UP}  other: { url: http://127.0.0.1:4002 }\nroutes:\n${lines.join('')}`
    const folder = await routeFolder(t, { 'a.yaml': yaml })
    const says = warning ?? /^(?!(?:.|\n)*\(warning\))/
    await checkSaid(t, folder, [
      ['check FOLDER --no-settings', 0, says],
      ['check FOLDER --no-settings --strict', warning === undefined ? 0 : 1, says]
    ])
  }
})

// RV-36
t.test('tests, explain and matrix know people without an area, and service accounts', async t => {
  const file = (...tests: string[]) =>
    `profiles: [Medico]\n${UP}routes:\n  - { path: /a, upstream: up, roles: [Medico] }\n  - { path: /b, upstream: up, requireAssigned: true }\n` +
    `tests:\n${tests.map(test => `  - ${test}\n`).join('')}`
  const right = file(
    'GET /a as Medico without area -> allow',
    'GET /b as Medico without area -> 403',
    'GET /b as Medico -> allow',
    'GET /a as client Medico -> allow',
    'GET /auth/me as client Medico -> allow',
    'GET /auth/tokens as client Medico -> 403'
  )
  const wrong = await routeFolder(t, { 'a.yaml': file('GET /b as Medico without area -> allow') })
  await checkSaid(t, await routeFolder(t, { 'a.yaml': right }), [
    ['check FOLDER --no-settings', 0],
    [`check ${wrong} --no-settings`, 1],
    ['explain GET /b --as Medico without area --config FOLDER', 0, /403 GW_UNASSIGNED/],
    ['explain GET /b --as client Medico --config FOLDER', 0, /as client Medico\nallow/],
    [
      'matrix --config FOLDER',
      0,
      /Medico without area +upstream/,
      /As ROLE passes: service accounts \(client ROLE\)\./
    ],
    ['matrix --own --config FOLDER', 0, /Medico without area +client Agente /]
  ])
  const { json } = await portaria(['matrix', '--own', '--json', '--config', await routeFolder(t, { 'a.yaml': right })])
  const [tokens, a, b] = ['GET /auth/tokens', '/a', '/b'].map(id => json<{ id: string }[]>().find(row => row.id === id))
  t.match(
    [tokens, a, b],
    [
      { allowed: { Medico: true, 'Medico without area': true, 'client Medico': false } },
      { allowed: { Medico: true, 'Medico without area': true, 'client Medico': true, 'client Agente': false } },
      { allowed: { Medico: true, 'Medico without area': false, 'client Medico': true } }
    ]
  )
})

// RV-37
t.test('check says what stays with the gateway below a catch-all', async t => {
  const folderOf = (path: string) => routeFolder(t, { 'a.yaml': `${UP}routes: [{ path: ${path}, upstream: up }]\n` })
  const says = /\/health and everything below \/auth\/ stay with the gateway/
  await checkSaid(t, await folderOf('/*'), [['check FOLDER --no-settings --strict', 0, says]])
  const { stdout } = await portaria(['check', await folderOf('/api/*'), '--no-settings'])
  t.notMatch(stdout, says)
})

const FILE = `upstreams:
  app:
    url: http://127.0.0.1:4001
    preserveHost: true
    identityHeaders: { X-WEBAUTH-USER: login }
    requestHeaders: { set: { X-Tenant: norte }, remove: [Accept-Language] }
  plain: { url: http://127.0.0.1:4002 }
routes:
  - { path: /app/*, upstream: app, stripPrefix: /app, forwardToken: true }
  - { path: /open/*, upstream: plain, public: true }
`

t.test('explain lists the header lines that a backend receives', async t => {
  const config = await routeFolder(t, { 'a.yaml': FILE })
  const ask = async (...words: string[]) => {
    const { code, stdout } = await portaria(['explain', ...words, '--config', config, '--headers', '--json'])
    t.equal(code, 0)
    return JSON.parse(stdout) as { headers?: string[]; removed?: string[] }
  }
  t.match(await ask('GET', '/app/x', '--as', 'Agente'), {
    headers: (
      'host: <host asked for>¦authorization: <as the client sent it>¦x-forwarded-for: <client address>¦' +
      'x-forwarded-proto: <http or https>¦x-forwarded-host: <host asked for>¦x-forwarded-prefix: /app¦' +
      'x-real-ip: <client address>¦x-request-id: <request id>¦' +
      'x-portaria-via: <gateways that the request has passed>¦x-user-id: <id>¦x-user-name: <name>¦' +
      'x-user-email: <email>¦x-user-username: <username>¦x-user-provider: ldap¦x-user-profiles: Agente¦' +
      'x-user-areas: <areas>¦x-user-area-principal: <areaPrincipal>¦x-user-access-status: assigned¦' +
      'X-Tenant: norte¦X-WEBAUTH-USER: ldap:<username>'
    ).split('¦'),
    removed: ['X-Tenant', 'X-WEBAUTH-USER', 'Accept-Language']
  })
  const { headers = [] } = await ask('GET', '/app/x', '--as', 'Agente without area')
  t.notMatch(headers.join(), /x-user-area/)
  const open = await ask('GET', '/open/x', '--as', 'anonymous')
  t.equal(open.headers?.[0], 'host: 127.0.0.1:4002')
  t.notMatch(open.headers?.join(), /x-user-/)
  t.equal((await ask('GET', '/app/x', '--as', 'anonymous')).headers, undefined, 'a refused request reaches no backend')
  const { stdout } = await portaria(['explain', 'GET', '/app/x', '--as', 'Agente', '--config', config, '--headers'])
  t.match(stdout, /In addition to what the client sent, the backend receives:\n {2}host: <host asked for>\n/)
  t.match(stdout, /Removed from the client's request: X-Tenant, X-WEBAUTH-USER, Accept-Language/)
})

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const ROUTES = `upstreams:
  up: { url: http://127.0.0.1:4001 }
profiles: [Financeiro]
routes:
  - { path: /money, upstream: up, roles: [Financeiro] }
`
const granting = (profiles: string, group = SUPORTE) =>
  `${ROUTES}grants:\n  - { group: "${group}", profiles: [${profiles}], areas: [Suporte] }\n`

t.test('grants are listed with their place', async t => {
  const folder = await routeFolder(t, { 'a.yaml': granting('Financeiro') })
  const { code, json } = await portaria(['grants', '--config', folder, '--json'])
  t.equal(code, 0)
  t.match(json(), [
    { group: SUPORTE, provider: 'ldap', profiles: only('Financeiro'), areas: only('Suporte'), place: /a\.yaml:7:5$/ }
  ])
  const unset = await portaria(['grants', '--find', 'Suporte'], {
    env: { JWT_SECRET: randomBytes(32).toString('hex') }
  })
  t.match(unset, { code: 2, stderr: /LDAP_ENABLED/ })
})

t.test('a request can be explained as a member of a group, and further profiles have a column', async t => {
  const folder = await routeFolder(t, { 'a.yaml': granting('Financeiro') })
  const as = (who: string) => portaria(['explain', 'GET', '/money', '--as', who, '--config', folder, '--json'])
  t.match((await as(`group:"${SUPORTE.toLowerCase()}"`)).json(), {
    decision: 'allow',
    everybody: { Financeiro: 'allow' }
  })
  t.match((await as('group:CN=Other,DC=corp')).json(), { decision: 403 })
  t.match((await as('Financeiro')).json(), { decision: 'allow' })
  t.equal((await as('Financeira')).code, 2)
  const matrix = await portaria(['matrix', '--config', folder, '--json'])
  t.match(matrix.json(), [{ id: '/money', allowed: { Financeiro: true, Admin: false } }])
})
