// Commands say what the gateway decides: external routes, access tokens, kinds of people, limits, warnings.
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { routeFolder } from '../support/route-files.ts'

const UP = 'upstreams:\n  up: { url: http://127.0.0.1:4001 }\n'

// RV-24
t.test(
  'explain says what an external route answers at /auth/forward and asked directly, and knows /auth/forward',
  async t => {
    const folder = await routeFolder(t, { 'a.yaml': 'routes: [{ path: /app/*, external: true, roles: [Agente] }]\n' })
    const external = await portaria(['explain', 'GET', '/app/x', '--as', 'Agente', '--config', folder])
    t.match(external.stdout, /allow/)
    t.match(external.stdout, /answer at \/auth\/forward; asked directly, it is 404 GW_NO_ROUTE/)
    const endpoint = await portaria(['explain', 'GET', '/auth/forward', '--config', folder])
    t.match(endpoint.stdout, /403 GW_FORBIDDEN/)
    t.match(endpoint.stdout, /TRUST_PROXY/)
  }
)

// RV-25
t.test("replay of a gateway's own log with its own files changes nothing", async t => {
  const config = {
    routes: [
      { path: '/app/*', external: true },
      { path: '/app/admin/*', external: true, roles: ['Admin'] }
    ]
  }
  const world = await startGateway(t, { config, env: { TRUST_PROXY: '127.0.0.2' } })
  const proxy = await startGateway(t, { config, env: { TRUST_PROXY: '127.0.0.1' }, postgres: world.postgres })
  const token = await world.tokenFor()
  t.equal((await world.fetch('/app/x', { token })).status, 404, 'asked directly')
  t.equal((await world.fetch('/app/x')).status, 401)
  t.equal((await world.fetch('/auth/forward', { token })).status, 403, 'no trusted proxy')
  const asked = (path: string) =>
    proxy.fetch('/auth/forward', { token, headers: { 'x-forwarded-method': 'GET', 'x-forwarded-uri': path } })
  t.equal((await asked('/app/x')).status, 200)
  t.equal((await asked('/app/admin/x')).status, 403)
  await world.logged(({ path }) => path === '/auth/forward')
  await proxy.logged(({ path }) => path === '/app/admin/x')
  const { code, json } = await portaria(['replay', '-', '--config', world.folder, '--json'], {
    input: world.logText() + proxy.logText()
  })
  t.match(json(), { changes: [], decisions: 4 })
  t.equal(code, 0)
})

// RV-26
t.test('explain looks an access token up in the database, or says that it cannot', async t => {
  const folder = await routeFolder(t, { 'a.yaml': `${UP}routes: [{ path: /api/*, upstream: up, roles: [Agente] }]\n` })
  const token = `pt_${'a'.repeat(43)}`
  const args = ['explain', 'GET', '/api/x', '--token', token, '--config', folder]
  const blind = await portaria(args, { env: { JWT_SECRET: TEST_SECRET, DATA_DIR: '/nonexistent' } })
  t.equal(blind.code, 2)
  t.match(blind.stderr, /cannot be checked without the database/)
  const world = await startGateway(t)
  const unknown = await portaria(args, { env: { JWT_SECRET: TEST_SECRET, DATABASE_URL: world.postgres.url } })
  t.match(unknown.stdout + unknown.stderr, /401 GW_UNAUTHENTICATED.*unknown-access-token/)
})

// RV-27
t.test('limits that are raised or removed are looser', async t => {
  const notes = async (was: string, now: string) => {
    const table = (options: string) => `${UP}routes: [{ path: /pay, upstream: up${options} }]\n`
    const [before, after] = [
      await routeFolder(t, { 'a.yaml': table(was) }),
      await routeFolder(t, { 'a.yaml': table(now) })
    ]
    const { code, json } = await portaria(['diff', before, after, '--json'])
    return {
      code,
      texts: (json() as { notes: { text: string; looser: boolean }[] }).notes.map(
        ({ text, looser }) => `${looser} ${text}`
      )
    }
  }
  t.same(await notes(', websocket: { maxLifetime: 1h, idleTimeout: 5m }', ', websocket: { idleTimeout: 10m }'), {
    code: 1,
    texts: ['true /pay: websocket.idleTimeout 300000 → 600000', 'true /pay: websocket.maxLifetime 3600000 → none']
  })
  t.match(await notes(', rateLimit: { max: 5, window: 1m }, maxBody: 1KB', ''), {
    code: 1,
    texts: ['true /pay: maxBody 1024 → none', 'true /pay: rateLimit 5 in 60000 ms by ip → none']
  })
  t.match(await notes('', ', rateLimit: { max: 5, window: 1m }, maxBody: 1KB'), { code: 0 })
  t.match(await notes(', rateLimit: { max: 5, window: 1m }', ', rateLimit: { max: 5, window: 10s }'), { code: 1 })
})

// RV-35
t.test(
  'check is silent about a usual pattern, names what a wider route leaves open, and can be told that it is meant',
  async t => {
    const check = async (routes: string, ...more: string[]) => {
      const folder = await routeFolder(t, { 'a.yaml': `${UP}routes:\n${routes}` })
      const { code, json } = await portaria(['check', folder, '--no-settings', '--json', ...more])
      return { code, warnings: (json() as { warnings: { message: string }[] }).warnings.map(({ message }) => message) }
    }
    const orders = '  - { path: /api/orders/*, upstream: up, roles: [Admin, Supervisor] }\n'
    const deletion = '  - { path: /api/orders/:id, methods: [DELETE], upstream: up, roles: [Admin] }\n'
    t.same(await check(orders + deletion), { code: 0, warnings: [] })
    const reading = (more = '') =>
      `  - { path: /api/orders/:id, methods: [GET]${more}, upstream: up, roles: [Admin] }\n`
    t.match(await check(orders + reading()), {
      code: 0,
      warnings: [/leaves POST, PUT, PATCH, DELETE.*accept: \[wider-methods\]/]
    })
    t.match(await check(orders + reading(), '--strict'), { code: 1 })
    t.same(await check(orders + reading(', accept: [wider-methods]'), '--strict'), { code: 0, warnings: [] })
    const exact = (more = '') => `  - { path: /api/orders/all${more}, upstream: up, roles: [Admin] }\n`
    t.match(await check(orders + exact()), { warnings: [/accept: \[wider-paths\]/] })
    t.same(await check(orders + exact(', accept: [wider-paths]'), '--strict'), { code: 0, warnings: [] })
  }
)

// RV-36
t.test('tests and explain know people without an area, and service accounts', async t => {
  const file = (tests: string[]) =>
    `profiles: [Medico]\n${UP}routes:\n  - { path: /a, upstream: up, roles: [Medico] }\n  - { path: /b, upstream: up, requireAssigned: true }\n` +
    `tests:\n${tests.map(test => `  - ${test}\n`).join('')}`
  const right = [
    'GET /a as Medico without area -> allow',
    'GET /b as Medico without area -> 403',
    'GET /b as Medico -> allow',
    'GET /a as client Medico -> allow',
    'GET /auth/me as client Medico -> allow',
    'GET /auth/tokens as client Medico -> 403'
  ]
  const folder = await routeFolder(t, { 'a.yaml': file(right) })
  const { code, stdout } = await portaria(['check', folder, '--no-settings'])
  t.equal(code, 0, stdout)
  const wrong = await routeFolder(t, { 'a.yaml': file(['GET /b as Medico without area -> allow']) })
  t.equal((await portaria(['check', wrong, '--no-settings'])).code, 1)
  const explain = (...who: string[]) => portaria(['explain', 'GET', '/b', '--as', ...who, '--config', folder])
  t.match((await explain('Medico', 'without', 'area')).stdout, /403 GW_UNASSIGNED/)
  t.match((await explain('client', 'Medico')).stdout, /as client Medico\nallow/)
})

// RV-37
t.test('check says what stays with the gateway below a catch-all', async t => {
  const folder = await routeFolder(t, { 'a.yaml': `${UP}routes: [{ path: /*, upstream: up }]\n` })
  const { stdout, code } = await portaria(['check', folder, '--no-settings', '--strict'])
  t.equal(code, 0)
  t.match(stdout, /\/health and everything below \/auth\/ stay with the gateway/)
  const plain = await routeFolder(t, { 'a.yaml': `${UP}routes: [{ path: /api/*, upstream: up }]\n` })
  t.notMatch((await portaria(['check', plain, '--no-settings'])).stdout, /stay with the gateway/)
})
