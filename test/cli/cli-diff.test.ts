// A change of the route files is compared by what it allows; mistakes that operators make are seen before they count.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { routeFolder } from '../support/route-files.ts'

const HEAD = 'upstreams:\n  up: { url: http://127.0.0.1:4001 }\n  other: { url: http://127.0.0.1:4002 }\nroutes:\n'
const TESTS = `tests:
  - GET /api/orders/7 as Agente -> allow
  - DELETE /api/orders/7 as Agente -> 403
  - DELETE /api/orders/7 as Admin -> allow
  - GET /api/admin/users as Agente -> 403
  - GET /api/admin/users as Supervisor -> 403
  - GET /api/admin/users as Admin -> allow
  - GET /api/reports/1 as anonymous -> 401
  - GET /api/reports/1 as Supervisor -> allow
  - GET /api/reports/1 as Agente -> 403
  - GET /assets/logo.svg as anonymous -> allow
  - GET /api/profile as unassigned -> 403
`
const SOUND = [
  '{ path: /assets/*, upstream: up, public: true }',
  '{ path: /api/*, upstream: up, roles: [Agente, Supervisor, Admin] }',
  '{ path: /api/admin/*, upstream: up, roles: [Admin] }',
  '{ path: /api/orders/:id, methods: [DELETE], upstream: up, roles: [Admin] }',
  '{ path: /api/reports/*, upstream: up, roles: [Supervisor, Admin] }',
  '{ path: /api/profile, upstream: up, requireAssigned: true }',
  '{ path: /live, upstream: up, websocket: { origins: [https://app.example] } }',
  '{ path: /socket.io/*, upstream: up, socketio: { namespaces: { /m: { roles: [Admin] } } } }'
]

const yaml = (routes: readonly string[], tests = ''): string =>
  `${HEAD}${routes.map(route => `  - ${route}\n`).join('')}${tests}`

/** The sound routes with one of them written differently, left out (`''`), or others added. */
const changed = (from: string, to: string): string[] => {
  const routes = SOUND.map(route => (route.includes(from) ? route.replace(from, to) : route))
  if (routes.every((route, index) => route === SOUND[index])) throw new Error(`no route holds ${from}`)
  return routes
}
const without = (path: string): string[] => SOUND.filter(route => !route.includes(`path: ${path},`))

interface Difference {
  readonly text: string
  readonly path: string
  readonly methods: readonly string[]
  readonly who: readonly string[]
}
interface Comparison {
  readonly opened: readonly Difference[]
  readonly closed: readonly Difference[]
  readonly notes: readonly { readonly text: string; readonly looser: boolean }[]
}

const compare = async (t: Test, next: readonly string[], before: readonly string[] = SOUND) => {
  const old = await routeFolder(t, { 'routes.yaml': yaml(before) })
  const now = await routeFolder(t, { 'routes.yaml': yaml(next) })
  const result = await portaria(['diff', old, now, '--json'])
  return { ...result.json<Comparison>(), code: result.code, old, now }
}

/** How many of the `tests:` of the sound files fail on other routes. */
const failing = async (t: Test, routes: readonly string[]): Promise<number> => {
  const folder = await routeFolder(t, { 'routes.yaml': yaml(routes, TESTS) })
  const result = await portaria(['check', folder, '--json'])
  const { complaints } = result.json<{ complaints: { message: string }[] }>()
  t.equal(result.code, complaints.length === 0 ? 0 : 1)
  return complaints.filter(({ message }) => /^the test .* fails: /.test(message)).length
}

t.test('the sound files hold their own tests', async t => {
  t.equal(await failing(t, SOUND), 0)
})

t.test('mistake: the rule of a part is deleted, and a wider one takes over', async t => {
  const next = without('/api/admin/*')
  const { opened, closed, code } = await compare(t, next)
  t.equal(opened[0]?.text, '/api/admin/* is now open to Agente, Supervisor (until now: Admin)')
  t.same(closed, [])
  t.equal(code, 1)
  t.equal(await failing(t, next), 2)
})

t.test('mistake: public on a parent lets everybody into what had no rule of its own', async t => {
  const next = changed(
    'path: /api/*, upstream: up, roles: [Agente, Supervisor, Admin]',
    'path: /api/*, upstream: up, public: true'
  )
  const { opened, code } = await compare(t, next)
  t.match(opened[0]?.text, /^\/api\/\* is now open to everyone, even without a token/)
  t.equal(code, 1)
})

t.test('mistake: methods are dropped, and a rule meant for one closes all', async t => {
  const next = changed('methods: [DELETE], ', '')
  const { opened, closed, code } = await compare(t, next)
  t.same(opened, [])
  t.match(closed[0]?.text, /any other method \/api\/orders\/:id is now closed to/)
  t.equal(code, 0)
  t.equal(await failing(t, next), 1)
})

t.test('mistake: a role is misspelt', async t => {
  const folder = await routeFolder(t, {
    'routes.yaml': yaml(changed('roles: [Supervisor, Admin]', 'roles: [Supervisr, Admin]'))
  })
  const check = await portaria(['check', folder])
  t.equal(check.code, 1)
  t.match(check.stdout, /routes\.yaml:\d+:\d+: .*Supervis/)
  const diff = await portaria(['diff', folder, folder])
  t.equal(diff.code, 2)
  t.match(diff.stderr, /routes\.yaml:\d+:\d+/)
})

t.test('mistake: a static exception shadows the rule on a parameter', async t => {
  const before = [...SOUND, '{ path: /t/:tenant/keys, upstream: up, roles: [Admin] }']
  const next = [...before, '{ path: /t/demo/*, upstream: up, public: true }']
  const { opened } = await compare(t, next, before)
  const keys = opened.find(({ text }) => text.includes('until now: Admin'))
  t.match(keys, { path: '/t/demo/*', example: { path: '/t/demo/keys' } })
  t.equal(opened[0], keys, 'what stood behind a rule is louder than what is new')
})

t.test('mistake: a Socket.IO route becomes one that forwards every request', async t => {
  const socketio = '{ path: /app/*, upstream: up, socketio: { namespaces: { /m: { roles: [Admin] } } } }'
  const open = '{ path: /app/*, upstream: up, public: true }'
  const { opened, closed, code } = await compare(t, [open], [socketio])
  t.match(opened, [{ path: '/app/*', who: ['anonymous'] }])
  t.match(closed, [{ path: '/app/* namespace /m', who: ['Admin'] }])
  t.equal(code, 1)
  const back = await compare(t, [socketio], [open])
  t.match(back.closed, [{ path: '/app/*', who: ['anonymous'] }])
  t.match(back.opened, [{ path: '/app/* namespace /m', who: ['Admin'] }])
})

t.test('what requests may carry and where they go is noted', async t => {
  const wider = await compare(
    t,
    changed('origins: [https://app.example]', 'origins: [https://app.example, https://x.example], tokenInQuery: true')
  )
  t.equal(wider.code, 1)
  t.same(
    wider.notes.map(({ text, looser }) => [text, looser]),
    [
      ['/live: websocket.origins https://app.example → https://app.example, https://x.example', true],
      ['/live: websocket.tokenInQuery false → true', true]
    ]
  )
  const forever = await compare(
    t,
    changed('origins: [https://app.example]', 'origins: [https://app.example], idleTimeout: "0"')
  )
  t.equal(forever.code, 1)
  t.same(forever.notes, [{ text: '/live: websocket.idleTimeout 3600000 → none', looser: true }])
  const moved = await compare(
    t,
    changed('path: /api/profile, upstream: up', 'path: /api/profile, maxBody: 1KB, stripPrefix: /api, upstream: other')
  )
  t.equal(moved.code, 0)
  t.same(
    moved.notes.map(({ text }) => text),
    ['/api/profile: upstream up → other', '/api/profile: stripPrefix none → /api', '/api/profile: maxBody none → 1024']
  )
  const retargeted = await routeFolder(t, { 'routes.yaml': yaml(SOUND).replace(':4001', ':4009') })
  const { stdout, code } = await portaria(['diff', moved.old, retargeted])
  t.match(stdout, /CHANGED upstream up: targets http:\/\/127\.0\.0\.1:4001 → http:\/\/127\.0\.0\.1:4009/)
  t.equal(code, 0)
})

t.test('files that say the same in other words differ in nothing', async t => {
  const { old, opened, closed, notes, code } = await compare(t, [...SOUND].reverse())
  t.same([opened, closed, notes, code], [[], [], [], 0])
  writeFileSync(join(old, 'more.yaml'), 'routes: []\n')
  const { stdout } = await portaria(['diff', old, old])
  t.match(stdout, /Nothing changed/)
})

t.test('people read the loudest first, with an example and both places', async t => {
  const { old } = await compare(t, SOUND)
  const now = await routeFolder(t, {
    'routes.yaml': yaml([...without('/api/admin/*'), '{ path: /new, upstream: up, public: true }'])
  })
  const { stdout, code } = await portaria(['diff', old, now])
  t.equal(code, 1)
  t.match(
    stdout,
    /OPEN {4}\/api\/admin\/\* is now open to Agente, Supervisor.*\n.*was "\/api\/admin\/\*" \(.*routes\.yaml:\d+\), is "\/api\/\*" \(/
  )
  t.ok(stdout.indexOf('/new is now') < stdout.indexOf('/api/admin/* is now'), 'what is open to everyone comes first')
  t.match(stdout, /\/new is now open to everyone, even without a token \(until now: no one\)/)
  t.notOk(stdout.includes('\u001b'), 'no colour where nobody looks')
})

t.test('what a backend learns under another name is looser, and no value of a header is shown', async t => {
  const upstream = (keys: string) =>
    `upstreams:\n  up: { url: http://127.0.0.1:4001${keys} }\nroutes: [{ path: /x, upstream: up }]\n`
  const before = await routeFolder(t, {
    'a.yaml': upstream(', requestHeaders: { set: { X-Api-Key: k1 }, remove: [X-Debug] }')
  })
  const after = await routeFolder(t, {
    'a.yaml': upstream(', requestHeaders: { set: { X-Api-Key: k2 } }, identityHeaders: { X-WEBAUTH-USER: login }')
  })
  const { code, stdout } = await portaria(['diff', before, after])
  t.equal(code, 1)
  t.match(stdout, /LOOSER {2}upstream up: identityHeaders none → X-WEBAUTH-USER: login/)
  t.match(stdout, /LOOSER {2}upstream up: requestHeaders\.remove X-Debug → none/)
  t.match(stdout, /LOOSER {2}upstream up: requestHeaders\.set X-Api-Key \([0-9a-f]{8}\) → X-Api-Key \([0-9a-f]{8}\)/)
  t.notMatch(stdout, /k1|k2/)
})

t.test('what may be sent in a namespace is compared event by event', async t => {
  const events = (rules: string) =>
    changed('/m: { roles: [Admin] }', `/m: { roles: [Agente, Admin], events: ${rules} }`)
  const { opened, closed } = await compare(
    t,
    events('{ send: {}, "/typing:.*/": {} }'),
    events('{ send: { roles: [Admin] }, ban: { roles: [Admin] } }')
  )
  t.match(
    opened.map(({ path, who }) => `${path}: ${who.join()}`),
    [/namespace \/m event \/typing:\.\*\/: Agente,Admin/, /namespace \/m event send: Agente/]
  )
  t.match(
    closed.map(({ path, who }) => `${path}: ${who.join()}`),
    [/namespace \/m event ban: Admin/]
  )
  const fenced = await compare(
    t,
    events('{ send: {} }'),
    changed('/m: { roles: [Admin] }', '/m: { roles: [Agente, Admin] }')
  )
  t.match(
    fenced.closed.map(({ path }) => path),
    [/event \(any other\)/]
  )
})
