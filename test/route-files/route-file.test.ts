// What a folder of route files may say, and the exact complaint, with its place, about everything else; files mean what they
// seem to: no slow patterns, one form of letters.
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import t from 'tap'
import { loadDefinitions, loadRoutes, RouteFileError } from '../../gateway/route-files/load.ts'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { decideEventOnRoutes } from '../../gateway/routes/socketio-rules.ts'
import { createCertificateAuthority } from '../support/certificates.ts'
import { only } from '../support/only.ts'
import { askerOf, complaintsOf, routeFolder, tableOf, UPSTREAMS } from '../support/route-files.ts'
import { fc } from '../support/worlds.ts'

const load = async (...args: Parameters<typeof routeFolder>) => loadRoutes(await routeFolder(...args), ownRoutes())
/** One route, its keys from line 4 on, at column 5. */
const routeYaml = (...lines: string[]) => `${UPSTREAMS}routes:\n  - ${lines.join('\n    ')}\n`
const OK = ['path: /x', 'upstream: up']

t.test('a route file becomes routes with every default filled in', async t => {
  const { table, warnings } = await load(t, {
    'b.yaml':
      'routes:\n  - { path: /x/*, upstream: up, methods: [GET, PUT], roles: [Admin], timeout: 2m, maxBody: 10MB }\n',
    'a.yml': 'upstreams:\n  up: { targets: ["http://h:1", "https://[::1]", "unix:/run/x.sock"] }\n',
    '.hidden.yaml': 'nonsense: true',
    'note.txt': 'nothing'
  })
  t.same(warnings, [])
  const route = table.routes.at(-1)
  t.match(route, {
    id: 'GET,PUT /x/*',
    public: false,
    roles: only('Admin'),
    timeoutMs: 120_000,
    maxBodyBytes: 10 * 1024 * 1024,
    forwardToken: false,
    browser: false,
    requireAssigned: false,
    allowInPath: only(),
    place: { line: 2, column: 5 },
    upstream: { name: 'up', timeoutMs: 30_000, connectTimeoutMs: 2000 }
  })
  t.same(route?.upstream?.targets, [
    { url: 'http://h:1', tls: false, host: 'h', port: 1, socketPath: undefined, authority: 'h:1' },
    { url: 'https://[::1]', tls: true, host: '::1', port: 443, socketPath: undefined, authority: '[::1]' },
    {
      url: 'unix:/run/x.sock',
      tls: false,
      host: 'localhost',
      port: 0,
      socketPath: '/run/x.sock',
      authority: 'localhost'
    }
  ])
  t.match(table.checksum, /^[0-9a-f]{64}$/)
})

t.test('pages in apps and extensions have origins with schemes of their own', async t => {
  const origins = ['https://app.example.org', 'capacitor://localhost', 'tauri://localhost', 'app://.']
  const { table } = await load(t, {
    'a.yaml': `${UPSTREAMS}routes:\n  - { path: /live, upstream: up, websocket: { origins: ${JSON.stringify(origins)} } }\n`
  })
  t.same(table.routes.at(-1)?.websocket?.origins, origins)
})

t.test('the same files have the same checksum in every folder, and others do not', async t => {
  const text = `${UPSTREAMS}routes: []\n`
  const checksumOf = async (files: Record<string, string>) => (await load(t, files)).table.checksum
  const checksum = await checksumOf({ 'a.yaml': text })
  t.equal(await checksumOf({ 'a.yaml': text }), checksum)
  t.not(await checksumOf({ 'b.yaml': text }), checksum)
  t.not(await checksumOf({ 'a.yaml': `${text}#` }), checksum)
})

t.test('sockets have defaults of their own, and a namespace between slashes is an anchored pattern', async t => {
  const { table } = await load(t, {
    'a.yaml': `${UPSTREAMS}routes:\n  - { path: /live, upstream: up, websocket: {} }\n  - { path: /io/*, upstream: up, socketio: { namespaces: { /chat: {}, '/\\/room-[0-9]+/': { roles: [Agente] } } } }\n`
  })
  t.same(table.routes.at(-2)?.websocket, {
    origins: [],
    tokenInQuery: false,
    maxMessageBytes: 1024 * 1024,
    messagesPerSecond: 0,
    idleTimeoutMs: 3_600_000,
    maxLifetimeMs: 0
  })
  t.same(table.routes.at(-1)?.socketio, {
    namespaces: [
      { name: '/chat', pattern: undefined, roles: undefined },
      { name: '/\\/room-[0-9]+/', pattern: /^(?:\/room-[0-9]+)$/u, roles: ['Agente'] }
    ],
    maxMessageBytes: 1024 * 1024,
    messagesPerSecond: 1000
  })
})

t.test('an alias that another alias repeats stands for the anchor before its own place', async t => {
  const { table } = await load(t, {
    'a.yaml': `${UPSTREAMS}routes:
  - { path: /a, upstream: up, roles: &who [Admin] }
  - { path: /one/*, upstream: up, socketio: { namespaces: { /chat: &chat { roles: *who } } } }
  - { path: /b, upstream: up, roles: &who [Agente] }
  - { path: /two/*, upstream: up, socketio: { namespaces: { /chat: *chat } } }
`
  })
  t.match(table.routes.at(-1)?.socketio, { namespaces: [{ name: '/chat', roles: only('Admin') }] })
})

const UPSTREAM_KEYS =
  'allowed here: url, targets, timeout, idleTimeout, connectTimeout, requestBuffer, caFile, clientCertFile, clientKeyFile, serverName, assertion, preserveHost, requestHeaders, responseHeaders, identityHeaders, sharedCache, identityHeadersShared, healthCheck, outlier, maxConnections, queue'

const ROUTE_KEYS =
  'allowed here: path, upstream, methods, roles, public, requireAssigned, forwardToken, external, basic, browser, ownAuthorization, streaming, stripPrefix, host, rateLimit, from, timeout, maxBody, allowInPath, accept, websocket, socketio, app'

const eventsYaml = (pattern: string) => `socketio: { namespaces: { /m: { events: { '/${pattern}/': {} } } } }`
const namespaceYaml = (name: string) => `socketio: { namespaces: { '${name}': { roles: [Agente] } } }`
const tooMany = (...patterns: string[]) =>
  Object.fromEntries(
    patterns.map(pattern => [
      eventsYaml(pattern),
      `6:${pattern.length + 53}: a pattern must not offer more than 64 combinations of its choices (| and ?)`
    ])
  )

// CF-01, CF-03, CF-04, CF-06, CF-07, CF-10, RT-27
const ROUTE_MISTAKES: Readonly<Record<string, string | readonly string[]>> = {
  'rolse: [Admin]': `6:5: unknown key "rolse" (did you mean "roles"?); ${ROUTE_KEYS}`,
  '__proto__: { public: true }': `6:5: unknown key "__proto__"; ${ROUTE_KEYS}`,
  'roles:': '6:5: "roles" must be a list of roles, such as [ Admin, Supervisor ]',
  'roles: []': '6:12: "roles" must not be empty; write at least one entry, as in [ Admin, Supervisor ]',
  'timeout: ${TIMEOUT}': '6:14: "${TIMEOUT}" is not expanded: route files have no variables; write the value itself',
  'roles: [amdin]': '6:13: unknown role "amdin" (did you mean "Admin"?)',
  'roles: [no]': '6:13: unknown role "no": must be one of Admin, Supervisor, Agente, or be listed under "profiles"',
  'timeout: 1s\ntimeout: 2s': '7:5: duplicate key "timeout"',
  'public: true\nroles: [Admin]': '7:12: a public route cannot have roles: remove one of the two keys',
  'public: true\nrequireAssigned: true': '7:22: a public route has no identity, so "requireAssigned" has no effect',
  'timeout: 30d': '6:14: "timeout" must be at most 24d',
  'methods: [GET, CONNECT]':
    '6:20: an entry of "methods" must be a method in upper case; tunnels (CONNECT) are not supported',
  'methods: [GET, GET]': '6:14: "methods" contains the same entry twice',
  'public: true\nrateLimit: { max: 1, window: 1m, by: user }':
    '7:42: a public route has no identity, so "by: user" has no effect',
  'path: /auth/x': '4:11: /auth/ belongs to the gateway',
  'path: /Auth/*': '4:11: /auth/ belongs to the gateway',
  'path: "/a/:"': '4:11: a parameter must be a whole segment such as :id',
  'path: /:a/:a': '4:11: "path" uses a parameter name twice',
  'path: /a.': '4:11: a segment must not begin or end with a space, or end with a dot',
  'path: /%40a': '4:11: "path" escapes a character that must not be escaped',
  // RW-12
  'path: "/a/{id}/b"': '4:11: "{id}" would be a literal: write :id',
  'public: true\nbasic: true': '7:12: a public route requires no token, so "basic" has no effect',
  'basic: true\nsocketio: { namespaces: { /a: {} } }': '6:12: "basic" and "socketio" cannot be used together',
  'basic: true\nwebsocket: {}': '6:12: "basic" and "websocket" cannot be used together',
  'streaming: true\nsocketio: { namespaces: { /a: {} } }':
    '6:16: the bodies of Socket.IO are read whole, so "streaming" has no effect',
  'external: true\ntimeout: 3s\nmaxBody: 1KB\nstreaming: true\nforwardToken: true\nwebsocket: {}': [
    '5:15: "upstream" has no effect on an external route, which is never forwarded',
    '7:14: "timeout" has no effect on an external route, which is never forwarded',
    '8:14: "maxBody" has no effect on an external route, which is never forwarded',
    '9:16: "streaming" has no effect on an external route, which is never forwarded',
    '10:19: "forwardToken" has no effect on an external route, which is never forwarded',
    '11:16: "websocket" has no effect on an external route, which is never forwarded'
  ],
  // RV-114
  'socketio: { namespaces: { /a: {} } }\nroles: [Admin]\npublic: false\nbrowser: true': [
    '7:12: "roles" cannot be used on a socketio route: its namespaces say who may connect',
    '8:13: "public" cannot be used on a socketio route: its namespaces say who may connect',
    '9:14: "browser" cannot be used on a socketio route: its namespaces say who may connect; an application with Socket.IO inside takes "websocket: {}" instead of "socketio"'
  ],
  'ownAuthorization: true\nbasic: true\nforwardToken: true\nwebsocket: { tokenInQuery: true }': [
    '6:23: "ownAuthorization" leaves Authorization to the application, so "basic" cannot be used with it',
    '6:23: "ownAuthorization" leaves Authorization to the application, so "forwardToken" cannot be used with it',
    '6:23: "ownAuthorization" leaves Authorization to the application, so "tokenInQuery" cannot be used with it',
    '6:23: "ownAuthorization" needs "browser: true": only the session cookie tells who asks',
    '7:12: "basic" and "websocket" cannot be used together'
  ],
  'app: { name: A, icon: //a, url: "javascript:x" }': [
    '6:27: "icon" must be a path that begins with /, not "//a"',
    '6:37: "url" must be a path that begins with /, or an address such as https://app.example.org/, not "javascript:x"'
  ],
  'path: /a/:id\nmethods: [POST]\napp: { name: A }': [
    '7:10: "app" needs "url" here, because the path has :name in it',
    '7:10: "app" requires the method GET'
  ],
  'websocket: {}\nmethods: [POST]': '7:14: "websocket" requires the method GET',
  'socketio: { namespaces: { /a: {} } }\nmethods: [POST]': '7:14: "socketio" requires the methods GET and POST',
  'socketio: { namespaces: { /a: {} } }\nmethods: [GET]': '7:14: "socketio" requires the methods GET and POST',
  'socketio: { namespaces: { /a: {} } }\napp: { name: A }':
    '7:10: "app" needs a page to open, which a socketio route does not have',
  "socketio: { namespaces: { '/(a+)+/': {} } }": '6:42: a pattern must not repeat a group',
  "socketio: { namespaces: { '/(a/': {} } }": '6:39: this is not a valid regular expression',
  // RV-31
  ...tooMany('(?:a|a)'.repeat(26), `${'a?'.repeat(26)}${'a'.repeat(26)}`, `(${'(?:a|b|c)'.repeat(4)})`),
  [eventsYaml('(?:chat|news):.*')]: [],
  [eventsYaml('v[12]?\\.[a-z]+')]: [],
  [eventsYaml('(?:a|b)(?:c|d)(?:e|f)x?')]: [],
  // RV-32
  [namespaceYaml('/chat/')]:
    "6:41: no namespace matches this pattern, because namespaces begin with /; write /chat for the namespace, or '/\\/chat/' for a pattern",
  [namespaceYaml('/^chat$/')]:
    "6:43: no namespace matches this pattern, because namespaces begin with /; write '/^\\/chat$/' for a pattern",
  [namespaceYaml('/(?:chat|room)/')]:
    "6:50: no namespace matches this pattern, because namespaces begin with /; write '/(?:\\/chat|\\/room)/' for a pattern",
  [namespaceYaml('/[a-z]+/')]:
    "6:43: no namespace matches this pattern, because namespaces begin with /; write '/\\/[a-z]+/' for a pattern",
  [namespaceYaml('/\\d+|[^/]x/')]:
    "6:46: no namespace matches this pattern, because namespaces begin with /; write '/\\/\\d+|\\/[^/]x/' for a pattern",
  [namespaceYaml('/[^a-z]+/')]: [],
  [namespaceYaml('/[\\w/]+/')]: [],
  [namespaceYaml('/a?\\/x/')]: [],
  [namespaceYaml('/\\/chat.*/')]: [],
  [namespaceYaml('/.*/')]: [],
  [namespaceYaml('/(?:\\/a|\\/b)/')]: [],
  // OData spells these with a dollar.
  'path: /odata/$metadata': [],
  'allowInPath: [dots]': '6:19: unknown value "dots": must be one of encodedSlash, semicolon, doubleSlash, extension'
}
t.test('a mistake in a route is refused with its place', async t => {
  for (const [keys, complaints] of Object.entries(ROUTE_MISTAKES)) {
    const given = keys.split('\n')
    const lines = given[0]?.startsWith('path:') ? [given[0], 'upstream: up', ...given.slice(1)] : [...OK, ...given]
    const expected = [complaints].flat().map(text => `a.yaml:${text}`)
    t.same(await complaintsOf(t, { 'a.yaml': routeYaml(...lines) }), expected, keys)
  }
  const said = (...lines: string[]) => complaintsOf(t, { 'a.yaml': routeYaml(...lines) })
  t.same(await said('path: /x'), ['a.yaml:4:5: a route needs the key "upstream"'])
  t.same(await said('path: /x', 'upstream: upp'), ['a.yaml:5:15: unknown upstream "upp" (did you mean "up"?)'])
})

// CF-12, CF-13
const FORM = 'the address must have the form http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock'
const UPSTREAM_MISTAKES: Readonly<Record<string, string>> = {
  'file:///etc/passwd': 'the address must begin with http://, https:// or unix:, not with file:',
  'unix+http://x': 'the address must begin with http://, https:// or unix:, not with unix+http:',
  'ftp://h': 'the address must begin with http://, https:// or unix:, not with ftp:',
  'http://user:secret@h': 'the address must not contain a user or a password',
  'http://h/base': 'the address must not contain a path; use stripPrefix on the routes',
  'http://h?x': 'the address must not contain a query or a fragment',
  'http://h/#x': 'the address must not contain a query or a fragment',
  'http://h:0': 'the port must be from 1 to 65535',
  'http://h:65536': 'the port must be from 1 to 65535',
  'http://a b': FORM,
  'http://': FORM,
  'http://[::1': FORM,
  'http:h': FORM,
  'http://${HOST}:80': '"${HOST}" is not expanded: route files have no variables; write the value itself',
  'http://{{HOST}}:80': 'the address contains a placeholder that was not filled in',
  'http://169.254.169.254': 'the address is link-local, which only metadata services use',
  'http://2852039166': 'the address is link-local, which only metadata services use',
  'http://[fe80::1]:80': 'the address is link-local, which only metadata services use',
  'unix:relative.sock': 'a socket must be an absolute path, as in unix:/run/orders.sock'
}
t.test('a dangerous or broken address of an upstream is refused', async t => {
  for (const [url, complaint] of Object.entries(UPSTREAM_MISTAKES)) {
    const yaml = `upstreams:\n  up:\n    url: ${JSON.stringify(url)}\nroutes:\n  - { path: /x, upstream: up }\n`
    t.same(await complaintsOf(t, { 'a.yaml': yaml }), [`a.yaml:3:10: ${complaint}`], url)
  }
})

t.test('an upstream has either one address or several, a usable CA file, and one definition', async t => {
  const yaml =
    'upstreams:\n  none: {}\n  both: { url: http://h, targets: [http://h] }\n  ca: { url: https://h, caFile: no.pem }\n  odd: { url: https://h, caFile: odd.pem }\n  plain: { url: http://h, caFile: odd.pem }\nroutes: []\n'
  t.same(
    await complaintsOf(t, {
      'a.yaml': yaml,
      'odd.pem': 'no certificate',
      'b.yaml': 'upstreams: { ca: { url: http://h } }'
    }),
    [
      'a.yaml:2:3: the upstream "none" needs either "url" or "targets", such as url: http://127.0.0.1:4001',
      'a.yaml:3:3: the upstream "both" needs either "url" or "targets", not both',
      'a.yaml:4:33: "caFile" names a file that cannot be read: no.pem',
      'a.yaml:5:34: "caFile" contains no valid PEM certificates',
      'a.yaml:6:35: "caFile" needs an https:// address',
      'b.yaml:1:14: the upstream "ca" is already defined at a.yaml:4:3'
    ]
  )
})

t.test('a CA file is looked for beside the route file', async t => {
  const folder = await routeFolder(t, {})
  const { caFile, ca } = createCertificateAuthority(folder)
  const yaml = `upstreams: { up: { url: https://h, caFile: ${basename(caFile)} } }\nroutes: [{ path: /, upstream: up }]\n`
  await writeFile(join(folder, 'a.yaml'), yaml)
  t.equal((await loadRoutes(folder, ownRoutes())).table.upstreams.get('up')?.ca, ca)
})

t.test('aliases may repeat a good deal, and in a long file as much as it is long', async t => {
  const networks = Array.from({ length: 40 }, (_, i) => `10.${i}.0.0/16`)
  const from = (i: number) => (i === 0 ? `&lan [${networks.join(', ')}]` : '*lan')
  const routes = Array.from({ length: 300 }, (_, i) => `  - { path: /r${i}, upstream: up, from: ${from(i)} }\n`)
  const { table } = await load(t, { 'a.yaml': `${UPSTREAMS}routes:\n${routes.join('')}` })
  t.equal(table.routes.filter(route => route.from?.length === networks.length).length, routes.length)
  const text = `a: &a [${'x,'.repeat(1000)}]\nroutes: [${'*a,'.repeat(101)}]\n`
  const isRefused = async (text: string) =>
    (await complaintsOf(t, { 'a.yaml': text })).some(line => line.includes('aliases repeat too much'))
  t.equal(await isRefused(text), true)
  t.equal(await isRefused(`${text}#${'x'.repeat(102_000)}\n`), false)
})

t.test('very many failing test lines are mistakes like one', async t => {
  const text = `${UPSTREAMS}routes: [{ path: /x, upstream: up }]\ntests: [GET /x as anonymous -> allow]\n`
  const definitions = await readRouteFiles(await routeFolder(t, { 'a.yaml': text }))
  const tests = Array.from({ length: 150_000 }, () => definitions.tests).flat()
  const message = /the test "GET \/x as anonymous -> allow" fails: expected allow, got 401/
  await t.rejects(loadDefinitions({ ...definitions, tests }, ownRoutes()), { message })
})

// CF-02, CF-05, CF-06, CF-08, CF-09
const bomb = `a0: &a0 [x, x, x, x, x, x, x, x, x]\n${Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(', ')}]`).join('\n')}\n`
const FILE_MISTAKES: Readonly<Record<string, readonly [content: string | Buffer, complaint: string]>> = {
  'a merge key': [
    routeYaml(...OK, '<<: { roles: [Admin] }'),
    '6:5: merge keys (<<) are not merged by YAML 1.2; write the keys out'
  ],
  'an alias bomb': [bomb, 'aliases repeat too much'],
  'a cycle': ['routes: &a [*a]\n', '1:13: the alias *a contains itself'],
  'an unknown alias': ['routes: *a\n', '1:9: * begins an alias in YAML: write text that begins with it in quotes'],
  'very many unknown aliases': [`a: [${'*a,'.repeat(150_000)}]\n`, '1:5: * begins an alias in YAML'],
  'a tag': [
    routeYaml(...OK, 'public: !env PUBLIC'),
    '6:18: ! begins a tag, which route files do not have: write text that begins with it in quotes'
  ],
  // RV-30
  'a YAML directive': ['%YAML 1.1\n---\nroutes: []\n', '1:1: directives such as %YAML are not allowed'],
  'a directive for tags': ['%TAG ! tag:x,2000:\n---\nroutes: []\n', '1:1: directives such as %YAML are not allowed'],
  'a directive below a comment': [
    '# x\n\n%YAML 1.2\n---\nroutes: []\n',
    '3:1: directives such as %YAML are not allowed'
  ],
  ...Object.fromEntries(
    ['# a\u2028b\n', '# a\u2029b\n', '# a\rb\n', '# a\r\n', '# a\n\ufeff', '# a\n\ufeff# b\n'].map(above => [
      `a directive after ${encodeURIComponent(above)}`,
      [`${above}%YAML 1.1\n---\nroutes: []\n`, 'directives such as %YAML are not allowed']
    ])
  ),
  'a second document': ['routes: []\n---\nroutes: []\n', '2:1: a file must contain only one document'],
  'a list as key': ['? [a, b]\n: 1\nroutes: []\n', '1:3: keys must be plain text'],
  'a prototype at the root': ['__proto__: { routes: [] }\nroutes: []\n', '1:1: unknown key "__proto__"'],
  'an empty file': ['', '1:1: this file is empty; a file without routes says "routes: []"'],
  'nothing but comments': ['# nothing\n', '1:1: this file is empty; a file without routes says "routes: []"'],
  'a byte order mark and nothing else': ['\ufeff', '1:1: this file is empty; a file without routes says "routes: []"'],
  'a list as root': ['- a\n', '1:1: the file must be a map with upstreams, routes and tests'],
  'bytes that are no UTF-8': [Buffer.from([0x72, 0xff, 0xfe]), '1:1: a route file must be UTF-8'],
  'five thousand nested lists': [`routes: ${'['.repeat(5000)}${']'.repeat(5000)}\n`, 'nested too deeply'],
  'a huge file': [`#${' '.repeat(5 * 1024 * 1024)}`, '1:1: a route file must be at most 4 MB large'],
  'no routes key anywhere': [UPSTREAMS, 'no file has the key "routes"']
}
t.test('a file that is no plain map of routes is refused', async t => {
  for (const [title, [content, complaint]] of Object.entries(FILE_MISTAKES)) {
    const complaints = await complaintsOf(t, { 'a.yaml': content })
    t.ok(
      complaints.some(line => line.includes(complaint)),
      `${title}: ${complaints.join('\n').slice(0, 2000)}`
    )
  }
})

t.test('a folder that is missing, empty, or full of other things is refused', async t => {
  const folder = await routeFolder(t, { 'readme.md': '' })
  await mkdir(join(folder, 'folder.yaml'))
  const failure = async (path: string) =>
    loadRoutes(path, ownRoutes()).catch(error => (error as RouteFileError).complaints)
  t.match(await failure(folder), [{ line: 1, column: 1, message: 'there is no route file (*.yaml) in this folder' }])
  t.match(await failure(join(folder, 'none')), [
    { message: 'this folder cannot be read: UPSTREAM_CONFIG must name the folder of the route files' }
  ])
  await symlink('nowhere', join(folder, 'dangling.yaml'))
  t.match(await failure(folder), [{ file: join(folder, 'dangling.yaml'), message: 'this file cannot be read' }])
})

// CF-15
t.test('no routes, a public catch-all and routes that differ in case are warnings', async t => {
  const warningsOf = async (routes: string) => {
    const { warnings } = await load(t, { 'a.yaml': `${UPSTREAMS}routes:${routes}\n` })
    return warnings.map(
      ({ line, column, message }) => `${line}:${column}: ${message.replace(/ at .*a\.yaml/, ' at a.yaml')}`
    )
  }
  t.same(await warningsOf(' []'), ['1:1: there are no routes'])
  t.same(await warningsOf('\n  - { path: /*, upstream: up, public: true }'), [
    '4:5: this public catch-all makes every path without a route of its own public'
  ])
  t.same(await warningsOf('\n  - { path: /Docs, upstream: up }\n  - { path: /docs, upstream: up }'), [
    '4:5: "/Docs" differs only in case from "/docs" at a.yaml:5:5: requests for it are refused'
  ])
  const plus = (...paths: string[]) =>
    warningsOf(paths.map(path => `\n  - { path: ${JSON.stringify(path)}, upstream: up, methods: [PUT] }`).join(''))
  const refused = (sample: string, read: string) =>
    `4:5: requests such as PUT ${sample} are refused (400): some backends would read the path as ${read}, which leads to another route`
  t.same(await plus('/c++/*', '/c/*'), [refused('/c++/0', '/c/0')])
  t.same(await plus('/a+b/:id', '/a%20b/:id'), [refused('/a+b/0', '/a b/0')])
  t.same(await plus('/c++/*', '/d/*'), [])
})

// CF-04, CF-11
t.test('routes that nothing tells apart are refused with both places, whichever files hold them', async t => {
  const yaml = (path: string, more = '') => `routes:\n  - { path: ${path}, upstream: up${more} }\n`
  const tied = (a: string, b: string) => complaintsOf(t, { 'a.yaml': UPSTREAMS + a, 'b.yaml': b })
  t.same(await tied(yaml('/x/:a'), yaml('/x/:b')), [
    'b.yaml:2:5: "/x/:b" matches the same requests as "/x/:a" at a.yaml:4:5: remove one, or give them different "methods"'
  ])
  t.same(await tied(yaml('/x'), yaml('/x/')), [
    'b.yaml:2:5: "/x/" matches the same requests as "/x" at a.yaml:4:5: remove one, or give them different "methods"'
  ])
  t.same(await tied(yaml('/x', ', methods: [GET, PUT]'), yaml('/x', ', methods: [PUT, GET], public: true')), [
    'b.yaml:2:5: "PUT,GET /x" matches the same requests as "GET,PUT /x" at a.yaml:4:5: remove one, or give them different "methods"'
  ])
  t.same(await tied(yaml('/x', ', methods: [GET]'), yaml('/x')), [])
  t.same(await tied(yaml('/x/*'), yaml('/x')), [])
})

t.test('all mistakes of all files are reported at once, in order of place', async t => {
  const complaints = await complaintsOf(t, {
    'a.yaml':
      'upstreams:\n  up: { url: http://h, tiemout: 3s }\nroutes:\n  - { path: /x, upstream: no, rolse: [Admin] }\n  - { path: /y, upstream: up }\n  - { path: /y, upstream: up, roles: [x] }\ntests:\n  - GET /y as Nobody -> 403\n',
    'b.yaml': 'routes:\n  - { path: /auth, upstream: up, path: / }\ntests:\n  - GET /y\n',
    'c.yaml': 'routes: [\n'
  })
  t.same(complaints.slice(0, 8), [
    `a.yaml:2:24: unknown key "tiemout" (did you mean "timeout"?); ${UPSTREAM_KEYS}`,
    'a.yaml:4:27: unknown upstream "no": known is up',
    `a.yaml:4:31: unknown key "rolse" (did you mean "roles"?); ${ROUTE_KEYS}`,
    'a.yaml:6:5: "/y" matches the same requests as "/y" at a.yaml:5:5: remove one, or give them different "methods"',
    'a.yaml:6:39: unknown role "x": must be one of Admin, Supervisor, Agente, or be listed under "profiles"',
    'a.yaml:8:5: unknown role "Nobody": must be anonymous, unassigned, cloud-unassigned, or roles joined by + (Admin, Supervisor, Agente)',
    'b.yaml:2:13: /auth/ belongs to the gateway',
    'b.yaml:2:34: duplicate key "path"'
  ])
  t.equal(
    complaints[8],
    'b.yaml:4:5: a test must have the form METHOD PATH as WHO -> OUTCOME: "as WHO" is missing, as in "GET /api/orders/7 as Agente -> allow"'
  )
  t.match(complaints[9], /^c\.yaml:\d+:\d+: /)
  t.equal(complaints.length, 10)
})

t.test('one slip of the pen is one complaint, and nothing of that file is guessed beyond it', async t => {
  const routes = Array.from({ length: 50 }, (_, i) => `  - { path: /r${i}, upstream: up, roles: [Nobody] }\n`).join('')
  const after = (upstream: string) => ({ 'a.yaml': `upstreams:\n  up: ${upstream}\nroutes:\n${routes}` })
  const NOT_EXPANDED = 'is not expanded: route files have no variables; write the value itself'
  t.same(await complaintsOf(t, after('{ url: ${ORDERS_URL} }')), [`a.yaml:2:14: "\${ORDERS_URL}" ${NOT_EXPANDED}`])
  t.same(await complaintsOf(t, after('{ url: "http://h" ]')).then(all => all.length), 1)
  t.same(await complaintsOf(t, after('"http://h')).then(all => all.length), 1)
})

t.test(
  'a pattern that is tied to one end of a name only is a warning, because it must match the whole name',
  async t => {
    const warningsOf = async (namespace: string, event: string) => {
      const keys = `{ ${JSON.stringify(namespace)}: { events: { ${JSON.stringify(event)}: {} } } }`
      const routes = `routes: [{ path: /s/*, upstream: up, socketio: { namespaces: ${keys} } }]\n`
      const { warnings } = await load(t, { 'a.yaml': `${UPSTREAMS}${routes}` })
      return warnings.map(({ message }) => message)
    }
    const advice = (meant: string) =>
      `this pattern must match the whole name; for all names that begin or end like this, write '/${meant}/'`
    t.same(await warningsOf('/^\\/room-/', 'send'), [advice('^\\/room-.*')])
    t.same(await warningsOf('/messaging', '/^x-/'), [advice('^x-.*')])
    t.same(await warningsOf('/messaging', '/-done$/'), [advice('.*-done$')])
    for (const whole of ['/^\\/room-[0-9]+$/', '/^\\/room-.*/', '/\\/room-\\d/', '/.*-x$/', '/^', '/^\\/a|\\/b/'])
      t.same(await warningsOf(whole, '/typing:.*/'), [], whole)
    const table = await tableOf(t, `/s/* {socketio: {namespaces: {/m: {events: {'/^x-/': {}, '/y-.*/': {}}}}}}`)
    const ask = (event: string) =>
      decideEventOnRoutes(table, { namespace: '/m', event }, askerOf('Agente'), { cloudUnassignedMayPass: false })
    t.match(ask('x-1'), [{ decision: { reason: 'event-not-listed' } }])
    t.match(ask('y-1'), [{ decision: { decision: 'allow' } }])
  }
)

t.test('no accepted pattern takes long, however long the name is', async t => {
  const pattern = `${'(?:a|a)'.repeat(6)}.*x.*y`
  const table = await tableOf(t, `/s/* {socketio: {namespaces: {/m: {events: {'/${pattern}/': {}}}}}}`)
  const ask = (event: string) =>
    decideEventOnRoutes(table, { namespace: '/m', event }, askerOf('Agente'), { cloudUnassignedMayPass: false })
  const before = process.cpuUsage()
  t.match(ask(`${'a'.repeat(6)}${'x'.repeat(190)}`), [{ decision: { reason: 'event-not-listed' } }])
  t.match(ask(`${'a'.repeat(6)}${'x'.repeat(1e6)}y`), [{ decision: { reason: 'event-not-listed' } }], 'too long to try')
  const { user } = process.cpuUsage(before)
  t.ok(user < 500_000, `${user} µs`)
})

// RV-33
t.test('roles and profiles are the same in either form of their letters', async t => {
  const [composed, decomposed] = ['Operação'.normalize('NFC'), 'Operação'.normalize('NFD')]
  const file = (profile: string, role: string) =>
    `profiles: [${profile}]\n${UPSTREAMS}routes: [{ path: /x, upstream: up, roles: [${role}] }]\n` +
    `tests: ['GET /x as ${role} -> allow', 'GET /x as ${profile} -> allow']\n`
  t.same(await complaintsOf(t, { 'a.yaml': file(composed, decomposed) }), [])
  t.same(await complaintsOf(t, { 'a.yaml': file(decomposed, composed) }), [])
})

t.test('whatever a file holds, it gives a table or complaints with places', async t => {
  const fragment = fc.constantFrom(
    ...(
      'upstreams:¦routes:¦tests:¦ ¦\n¦\n  ¦\n    ¦- ¦[¦]¦{¦}¦: ¦,¦&a ¦*a¦!x ¦"¦\'¦|¦path: /x¦upstream: up¦' +
      'up: { url: http://h }¦roles: [Admin]¦? ¦---¦%YAML 1.1\n¦#¦<<¦\t¦1¦null¦\u00e9'
    ).split('¦')
  )
  const folder = await routeFolder(t, {})
  const text = fc.oneof(
    fc.string(),
    fc.array(fragment, { maxLength: 30 }).map(parts => parts.join(''))
  )
  await fc.assert(
    fc.asyncProperty(text, async content => {
      await writeFile(join(folder, 'a.yaml'), content)
      const failure = await loadRoutes(folder, ownRoutes()).catch(error => error)
      if (!(failure instanceof RouteFileError)) return failure.table !== undefined
      return (
        failure.complaints.length > 0 &&
        failure.complaints.every(({ line, column, message }) => line > 0 && column > 0 && message !== '')
      )
    }),
    { numRuns: 500 }
  )
})
