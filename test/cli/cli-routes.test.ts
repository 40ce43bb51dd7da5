// Route files are checked, explained, drawn and replayed from the command line, without a running gateway.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { signToken, startGateway, TEST_SECRET } from '../support/gateway.ts'
import { only } from '../support/only.ts'
import { routeFolder } from '../support/route-files.ts'

const YAML = `upstreams:
  up: { url: http://127.0.0.1:4001 }
routes:
  - { path: /open/*, upstream: up, public: true }
  - { path: /api/*, upstream: up, roles: [Agente, Supervisor] }
  - { path: "/api/orders/:id", methods: [DELETE], upstream: up, roles: [Admin] }
  - { path: /any, upstream: up }
  - { path: /socket.io/*, upstream: up, socketio: { namespaces: { /m: { roles: [Agente] } } } }
tests:
  - GET /api/x as Agente -> allow
`

t.test('help says what there is, and every command has examples', async t => {
  const help = await portaria(['--help'])
  t.equal(help.code, 0)
  const namesIn = (text: string) =>
    [...text.matchAll(/^(?!Options|Arguments|Examples)[A-Z][\w ]*:\n((?: {2}.*\n)+)/gm)]
      .flatMap(([, lines = '']) => [...lines.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name = '']) => name))
      .filter(name => name !== 'help')
  const check = async (...words: string[]): Promise<void> => {
    const { code, stdout } = await portaria([...words, '--help'])
    t.equal(code, 0)
    const names = namesIn(stdout)
    for (const name of names) await check(...words, name)
    if (names.length > 0) return
    t.match(stdout, /Examples:\n {2}portaria /, words.join(' '))
    if (!['start', 'demo', 'completion'].includes(words[0] ?? '')) t.match(stdout, /--json/, words.join(' '))
  }
  const commands = namesIn(help.stdout)
  t.ok(commands.length > 15)
  for (const name of commands) await check(name)
})

t.test('what cannot run ends with 2 and one readable message', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const cases: readonly (readonly [string[], RegExp])[] = [
    [[], /Usage: portaria/],
    [['chek'], /unknown command 'chek'\n.*Did you mean check\?/],
    [['check', '/nowhere'], /The folder \/nowhere cannot be read/],
    [['explain', 'GET'], /missing required argument 'path'/],
    [['explain', 'GET', 'x', '--config', folder], /PATH must begin with \//],
    [['explain', 'G T', '/', '--config', folder], /METHOD must be a method/],
    [['explain', 'GET', '/', '--as', 'Agent', '--config', folder], /did you mean "Agente"/],
    [['explain', 'GET', '/', '--token', 'nonsense', '--config', folder], /not a token of a gateway/],
    [['explain', 'GET', '/', '--as', 'Agente', '--token', 'x', '--config', '/nowhere'], /either --as or --token/],
    [
      ['explain', 'EVENT', '/', 'x', '--as', 'Agente', '--token', 'x', '--config', '/nowhere'],
      /either --as or --token/
    ],
    [['explain', 'GET', '/x', 'send', '--config', folder], /Only EVENT takes the name of an event, not GET: "send"/],
    [['explain', 'GET', '/x', '--token', '-', '--config', folder], /The token is empty/],
    [['matrix', '--config', '/nowhere'], /cannot be read/],
    [['diff', folder], /missing required argument 'new'/],
    [['replay', '/nowhere.log', '--config', folder], /\/nowhere.log cannot be read \(ENOENT\)/],
    [['replay', join(folder, 'routes.yaml'), '--config', folder], /contains no access log lines/],
    [['grant', 'maria'], /required option '--profile/],
    [['doctor', 'nonsense'], /URL must be one such as/]
  ]
  for (const [args, message] of cases) {
    const { code, stdout, stderr } = await portaria(args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, message)
    t.equal(stdout, '')
    t.notMatch(stderr, /\n\s+at /, 'no stack trace')
  }
  const json = await portaria(['check', '/nowhere', '--json'])
  t.match(json.json(), { error: /^The folder \/nowhere cannot be read: set UPSTREAM_CONFIG/ })
  t.equal(json.code, 2)
})

t.test('check validates routes, their tests, and the settings where there are any', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const fine = await portaria(['check', folder])
  t.equal(fine.code, 0)
  t.match(fine.stdout, /5 routes in 1 file, 1 test passed/)
  t.match(fine.stdout, /settings: not checked/)
  const byVariable = await portaria(['check'], { env: { UPSTREAM_CONFIG: folder } })
  t.equal(byVariable.code, 0, 'the folder alone asks for no other setting')

  const weak = await portaria(['check', folder, '--json'], { env: { JWT_SECRET: 'short', LDAP_ULR: 'x' } })
  t.equal(weak.code, 1)
  t.match(weak.json(), {
    ok: false,
    settings: { judged: true, mistakes: [{ variable: 'JWT_SECRET' }, { variable: 'LDAP_ULR' }] }
  })
  t.notMatch(weak.stdout, /short/, 'no secret is repeated')
  t.equal((await portaria(['check', folder, '--no-settings'], { env: { JWT_SECRET: 'short' } })).code, 0)
  t.equal((await portaria(['check', folder, '--settings'])).code, 1)
  t.equal((await portaria(['check', folder], { env: { JWT_SECRET: TEST_SECRET } })).code, 0)

  const broken = await routeFolder(t, {
    'routes.yaml': YAML.replace('-> allow', '-> 403').replace('public: true', 'pubic: true')
  })
  const result = await portaria(['check', broken])
  t.equal(result.code, 1)
  t.match(result.stdout, /routes\.yaml:4:\d+: .*pubic/)
})

// RV-96
t.test('check --no-files opens no certificate or key, and lists those that it skipped', async t => {
  const yaml = `upstreams:
  one: { url: "https://10.0.0.1", caFile: ./ca.pem, clientCertFile: /etc/pki/one.crt, clientKeyFile: /etc/pki/one.key }
  two: { url: "https://10.0.0.2", caFile: ./ca.pem }
routes:
  - { path: /api/*, upstream: one }
`
  const folder = await routeFolder(t, { 'routes.yaml': yaml })
  t.equal((await portaria(['check', folder])).code, 1)
  const skipping = await portaria(['check', folder, '--no-files', '--json'])
  t.equal(skipping.code, 0, skipping.stdout)
  const ca = join(folder, 'ca.pem')
  t.same((skipping.json() as { skippedFiles: string[] }).skippedFiles, [ca, '/etc/pki/one.crt', '/etc/pki/one.key', ca])
  const text = await portaria(['check', folder, '--no-files'])
  for (const name of [ca, '/etc/pki/one.crt', '/etc/pki/one.key'])
    t.ok(text.stdout.includes(`${name} was not opened (--no-files)`), name)
  const half = await routeFolder(t, { 'routes.yaml': yaml.replace(', clientKeyFile: /etc/pki/one.key', '') })
  const checked = await portaria(['check', half, '--no-files'])
  t.equal(checked.code, 1, 'what the route files themselves say is checked as ever')
  t.match(checked.stdout, /"clientCertFile" requires "clientKeyFile"/)
  const plain = await portaria(['check', await routeFolder(t, { 'routes.yaml': YAML }), '--json'])
  t.same((plain.json() as { skippedFiles: string[] }).skippedFiles, [])
})

// RV-97
t.test('check without settings names what a start will need from them', async t => {
  const folder = await routeFolder(t, {
    'routes.yaml': `upstreams:
  up: { url: http://127.0.0.1:4001, preserveHost: true }
routes:
  - { path: /app/*, upstream: up, browser: true }
grants:
  - { group: "cn=a,dc=b", profiles: [Agente], areas: [Sul] }
  - { claim: g-1, profiles: [Agente], areas: [Sul] }
`
  })
  const needs = [/preserveHost.* needs PUBLIC_URL/, /needs CLOUDIDP_ISSUER/, /BROWSER_SESSION=true/, /LDAP_SEARCH_BASE/]
  const text = await portaria(['check', folder])
  t.equal(text.code, 0)
  for (const need of needs)
    t.ok(
      text.stdout
        .split('\n')
        .some(line => need.test(line) && /routes\.yaml:\d+:\d+: .*\(settings were not checked\)$/.test(line)),
      String(need)
    )
  const { settings } = (await portaria(['check', folder, '--json'])).json() as { settings: { unchecked: object[] } }
  t.equal(settings.unchecked.length, needs.length)
  const given = await portaria(['check', folder, '--json'], {
    env: { JWT_SECRET: TEST_SECRET, PUBLIC_URL: 'http://localhost' }
  })
  t.equal(given.code, 1)
  t.match(given.json(), { settings: { unchecked: only() }, complaints: [{ message: /CLOUDIDP_ISSUER/ }] })
  const nothing = await portaria(['check', await routeFolder(t, { 'routes.yaml': YAML }), '--json'])
  t.match(nothing.json(), { settings: { unchecked: only() } })
})

t.test('check warns where a weaker route takes what people would take for a stronger one', async t => {
  const folder = await routeFolder(t, {
    'routes.yaml': `upstreams:
  up: { url: http://127.0.0.1:4001 }
  other: { url: http://127.0.0.1:4002 }
routes:
  - { path: /api/*, upstream: up }
  - { path: /api/admin, upstream: up, roles: [Admin] }
  - { path: /api/orders/:id, methods: [DELETE], upstream: up, roles: [Admin] }
  - { path: /api/elsewhere, upstream: other, roles: [Admin] }
  - { path: /api/open, upstream: up }
  - { path: /api/closed, upstream: up, roles: [Admin] }
  - { path: /api/closed/*, methods: [GET, POST, PUT, PATCH, DELETE, OPTIONS], upstream: up, roles: [Admin] }
  - { path: /api/written/:id, methods: [POST, PUT, PATCH, DELETE], upstream: up, roles: [Admin] }
  - { path: /api/script.php, upstream: up, roles: [Admin] }
  - { path: /api/people/*, methods: [POST], upstream: up, roles: [Admin] }
  - { path: /api/shown/*, methods: [POST], upstream: up, roles: [Admin] }
  - { path: /api/shown/*, upstream: up }
`
  })
  const { code, json } = await portaria(['check', folder, '--json'])
  t.equal(code, 0)
  const warnings = (json() as { warnings: { line: number; message: string }[] }).warnings
  t.same(
    warnings.map(({ line }) => line),
    [6, 14]
  )
  t.match(warnings[0]?.message, /"\/api\/admin" does not cover paths below it.*"\/api\/\*" at .*:5:5/)
  t.match(
    warnings[1]?.message,
    /"POST \/api\/people\/\*" leaves GET, HEAD, PUT, PATCH, DELETE, OPTIONS and unknown methods/
  )
})

t.test('explain says path, candidates, winner with its line, decision and code', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const ask = (...args: string[]) => portaria(['explain', ...args, '--config', folder])
  const { code, stdout } = await ask(
    'DELETE',
    'http://localhost:3000/api/%6Frders/7?x=1',
    '--as',
    'Agente',
    'Supervisor'
  )
  t.equal(code, 0)
  t.match(
    stdout,
    /^DELETE \/api\/%6Frders\/7\?x=1 read as \/api\/orders\/7 as Agente\+Supervisor\n403 GW_FORBIDDEN \(role-missing\)/
  )
  t.match(stdout, /→ {2}DELETE \/api\/orders\/:id +\S+routes\.yaml:6 /)
  t.match(stdout, /\/api\/\* .*"orders" in .* is more specific than "\*"/)
  t.match((await ask('GET', '/api/x;y', '--as', 'Agente')).stdout, /400 GW_BAD_PATH \(semicolon\)/)
  t.match((await ask('get', '/any')).stdout, /cloud-unassigned +403 +GW_UNASSIGNED\nunassigned +allow/)
  t.match((await ask('GET', '/api/\u001b[2J')).stdout, /\\u\{1b\}\[2J/, 'what is asked cannot command the terminal')
  const cloud = await portaria(['explain', 'GET', '/any', '--as', 'cloud-unassigned', '--json', '--config', folder], {
    env: { CLOUDIDP_TENANT_ID: 'f1f1f1f1-0000-4000-8000-000000000000' }
  })
  t.match(cloud.json(), { decision: 'allow' }, 'a tenant of one company is trusted as its directory is')
})

t.test('explain takes a token: verified where the secret is known, else at its word', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const ask = async (token: string, env: Record<string, string> = {}, path = '/api/x') =>
    (
      await portaria(['explain', 'GET', path, '--token', '-', '--json', '--config', folder], { env, input: token })
    ).json<{
      decision: unknown
      code: string
      note?: string
    }>()
  const secret = { JWT_SECRET: TEST_SECRET }
  const token = await signToken(TEST_SECRET)
  t.match(await ask(token, secret), { decision: 'allow', as: 'maria (Agente)', note: /revoked/ })
  t.match(await ask(token), { decision: 'allow', note: /was not verified/ })
  const expired = await signToken(TEST_SECRET, {}, { iat: 1000, exp: 2000 })
  t.match(await ask(expired, secret), { decision: 401, code: 'GW_TOKEN_EXPIRED' })
  t.match(await ask(expired), { decision: 401, code: 'GW_TOKEN_EXPIRED' })
  const forged = await signToken('another secret which is long enough too')
  t.match(await ask(forged, secret), { decision: 401, code: 'GW_UNAUTHENTICATED', reason: 'bad-signature' })
  t.match(await ask(forged, { ...secret, JWT_PREVIOUS_SECRETS: 'another secret which is long enough too' }), {
    decision: 'allow'
  })
  t.match(await ask(forged, secret, '/open/x'), { decision: 'allow', reason: 'public' })
})

t.test('matrix shows who passes where, namespaces too', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const rows = (await portaria(['matrix', '--json', '--config', folder])).json<
    { id: string; allowed: Record<string, boolean> }[]
  >()
  const passing = Object.fromEntries(
    rows.map(({ id, allowed }) => [id, Object.keys(allowed).filter(who => allowed[who])])
  )
  t.same(passing, {
    '/open/*': ['anonymous', 'cloud-unassigned', 'unassigned', 'Agente', 'Supervisor', 'Admin'],
    '/api/*': ['Agente', 'Supervisor'],
    'DELETE /api/orders/:id': ['Admin'],
    '/any': ['unassigned', 'Agente', 'Supervisor', 'Admin'],
    '/socket.io/* namespace /m': ['Agente']
  })
  const own = await portaria(['matrix', '--own', '--config', folder])
  t.match(own.stdout, /\/auth\/admin\/\* +– +– +– +– +– +yes/)
})

const inTerminal = async (columns: number, env: Record<string, string>, ...args: string[]): Promise<string> => {
  const entry = join(import.meta.dirname, '../../gateway/cli/portaria.ts')
  const command = ['stty', 'cols', columns, ';', process.execPath, entry, ...args].join(' ')
  const { stdout } = await promisify(execFile)('script', ['-qec', command, '/dev/null'], {
    env: { PATH: process.env.PATH, SHELL: '/bin/sh', TERM: 'xterm', ...env }
  })
  return stdout.replaceAll('\r', '')
}

t.test('on a terminal there is colour, unless NO_COLOR is set, and tables fit', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  t.match(await inTerminal(200, {}, 'matrix', '--config', folder), /\u001b\[32myes/)
  const narrow = await inTerminal(70, { NO_COLOR: '1' }, 'matrix', '--config', folder)
  t.notMatch(narrow, /\u001b/)
  t.ok(
    narrow.split('\n').every(line => [...line].length <= 70),
    narrow
  )
  t.notMatch(await inTerminal(200, { TERM: 'dumb' }, 'matrix', '--config', folder), /\u001b/)
})

t.test('replay counts by route and role what past requests would meet under new files', async t => {
  const world = await startGateway(t, {
    config: {
      upstreams: { up: { url: 'http://127.0.0.1:1' } },
      routes: [
        { path: '/open/*', upstream: 'up', public: true },
        { path: '/api/*', upstream: 'up', roles: ['Agente'] },
        { path: '/any', upstream: 'up' }
      ]
    }
  })
  const agent = await world.tokenFor()
  const admin = await world.tokenFor({ profiles: ['Admin'] })
  for (let n = 0; n < 3; n++) await world.fetch('/api/orders', { token: agent })
  await world.fetch('/api/orders', { token: admin })
  await world.fetch('/api/orders')
  await world.fetch('/any', { token: agent })
  await world.fetch('/none', { token: agent })
  await world.fetch('/auth/me', { token: admin })
  await world.fetch('/api//orders', { token: agent })
  await world.logged(({ msg, path }) => msg === 'request' && path === '/api//orders')
  const log = join(await routeFolder(t, {}), 'access.log')
  const noise = 'not JSON\n{"msg":"other"}\n2026-11-21T00:00:00Z {"broken\n'
  writeFileSync(log, noise + world.logText() + 'x'.repeat(600_000))
  writeFileSync(`${log}.gz`, gzipSync(world.logText()))

  const same = await portaria(['replay', log, '--config', world.folder, '--json'])
  t.match(same.json(), { changes: only(), decisions: 9, foreign: Number })
  t.equal(same.code, 0)

  const next = await routeFolder(t, {
    'routes.yaml': YAML.replace('roles: [Agente, Supervisor]', 'roles: [Supervisor, Admin]').replace(/tests:.*/s, '')
  })
  const result = await portaria(['replay', log, '--config', next, '--json'])
  t.equal(result.code, 1)
  t.match(result.json(), {
    changes: [
      { route: '/api/*', role: 'Admin', was: 403, now: 'allow', count: 1, example: 'GET /api/orders' },
      { route: '/api/*', role: 'Agente', was: 'allow', now: 403, count: 3 }
    ]
  })
  const packed = await portaria(['replay', `${log}.gz`, '--config', next])
  t.equal(packed.code, 1)
  t.match(packed.stdout, /3 +allow → 403 +Agente +\/api\/\* +GET \/api\/orders/)
  const piped = await portaria(['replay', '-', '--config', next, '--json'], { input: world.logText() })
  t.same(piped.json<{ changes: unknown }>().changes, result.json<{ changes: unknown }>().changes)
})

t.test('events of Socket.IO are tested, explained and shown in the matrix', async t => {
  const yaml = (outcome: string) => `upstreams: { up: { url: "http://127.0.0.1:1" } }
routes:
  - path: /socket.io/*
    upstream: up
    socketio:
      namespaces:
        /messaging:
          roles: [Agente, Supervisor]
          events: { send: { roles: [Agente] }, "/typing:.*/": {} }
        /open: {}
tests:
  - EVENT /messaging send as Agente -> allow
  - EVENT /messaging send as Supervisor -> ${outcome}
  - EVENT /messaging typing:on as Supervisor -> allow
  - EVENT /messaging delete as Agente+Supervisor -> 403
  - EVENT /messaging send as Admin -> 403
  - EVENT /messaging send as anonymous -> 401
  - EVENT /nowhere send as Agente -> 404
  - EVENT /open anything as unassigned -> allow
`
  const folder = await routeFolder(t, { 'routes.yaml': yaml('403') })
  t.equal((await portaria(['check', folder])).code, 0)
  const wrong = await portaria(['check', await routeFolder(t, { 'routes.yaml': yaml('allow') })])
  t.match(wrong.stdout + wrong.stderr, /routes\.yaml:13:5: the test .* fails: expected allow, got 403 \(role-missing\)/)
  const short = yaml('403').replace('EVENT /open anything as', 'EVENT /open as')
  t.match(
    JSON.stringify(await portaria(['check', await routeFolder(t, { 'routes.yaml': short })])),
    /EVENT NAMESPACE NAME/
  )
  const explain = (...args: string[]) => portaria(['explain', 'EVENT', ...args, '--config', folder])
  t.match(
    (await explain('/messaging', 'send', '--as', 'Supervisor')).stdout,
    /403 GW_FORBIDDEN \(role-missing\)\n.*It requires Agente/
  )
  t.match((await explain('/messaging', 'ban', '--as', 'Agente')).stdout, /none of its `events` names this one/)
  t.match(
    (await explain('/open', 'disconnect', '--as', 'Agente')).stdout,
    /400.*\n.*to servers the name .* has a meaning/
  )
  t.match((await explain('/open', 'x', '--as', 'Agente', '--json')).json(), {
    method: 'EVENT',
    namespace: '/open',
    event: 'x',
    decision: 'allow',
    route: '/socket.io/*'
  })
  const expired = await signToken(TEST_SECRET, {}, { exp: 1 })
  const asked = ['explain', 'EVENT', '/messaging', 'send', '--token', expired, '--json', '--config', folder]
  t.match((await portaria(asked, { env: { JWT_SECRET: TEST_SECRET } })).json(), {
    decision: 401,
    code: 'GW_TOKEN_EXPIRED',
    reason: 'expired'
  })
  const rows = (await portaria(['matrix', '--json', '--config', folder])).json<
    { id: string; allowed: Record<string, boolean> }[]
  >()
  const send = rows.find(({ id }) => id === '/socket.io/* namespace /messaging event send')
  t.match(send?.allowed, { Agente: true, Supervisor: false, Admin: false, anonymous: false })
  const reserved = yaml('403').replace('send: { roles', 'connect: { roles')
  const refused = JSON.stringify(await portaria(['check', await routeFolder(t, { 'routes.yaml': reserved })]))
  t.match(refused, /no client may send the event \\*"connect/)
})
