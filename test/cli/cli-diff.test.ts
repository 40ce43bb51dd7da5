// A change of the route files is said in words: what it opens and closes, and what requests may carry. What differs is compared
// with brute force in test/fuzz/decisions.test.ts.
import t, { type Test } from 'tap'
import { createCertificateAuthority } from '../support/certificates.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { only } from '../support/only.ts'
import { routeFolder } from '../support/route-files.ts'

const HEAD = `upstreams:
  up: { url: http://127.0.0.1:4001 }
  other: { url: http://127.0.0.1:4002 }
  told: { url: http://h, sharedCache: true }
routes:
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

const yaml = (routes: readonly string[]): string => `${HEAD}${routes.map(route => `  - ${route}\n`).join('')}`

const without = (path: string): string[] => SOUND.filter(route => !route.includes(`path: ${path},`))

const folderOf = (t: Test, text: string) => routeFolder(t, { 'routes.yaml': text })

const ca = createCertificateAuthority(t.testdir({}))
const client = ca.issue('client')

/** Keys of the one route or upstream before and after, and what is said of them. */
type Noted = readonly [was: string, now: string, ...lines: string[]]

const ROUTE_NOTES: readonly Noted[] = [
  ['upstream: up, maxBody: 1KB', 'upstream: other', 'CHANGED upstream up → other', 'LOOSER maxBody 1024 → none'],
  ['', 'upstream: told', 'CHANGED upstream up → told', 'LOOSER upstream told: sharedCache false → true'],
  ['upstream: told', '', 'CHANGED upstream told → up'],
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
    'LOOSER requestHeaders.set x-a (HASH) → none',
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
    'url: http://h, identityHeaders: { X-Who: login }',
    'url: http://h, assertion: true',
    'LOOSER assertion false → true',
    'LOOSER identityHeaders X-Who: login → none'
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

t.test('the loudest comes first, with an example and both places; mere rewording is no difference', async t => {
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
  t.match(await portaria(['diff', now, old]), { code: 0, stdout: /^CLOSED/m }, 'nothing is open that was not')
  const misspelt = await folderOf(t, yaml(SOUND).replace('[Supervisor, Admin]', '[Supervisr, Admin]'))
  t.match(await portaria(['diff', misspelt, misspelt]), { code: 2, stderr: /routes\.yaml:\d+:\d+/ })
})

t.test('a path that ends in dots, which some backends read as one further up, is compared too', async t => {
  const routes = ['{ path: /up/*, upstream: up, roles: [Admin] }']
  const old = await folderOf(t, yaml(routes))
  const now = await folderOf(t, yaml([...routes, '{ path: /*, upstream: up, methods: [TRACE] }']))
  const { closed } = (await portaria(['diff', old, now, '--json'])).json<{ closed: { path: string }[] }>()
  t.match(closed.map(({ path }) => path).join(' '), '/up/...')
})

// RFC 4918 §9.9
t.test('a MOVE that a DELETE route has kept from deleting its source is said to be open', async t => {
  const deleting = (upstream: string) => `{ path: /files/*, methods: [DELETE], upstream: ${upstream}, roles: [Admin] }`
  for (const methods of ['methods: [MOVE], ', '']) {
    const moving = `{ path: /files/*, ${methods}upstream: up, roles: [Admin] }`
    const old = await folderOf(t, yaml([moving, deleting('other')]))
    const now = await folderOf(t, yaml([moving, deleting('up')]))
    t.match(await portaria(['diff', old, now]), {
      code: 1,
      stdout: /^OPEN {4}MOVE \/files\/\* is now open to Admin \(until now: no one\)$/m
    })
    t.match(await portaria(['diff', now, old]), {
      code: 0,
      stdout: /^CLOSED {2}MOVE \/files\/\* is now closed to Admin/m
    })
  }
  const old = await folderOf(t, yaml([deleting('up')]))
  const now = await folderOf(t, yaml(['{ path: /files/*, upstream: up, roles: [Agente] }', deleting('up')]))
  t.match(await portaria(['diff', old, now]), {
    stdout: /^OPEN {4}any other method \/files\/\* is now open to Agente/m
  })
})

t.test('what may be sent in a namespace is compared event by event', async t => {
  type Named = readonly { readonly path: string; readonly who: readonly string[] }[]
  const folderWith = (events: string) =>
    folderOf(t, yaml(SOUND).replace('/m: { roles: [Admin] }', `/m: { roles: [Agente, Admin]${events} }`))
  const compare = async (was: string, now: string) => {
    const { json } = await portaria(['diff', await folderWith(was), await folderWith(now), '--json'])
    const { opened, closed } = json<{ opened: Named; closed: Named }>()
    return [opened, closed].map(all => all.map(({ path, who }) => `${path}: ${who.join()}`))
  }
  const narrower = ', events: { send: { roles: [Admin] }, ban: { roles: [Admin] } }'
  t.match(await compare(', events: { send: {}, "/typing:.*/": {} }', narrower), [
    [/namespace \/m event ban: Admin/],
    [/namespace \/m event \/typing:\.\*\/: Agente,Admin/, /namespace \/m event send: Agente/]
  ])
  t.match(await compare('', ', events: { send: {} }'), [[], [/event \(any other\)/]])
})

type Listed = readonly { readonly path: string; readonly who: readonly string[] }[]

/** What diff says of the namespaces of a route, `name: who`, and its exit code. */
const namespacesCompared = async (t: Test, was: string, now: string) => {
  const folderWith = (namespaces: string) =>
    folderOf(t, yaml([`{ path: /socket.io/*, upstream: up, socketio: { namespaces: { ${namespaces} } } }`]))
  const { code, json } = await portaria(['diff', await folderWith(was), await folderWith(now), '--json'])
  const { opened, closed } = json<{ opened: Listed; closed: Listed }>()
  const said = ({ path, who }: Listed[number]) => `${path.replace('/socket.io/* namespace ', '')}: ${who.join()}`
  return { code, opened: opened.map(said), closed: closed.map(said) }
}

t.test('a pattern that takes names over from one before it is said to open them', async t => {
  const [admin, room, chat, either] = [
    String.raw`'/\/room-admin.*/': { roles: [Admin] }`,
    String.raw`'/\/room-.*/': {}`,
    String.raw`'/\/chat-.*/': {}`,
    String.raw`'/\/(chat|room)-.*/': {}`
  ]
  const people = 'unassigned,Agente,Supervisor,Agente without area,Supervisor without area'
  const opened = [String.raw`/\/room-.*/ where /\/room-admin.*/ applied: ${people}`]
  const compare = (was: string, now: string) => namespacesCompared(t, was, now)
  t.match(await compare(`${admin}, ${room}`, room), { code: 1, opened: only(...opened) }, 'the first one is gone')
  const [both, swapped] = [`${admin}, ${room}`, `${room}, ${admin}`]
  t.same(await compare(both, swapped), { code: 1, opened, closed: [] })
  t.same(await compare(swapped, both), {
    code: 0,
    opened: [],
    closed: [String.raw`/\/room-admin.*/ where /\/room-.*/ applied: ${people}`]
  })
  t.same(await compare(both, both), { code: 0, opened: [], closed: [] })
  t.equal((await compare(admin, swapped)).opened.length, 2, 'a new one is before it')
  t.match(await compare(`${admin}, ${chat}`, chat), { code: 0, opened: [] }, 'no name matches both')
  t.match(await compare(`${admin}, ${either}`, either), { code: 1, opened: { length: 1 } }, 'a choice may match')
  const events = (...listed: string[]) => `/m: { roles: [Agente, Admin], events: { ${listed.join(', ')} } }`
  const [ban, any] = [`'/admin:.*/': { roles: [Admin] }`, `'/[a-z]+:.*/': {}`]
  t.match(await compare(events(ban, any), events(any)), {
    code: 1,
    opened: only('/m event /[a-z]+:.*/ where /admin:.*/ applied: Agente,Agente without area')
  })
})

t.test('people with two profiles are compared where a namespace asks for one and its event for another', async t => {
  const asking = (namespace: string, event: string) =>
    `/m: { roles: [${namespace}], events: { ban: { roles: [${event}] } } }`
  const compare = (was: [string, string], now: [string, string]) =>
    namespacesCompared(t, asking(...was), asking(...now))
  t.same(await compare(['Agente', 'Admin'], ['Agente', 'Supervisor']), {
    code: 1,
    opened: ['/m event ban: Agente+Supervisor'],
    closed: ['/m event ban: Agente+Admin']
  })
  t.same(await compare(['Agente', 'Admin'], ['Admin', 'Agente']), {
    code: 1,
    opened: ['/m: Admin,Admin without area'],
    closed: ['/m: Agente,Agente without area']
  })
  t.same(await compare(['Agente', 'Agente, Admin'], ['Agente', 'Agente']), { code: 0, opened: [], closed: [] })
})

t.test('a comparison that is not complete is not a success', async t => {
  const depth = 17
  const paths = Array.from({ length: depth }, (_, at) =>
    Array.from({ length: depth }, (_, index) => (index === at ? '/a' : `/:p${index}`)).join('')
  )
  const folder = await folderOf(t, yaml(paths.map(path => `{ path: '${path}', upstream: up, public: true }`)))
  const { code, stdout } = await portaria(['diff', folder, folder])
  t.equal(code, 1)
  t.match(stdout, /not every overlap/)
})
