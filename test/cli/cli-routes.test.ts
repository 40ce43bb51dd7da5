// Route files are checked, explained, drawn and replayed from the command line, without a running gateway.
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { createTerminal, table } from '../../gateway/cli/terminal.ts'
import { checkSaid, portariaHere as portaria } from '../support/cli-here.ts'
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

const folder = await routeFolder(t, { 'routes.yaml': YAML })

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
  for (const words of [['help'], ['client', 'help'], ['help', 'client']]) t.equal((await portaria(words)).code, 0)
  const commands = namesIn(help.stdout)
  t.ok(commands.length > 15)
  for (const name of commands) await check(name)
})

t.test('what cannot run ends with 2 and one readable message', async t => {
  await checkSaid(t, folder, [
    ['chek', 2, /unknown command 'chek'\n.*Did you mean check\?/],
    ['check /nowhere', 2, /The folder \/nowhere cannot be read: set UPSTREAM_CONFIG/],
    ['explain GET', 2, /missing required argument 'path'/],
    ['explain GET x --config FOLDER', 2, /PATH must begin with \//],
    ['explain G:T / --config FOLDER', 2, /METHOD must be a method/],
    ['explain GET / --as Agent --config FOLDER', 2, /did you mean "Agente"/],
    ['explain GET / --token nonsense --config FOLDER', 2, /not a token of a gateway/],
    ['explain GET / --as Agente --token x --config /nowhere', 2, /either --as or --token/],
    ['explain EVENT / x --as Agente --token x --config /nowhere', 2, /either --as or --token/],
    ['explain GET /x send --config FOLDER', 2, /Only EVENT takes the name of an event, not GET: "send"/],
    ['explain GET /x --token - --config FOLDER', 2, /The token is empty/],
    ['matrix --config /nowhere', 2, /\/nowhere cannot be read: set UPSTREAM_CONFIG/],
    ['diff FOLDER', 2, /missing required argument 'new'/],
    ['replay /nowhere.log --config FOLDER', 2, /\/nowhere.log cannot be read \(ENOENT\)/],
    [`replay ${join(folder, 'routes.yaml')} --config FOLDER`, 2, /contains no access log lines/],
    ['grant maria', 2, /required option '--profile/],
    ['doctor nonsense', 2, /URL must be one such as/]
  ])
  t.match(await portaria([]), { code: 2, stdout: '', stderr: /Usage: portaria/ })
  const json = await portaria(['check', '/nowhere', '--json'])
  t.match([json.code, json.json()], [2, { error: /^The folder \/nowhere cannot be read/ }])
  const both = await portaria(['check', '/nowhere'], { env: { JWT_SECRET: 'short' } })
  t.match(
    both,
    { code: 2, stderr: /nowhere cannot be read[\s\S]*JWT_SECRET must/ },
    'mistakes of the settings are said too'
  )
  const env = { PUBLIC_URL: 'foo' }
  const explained = await portaria(['explain', 'GET', '/api/x', '--config', folder], { env })
  t.match(explained, { code: 2, stderr: /PUBLIC_URL must be/ })
})

t.test('check validates routes, their tests, and the settings where there are any', async t => {
  const broken = await routeFolder(t, {
    'routes.yaml': YAML.replace('-> allow', '-> 403').replace('public: true', 'pubic: true')
  })
  await checkSaid(t, folder, [
    ['check FOLDER', 0, /5 routes in 1 file, 1 test passed/, /settings: not checked/],
    ['check FOLDER --settings', 1, /JWT_SECRET/],
    [`check ${broken}`, 1, /routes\.yaml:4:\d+: .*pubic/]
  ])
  await checkSaid(t, folder, [['check', 0]], { env: { UPSTREAM_CONFIG: folder } })
  // As in the image, in CI.
  await checkSaid(t, folder, [['check FOLDER', 0, /settings: not checked/]], { env: { OPS_PORT: '9090' } })
  await checkSaid(t, folder, [['check FOLDER', 0]], { env: { JWT_SECRET: TEST_SECRET } })
  const unrelated = {
    LDAP_SERVICE_HOST: '10.0.0.2',
    LDAP_PORT: 'tcp://10.0.0.2:389',
    LDAP_PORT_389_UDP: 'udp://10.0.0.2:389'
  }
  await checkSaid(t, folder, [['check FOLDER', 0, /settings: not checked/]], { env: unrelated })
  await checkSaid(t, folder, [['check FOLDER', 1, /JWT_SECRET/]], { env: { ...unrelated, JWT_SECRET: '' } })
  await checkSaid(t, folder, [['check FOLDER --no-settings', 0, /settings: not checked \(--no-settings\)$/m]], {
    env: { JWT_SECRET: 'short' }
  })
  const weak = await portaria(['check', folder, '--json'], { env: { JWT_SECRET: 'short', LDAP_ULR: 'x' } })
  t.equal(weak.code, 1)
  t.match(weak.json(), {
    ok: false,
    settings: { judged: true, mistakes: [{ variable: 'JWT_SECRET' }, { variable: 'LDAP_ULR' }] }
  })
  t.notMatch(weak.stdout, /short/, 'no secret is repeated')
})

// RV-96
t.test('check --no-files opens no certificate or key, and lists those that it skipped', async t => {
  const yaml = `upstreams:
  one: { url: "https://10.0.0.1", caFile: ./ca.pem, clientCertFile: /etc/pki/one.crt, clientKeyFile: /etc/pki/one.key }
  two: { url: "https://10.0.0.2", caFile: ./ca.pem }
routes:
  - { path: /api/*, upstream: one }
`
  const needy = await routeFolder(t, { 'routes.yaml': yaml })
  const half = await routeFolder(t, { 'routes.yaml': yaml.replace(', clientKeyFile: /etc/pki/one.key', '') })
  const files = [join(needy, 'ca.pem'), '/etc/pki/one.crt', '/etc/pki/one.key', join(needy, 'ca.pem')]
  await checkSaid(t, needy, [
    ['check FOLDER', 1],
    ['check FOLDER --no-files', 0, ...files.map(file => new RegExp(`^${file} was not opened \\(--no-files\\)$`, 'm'))],
    // What the route files themselves say is checked as ever.
    [`check ${half} --no-files`, 1, /"clientCertFile" requires "clientKeyFile"/]
  ])
  t.match((await portaria(['check', needy, '--no-files', '--json'])).json(), { skippedFiles: only(...files) })
  t.match((await portaria(['check', folder, '--json'])).json(), { skippedFiles: only() })
})

// RV-97
t.test('check without settings names what a start will need from them', async t => {
  const needy = await routeFolder(t, {
    'routes.yaml': `upstreams:
  up: { url: http://127.0.0.1:4001, preserveHost: true }
routes:
  - { path: /app/*, upstream: up, browser: true }
grants:
  - { group: "cn=a,dc=b", profiles: [Agente], areas: [Sul] }
  - { claim: g-1, profiles: [Agente], areas: [Sul] }
`
  })
  const needs = ['preserveHost.* needs PUBLIC_URL', 'needs CLOUDIDP_ISSUER', 'BROWSER_SESSION=true', 'LDAP_SEARCH_BASE']
  const lines = needs.map(
    need => new RegExp(`routes\\.yaml:\\d+:\\d+: .*${need}.*\\(settings were not checked\\)$`, 'm')
  )
  await checkSaid(t, needy, [['check FOLDER', 0, ...lines]])
  const unchecked = async (of: string, env = {}) =>
    (await portaria(['check', of, '--json'], { env })).json<{ settings: { unchecked: object[] } }>()
  t.equal((await unchecked(needy)).settings.unchecked.length, needs.length)
  t.equal((await unchecked(needy, { PUBLIC_URL: ' ' })).settings.unchecked.length, needs.length)
  t.same((await unchecked(folder)).settings.unchecked, [])
  t.match(await unchecked(needy, { JWT_SECRET: TEST_SECRET, PUBLIC_URL: 'http://localhost' }), {
    ok: false,
    settings: { unchecked: only() },
    complaints: [{ message: /CLOUDIDP_ISSUER/ }]
  })
  t.match(await unchecked(needy, { JWT_SECRET: TEST_SECRET, PUBLIC_URL: ' ' }), {
    ok: false,
    complaints: [{ message: /preserveHost/ }, { message: /CLOUDIDP_ISSUER/ }]
  })
})

t.test('explain says path, candidates, winner with its line, decision and code', async t => {
  await checkSaid(t, folder, [
    [
      'explain DELETE http://localhost:3000/api/%6Frders/7?x=1 --as Agente Supervisor --config FOLDER',
      0,
      /^DELETE \/api\/%6Frders\/7\?x=1 read as \/api\/orders\/7 as Agente\+Supervisor\n403 GW_FORBIDDEN \(role-missing\)/,
      /→ {2}DELETE \/api\/orders\/:id +\S+routes\.yaml:6 /,
      /\/api\/\* .*"orders" in .* is more specific than "\*"/
    ],
    ['explain GET /api/x;y --as Agente --config FOLDER', 0, /400 GW_BAD_PATH \(semicolon\)/],
    ['explain get /any --config FOLDER', 0, /cloud-unassigned +403 +GW_UNASSIGNED\nunassigned +allow/],
    // What is asked cannot command the terminal.
    ['explain GET /api/\u001b[2J --config FOLDER', 0, /\\u\{1b\}\[2J/]
  ])
  // A tenant of one company is trusted as its directory is.
  const env = { CLOUDIDP_TENANT_ID: 'f1f1f1f1-0000-4000-8000-000000000000' }
  const ofTenant = 'explain GET /any --as cloud-unassigned --config FOLDER'
  await checkSaid(t, folder, [[ofTenant, 0, /\nallow/]], { env })
})

t.test('explain takes a token: verified where the secret is known, else at its word', async t => {
  const ask = async (input: string, env: Record<string, string>, path = '/api/x') =>
    (await portaria(['explain', 'GET', path, '--token', '-', '--json', '--config', folder], { env, input })).json()
  const OTHER = 'another secret which is long enough too'
  const secret = { JWT_SECRET: TEST_SECRET }
  const [token, expired, forged] = await Promise.all([
    signToken(TEST_SECRET),
    signToken(TEST_SECRET, {}, { iat: 1000, exp: 2000 }),
    signToken(OTHER)
  ])
  t.match(await ask(token, secret), { decision: 'allow', as: 'maria (Agente)', note: /revoked/ })
  t.match(await ask(token, {}), { decision: 'allow', note: /was not verified/ })
  t.match(await ask(expired, secret), { decision: 401, code: 'GW_TOKEN_EXPIRED' })
  t.match(await ask(expired, {}), { decision: 401, code: 'GW_TOKEN_EXPIRED' })
  t.match(await ask(forged, secret), { decision: 401, code: 'GW_UNAUTHENTICATED', reason: 'bad-signature' })
  t.match(await ask(forged, { ...secret, JWT_PREVIOUS_SECRETS: OTHER }), { decision: 'allow' })
  t.match(await ask(forged, secret, '/open/x'), { decision: 'allow', reason: 'public' })
  // What an unverified token says cannot command the terminal.
  const commanding = await signToken(OTHER, { username: '\u001b[2J' })
  const { stdout } = await portaria(['explain', 'GET', '/api/x', '--token', commanding, '--config', folder])
  t.match(stdout, /as \\u\{1b\}\[2J \(Agente\)/)
})

t.test('explain takes a token with its kind, and with where it may be used', async t => {
  const OFFICE = `${YAML.replace('tests:', "  - { path: /office, upstream: up, from: ['10.0.0.0/8'] }\ntests:")}`
  const config = await routeFolder(t, { 'routes.yaml': OFFICE })
  const ask = async (path: string, token: string, env: Record<string, string> = { JWT_SECRET: TEST_SECRET }) =>
    (await portaria(['explain', 'GET', path, '--token', token, '--json', '--config', config], { env })).json()
  const client = { username: 'reports', provider: 'client' as const, profiles: ['Admin'], perfis: ['Admin'] }
  const [service, bound, ofHost, person] = await Promise.all([
    signToken(TEST_SECRET, client),
    signToken(TEST_SECRET, client, { addresses: ['10.1.0.0/16'] }),
    signToken(TEST_SECRET, {}, { host: 'grafana.corp.example' }),
    signToken(TEST_SECRET)
  ])
  t.match(await ask('/auth/admin/routes', service), { decision: 403, code: 'GW_FORBIDDEN', reason: 'token-kind' })
  for (const env of [{ JWT_SECRET: TEST_SECRET }, {}]) {
    t.match(await ask('/any', bound, env), { decision: 'allow', note: /accepted from 10\.1\.0\.0\/16 only/ })
    t.match(await ask('/any', `${bound} from 10.1.2.3`, env), { decision: 'allow' })
    t.match(await ask('/any', `${bound} from 10.2.0.1`, env), { decision: 401, reason: 'foreign-address' })
    t.match(await ask('/any', ofHost, env), { decision: 401, code: 'GW_UNAUTHENTICATED', reason: 'foreign-host' })
  }
  t.match(await ask('/office', person), { decision: 403, reason: 'address' })
  t.match(await ask('/office', `${person} from 10.0.0.1`), { decision: 'allow' })
  const at = ['explain', 'GET', '/office', '--config', config, '--json', '--token']
  t.match((await portaria([...at, '- from 10.0.0.1'], { input: `Bearer ${person}\n` })).json(), { decision: 'allow' })
  t.match(await portaria(['explain', 'GET', '/office', '--token', `${person} from here`]), {
    code: 2,
    stderr: /"here" is no IP address/
  })
})

/** Who may pass each row of the matrix. */
const passing = async (folder: string): Promise<Record<string, string[]>> => {
  const { json } = await portaria(['matrix', '--json', '--config', folder])
  const rows = json<{ id: string; allowed: Record<string, boolean> }[]>()
  return Object.fromEntries(rows.map(({ id, allowed }) => [id, Object.keys(allowed).filter(who => allowed[who])]))
}

t.test('matrix shows who passes where, namespaces too', async t => {
  t.same(await passing(folder), {
    '/open/*': ['anonymous', 'cloud-unassigned', 'unassigned', 'Agente', 'Supervisor', 'Admin'],
    '/api/*': ['Agente', 'Supervisor'],
    'DELETE /api/orders/:id': ['Admin'],
    '/any': ['unassigned', 'Agente', 'Supervisor', 'Admin'],
    '/socket.io/* namespace /m': ['Agente']
  })
  await checkSaid(t, folder, [['matrix --own --config FOLDER', 0, /\/auth\/admin\/\* +– +– +– +– +– +yes/]])
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
  t.match(await inTerminal(200, {}, 'matrix', '--config', folder), /\u001b\[32myes/)
  const narrow = await inTerminal(70, { NO_COLOR: '1' }, 'matrix', '--config', folder)
  t.notMatch(narrow, /\u001b/)
  t.ok(
    narrow.split('\n').every(line => [...line].length <= 70),
    narrow
  )
  t.notMatch(await inTerminal(200, { TERM: 'dumb' }, 'matrix', '--config', folder), /\u001b/)
  const long = table(['a'], new Array(150_000).fill(['x']), createTerminal({}, {}))
  t.equal(long.split('\n').length, 150_001, 'of any length')
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
  t.match(packed, { code: 1, stdout: /3 +allow → 403 +Agente +\/api\/\* +GET \/api\/orders/ })
  const piped = await portaria(['replay', '-', '--config', next, '--json'], { input: world.logText() })
  t.same(piped.json<{ changes: unknown }>().changes, result.json<{ changes: unknown }>().changes)
})

// RV-23
t.test('events of Socket.IO are tested, explained and shown in the matrix', async t => {
  const YAML = `upstreams: { up: { url: "http://127.0.0.1:1" } }
routes:
  - path: /socket.io/*
    upstream: up
    socketio:
      namespaces:
        /messaging:
          roles: [Agente, Supervisor]
          events: { send: { roles: [Agente] }, "/typing:.*/": {}, chat message: {} }
        /open: {}
        '/\\/room.*/': { events: { '/.*/': {} } }
tests:
  - EVENT /messaging send as Agente -> allow
  - EVENT /messaging send as Supervisor -> 403
  - EVENT /messaging typing:on as Supervisor -> allow
  - EVENT /messaging delete as Agente+Supervisor -> 403
  - EVENT /messaging send as Admin -> 403
  - EVENT /messaging send as anonymous -> 401
  - EVENT /nowhere send as Agente -> 404
  - EVENT /open anything as unassigned -> allow
  - EVENT /open disconnect as Agente -> 400
  - EVENT /room7 send as Agente -> allow
  - EVENT /room?x send as Agente -> 400
  - EVENT /messaging chat message as Supervisor -> allow
  - EVENT /messaging x as group:"CN=known as x,DC=corp" -> 403
`
  const folder = await routeFolder(t, { 'routes.yaml': YAML })
  const changed = (from: string, to: string) => routeFolder(t, { 'routes.yaml': YAML.replace(from, to) })
  const wrong = await changed('Supervisor -> 403', 'Supervisor -> allow')
  const spaced = await changed('chat message as Supervisor', 'chat message as Admin')
  const quoted = await changed('chat message as Supervisor', "it's as client Agente")
  const short = await changed('EVENT /open anything as', 'EVENT /open as')
  const reserved = await changed('send: { roles', 'connect: { roles')
  const at = '--config FOLDER'
  await checkSaid(t, folder, [
    ['check FOLDER', 0],
    [`check ${wrong}`, 1, /routes\.yaml:14:5: the test .* fails: expected allow, got 403 \(role-missing\)/],
    [`check ${spaced}`, 1, /"portaria explain EVENT \/messaging 'chat message' --as Admin" says why/],
    [`check ${quoted}`, 1, /"portaria explain EVENT \/messaging 'it'\\''s' --as 'client Agente'" says why/],
    [`check ${short}`, 1, /EVENT NAMESPACE NAME/],
    [`check ${reserved}`, 1, /no client may send the event "connect/],
    [`explain EVENT /messaging send --as Supervisor ${at}`, 0, /403 GW_FORBIDDEN \(role-missing\)\n.*requires Agente/],
    [`explain EVENT /messaging ban --as Agente ${at}`, 0, /none of its `events` names this one/],
    [`explain EVENT /open disconnect --as Agente ${at}`, 0, /400.*\n.*to servers the name .* has a meaning/],
    [`explain EVENT /open x --as Agente ${at} --json`, 0, /"decision": "allow"/, /"route": "\/socket\.io\/\*"/]
  ])
  const expired = await signToken(TEST_SECRET, {}, { exp: 1 })
  const asked = `explain EVENT /messaging send --token ${expired} ${at}`
  await checkSaid(t, folder, [[asked, 0, /401 GW_TOKEN_EXPIRED \(expired\)/]], { env: { JWT_SECRET: TEST_SECRET } })
  t.same((await passing(folder))['/socket.io/* namespace /messaging event send'], ['Agente'])
})
