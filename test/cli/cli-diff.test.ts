// A change of the route files is compared by what it allows; mistakes that operators make are seen before they count.
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
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
  readonly who: readonly string[]
  readonly example: { readonly path: string }
}
interface Comparison {
  readonly opened: readonly Difference[]
  readonly closed: readonly Difference[]
}

const folderOf = (t: Test, text: string) => routeFolder(t, { 'routes.yaml': text })

const compare = async (t: Test, next: readonly string[], before: readonly string[] = SOUND) => {
  const [old, now] = [await folderOf(t, yaml(before)), await folderOf(t, yaml(next))]
  const result = await portaria(['diff', old, now, '--json'])
  return { ...result.json<Comparison>(), code: result.code }
}

/** How many of the `tests:` of the sound files fail on other routes. */
const failing = async (t: Test, routes: readonly string[]): Promise<number> => {
  const result = await portaria(['check', await folderOf(t, yaml(routes, TESTS)), '--json'])
  const { complaints } = result.json<{ complaints: { message: string }[] }>()
  t.equal(result.code, complaints.length === 0 ? 0 : 1)
  return complaints.filter(({ message }) => /^the test .* fails: /.test(message)).length
}

const MISTAKES: readonly (readonly [what: string, next: readonly string[], said: RegExp, fails: number])[] = [
  [
    'the rule of a part is deleted, and a wider one takes over',
    without('/api/admin/*'),
    /^\/api\/admin\/\* is now open to Agente, Supervisor \(until now: Admin\)$/,
    2
  ],
  [
    'public on a parent lets everybody into what had no rule of its own',
    changed(
      'path: /api/*, upstream: up, roles: [Agente, Supervisor, Admin]',
      'path: /api/*, upstream: up, public: true'
    ),
    /^\/api\/\* is now open to everyone, even without a token/,
    0
  ],
  [
    'methods are dropped, and a rule meant for one closes all',
    changed('methods: [DELETE], ', ''),
    /any other method \/api\/orders\/:id is now closed to/,
    1
  ]
]

t.test('mistakes that operators make are found by diff, and by the tests of the files', async t => {
  t.equal(await failing(t, SOUND), 0)
  for (const [what, next, said, fails] of MISTAKES) {
    const { opened, closed, code } = await compare(t, next)
    t.match([...opened, ...closed][0]?.text, said, what)
    t.equal(code, opened.length > 0 ? 1 : 0, what)
    t.equal(await failing(t, next), fails, what)
  }
  const misspelt = await folderOf(t, yaml(changed('roles: [Supervisor, Admin]', 'roles: [Supervisr, Admin]')))
  t.match(await portaria(['check', misspelt]), { code: 1, stdout: /routes\.yaml:\d+:\d+: .*Supervis/ })
  t.match(await portaria(['diff', misspelt, misspelt]), { code: 2, stderr: /routes\.yaml:\d+:\d+/ })
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
  const [requests, namespace] = [
    [{ path: '/app/*', who: ['anonymous'] }],
    [{ path: '/app/* namespace /m', who: ['Admin'] }]
  ]
  t.match(await compare(t, [open], [socketio]), { opened: requests, closed: namespace, code: 1 })
  t.match(await compare(t, [socketio], [open]), { opened: namespace, closed: requests, code: 1 })
})

const ca = createCertificateAuthority(t.testdir({}))
const client = ca.issue('client')

/** Keys of the one route or upstream before and after, and what is said of them. */
type Noted = readonly [was: string, now: string, ...lines: string[]]

const ROUTE_NOTES: readonly Noted[] = [
  ['upstream: up, maxBody: 1KB', 'upstream: other', 'CHANGED upstream up → other', 'LOOSER maxBody 1024 → none'],
  ['', 'maxBody: 1KB, stripPrefix: /pay', 'CHANGED stripPrefix none → /pay', 'CHANGED maxBody none → 1024'],
  ['', 'streaming: true', 'LOOSER streaming false → true'],
  ['streaming: true', '', 'CHANGED streaming true → false'],
  [
    'rateLimit: { max: 5, window: 1m }',
    'rateLimit: { max: 5, window: 10s }',
    'LOOSER rateLimit max 5, windowMs 60000, by ip → max 5, windowMs 10000, by ip'
  ],
  ['rateLimit: { max: 5, window: 1m }', '', 'LOOSER rateLimit max 5, windowMs 60000, by ip → none'],
  ['', 'rateLimit: { max: 5, window: 1m }', 'CHANGED rateLimit none → max 5, windowMs 60000, by ip'],
  [
    'rateLimit: { max: 5, window: 1m }',
    'rateLimit: { max: 5, window: 1m, by: user }',
    'LOOSER rateLimit max 5, windowMs 60000, by ip → max 5, windowMs 60000, by user'
  ],
  ['websocket: {}', "websocket: { idleTimeout: '0' }", 'LOOSER websocket.idleTimeout 3600000 → none'],
  [
    'websocket: { maxLifetime: 1h, idleTimeout: 5m }',
    'websocket: { idleTimeout: 10m }',
    'LOOSER websocket.idleTimeout 300000 → 600000',
    'LOOSER websocket.maxLifetime 3600000 → none'
  ],
  [
    'websocket: { origins: [https://a.example] }',
    'websocket: { origins: [https://a.example, https://x.example], tokenInQuery: true }',
    'LOOSER websocket.origins https://a.example → https://a.example, https://x.example',
    'LOOSER websocket.tokenInQuery false → true'
  ],
  ['', 'allowInPath: [semicolon]', 'LOOSER allowInPath none → semicolon'],
  [
    'allowInPath: [semicolon, doubleSlash]',
    'allowInPath: [semicolon]',
    'CHANGED allowInPath semicolon, doubleSlash → semicolon'
  ]
]

const UPSTREAM_NOTES: readonly Noted[] = [
  ['url: http://h:1', 'url: http://h:2', 'CHANGED targets http://h:1 → http://h:2'],
  [
    'targets: ["http://h:1", "http://h:2"]',
    'targets: ["http://h:1", { url: "http://h:2", backup: true }]',
    'CHANGED targets http://h:1, http://h:2 → http://h:1, http://h:2 (backup)'
  ],
  ['url: http://h, requestBuffer: 1KB', 'url: http://h', 'CHANGED requestBuffer 1024 → 65536'],
  [
    'url: http://h',
    'url: http://h, maxConnections: 4, queue: { max: 9, timeout: 100ms }',
    'CHANGED maxConnections none → 4',
    'CHANGED queue none → max 9, timeoutMs 100'
  ],
  ['url: http://h, maxConnections: 4', 'url: http://h, maxConnections: 5', 'LOOSER maxConnections 4 → 5'],
  ['url: http://h, maxConnections: 4', 'url: http://h, maxConnections: 3', 'CHANGED maxConnections 4 → 3'],
  [
    'url: http://h, maxConnections: 4',
    'url: http://h',
    'LOOSER maxConnections 4 → none',
    'CHANGED queue max 1024, timeoutMs 10000 → none'
  ],
  ['url: http://h', 'url: http://h, outlier: { errors: 0 }', 'CHANGED outlier errors 5, restMs 10000 → restMs 10000'],
  [
    'url: http://h',
    'url: http://h, healthCheck: { path: /up, interval: 1s, timeout: 2s, status: 200-204, host: h.example, rise: 3, fall: 4 }',
    'CHANGED healthCheck none → path /up, intervalMs 1000, timeoutMs 2000, status from 200, to 204, host h.example, rise 3, fall 4'
  ],
  [
    'url: http://h, requestHeaders: { set: { X-Api-Key: k1 }, remove: [X-Debug] }',
    'url: http://h, requestHeaders: { set: { X-Api-Key: k2 } }, identityHeaders: { X-WEBAUTH-USER: login }',
    'LOOSER identityHeaders none → X-WEBAUTH-USER: login',
    'LOOSER requestHeaders.set X-Api-Key (HASH) → X-Api-Key (HASH)',
    'LOOSER requestHeaders.remove X-Debug → none'
  ],
  [
    'url: http://h, requestHeaders: { set: { x-a: b } }, responseHeaders: { set: { x-a: b }, remove: [x-c] }',
    'url: http://h',
    'CHANGED requestHeaders.set x-a (HASH) → none',
    'CHANGED responseHeaders.set x-a (HASH) → none',
    'LOOSER responseHeaders.remove x-c → none'
  ],
  [
    'url: http://h',
    'url: http://h, requestHeaders: { set: { x-a: b } }, responseHeaders: { set: { x-a: b } }',
    'LOOSER requestHeaders.set none → x-a (HASH)',
    'CHANGED responseHeaders.set none → x-a (HASH)'
  ],
  [
    'url: https://h',
    `url: https://h, caFile: ${ca.caFile}, clientCertFile: ${client.certFile}, clientKeyFile: ${client.keyFile}`,
    'CHANGED caFile none → HASH',
    'CHANGED clientCertFile none → HASH'
  ]
]

// RV-27
t.test('what requests may carry, where they go and what a backend learns is noted', async t => {
  const check = async (subject: string, fileOf: (keys: string) => string, notes: readonly Noted[]) => {
    for (const [was, now, ...lines] of notes) {
      const [old, next] = [await folderOf(t, fileOf(was)), await folderOf(t, fileOf(now))]
      const { code, stdout } = await portaria(['diff', old, next])
      const said = stdout.trimEnd().split('\n')
      const expected = lines.map(line => line.replace(/^(\w+) /, (_, word: string) => `${word.padEnd(7)} ${subject}: `))
      t.same(said.map(line => line.replace(/\b[0-9a-f]{8}\b/g, 'HASH')).sort(), expected.sort(), `${was} → ${now}`)
      t.equal(code, expected.some(line => line.startsWith('LOOSER')) ? 1 : 0)
    }
  }
  const withUpstream = (keys: string) => (keys.startsWith('upstream:') ? keys : `upstream: up${keys && `, ${keys}`}`)
  await check('/pay', keys => yaml([`{ path: /pay, ${withUpstream(keys)} }`]), ROUTE_NOTES)
  await check('upstream up', keys => `upstreams: { up: { ${keys} } }\nroutes: []\n`, UPSTREAM_NOTES)
})

t.test('a grant that opens more is looser', async t => {
  const granting = (group: string, profiles: string) =>
    folderOf(t, `${yaml(SOUND)}grants:\n  - { group: "${group}", profiles: [${profiles}], areas: [Suporte] }\n`)
  const [before, after] = [
    await granting('CN=Suporte,DC=corp', 'Agente'),
    await granting('cn=suporte,dc=corp', 'Agente, Admin')
  ]
  t.match(await portaria(['diff', before, after]), {
    code: 1,
    stdout: /^LOOSER {2}members of cn=suporte,dc=corp are now granted the profiles Admin$/m
  })
  const { notes } = (await portaria(['diff', before, after, '--json'])).json<{ notes: unknown }>()
  t.same(notes, [{ text: 'members of cn=suporte,dc=corp are now granted the profiles Admin', looser: true }])
  t.match(await portaria(['diff', after, before]), {
    code: 0,
    stdout: /^CHANGED members of CN=Suporte,DC=corp are no longer granted the profiles Admin$/m
  })
})

t.test(
  'people read the loudest first, with an example and both places; the same in other words is no difference',
  async t => {
    const old = await folderOf(t, yaml(SOUND))
    const now = await folderOf(t, yaml([...without('/api/admin/*'), '{ path: /new, upstream: up, public: true }']))
    const { stdout, code } = await portaria(['diff', old, now])
    t.equal(code, 1)
    t.match(
      stdout,
      /OPEN {4}\/api\/admin\/\* is now open to Agente, Supervisor.*\n.*was "\/api\/admin\/\*" \(.*routes\.yaml:\d+\), is "\/api\/\*" \(/
    )
    t.ok(stdout.indexOf('/new is now') < stdout.indexOf('/api/admin/* is now'), 'what is open to everyone comes first')
    t.match(stdout, /\/new is now open to everyone, even without a token \(until now: no one\)/)
    t.notOk(stdout.includes('\u001b'), 'no colour where nobody looks')
    const reversed = await folderOf(t, yaml([...SOUND].reverse()))
    t.match(await portaria(['diff', old, reversed]), { code: 0, stdout: /Nothing changed/ })
  }
)

t.test('what may be sent in a namespace is compared event by event', async t => {
  const rule = (events: string) => changed('/m: { roles: [Admin] }', `/m: { roles: [Agente, Admin]${events} }`)
  const was = rule(', events: { send: {}, "/typing:.*/": {} }')
  const { opened, closed } = await compare(
    t,
    rule(', events: { send: { roles: [Admin] }, ban: { roles: [Admin] } }'),
    was
  )
  const named = (differences: readonly Difference[]) => differences.map(({ path, who }) => `${path}: ${who.join()}`)
  t.match(named(opened), [/namespace \/m event ban: Admin/])
  t.match(named(closed), [/namespace \/m event \/typing:\.\*\/: Agente,Admin/, /namespace \/m event send: Agente/])
  const fenced = await compare(t, rule(', events: { send: {} }'), rule(''))
  t.match(named(fenced.closed), [/event \(any other\)/])
})
