// What an operator probably meant: each plausible mistake in a route file is answered with the form to write instead.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { readRouteFiles } from '../../gateway/route-files/read.ts'
import { routeFolder } from '../support/route-files.ts'

const folder = await routeFolder(t, {})
const UPSTREAMS = 'upstreams: { orders: { url: http://h } }\n'

/** Without places, which other tests look at. */
const saidOf = async (text: string): Promise<string[]> => {
  await writeFile(join(folder, 'a.yaml'), text)
  const { complaints, warnings } = await readRouteFiles(folder)
  return [...complaints, ...warnings].map(({ message }) => message)
}

const check = (part: string, file: (mistake: string) => string, mistakes: Readonly<Record<string, string>>) =>
  t.test(`mistakes in ${part} are answered with what to write`, async t => {
    for (const [mistake, advice] of Object.entries(mistakes)) {
      const said = await saidOf(file(mistake))
      t.ok(
        said.some(message => message.includes(advice)),
        `${mistake}: ${advice}`,
        { said }
      )
    }
  })

const route = (keys: string) => `${UPSTREAMS}routes:\n  - { upstream: orders, path: /api/*, ${keys} }\n`

check('the keys of a route', route, {
  'methods: GET': 'write [ GET ] instead of "GET"',
  'methods: [post]': 'write POST instead of "post"',
  'methods: ["GET,POST"]': 'write GET, POST instead',
  'methods: ["*"]': 'without "methods" a route takes all of them',
  'methods: [DELTE]': 'no request can have the method "DELTE" (did you mean "DELETE"?)',
  'method: [GET]': 'did you mean "methods"?',
  'roles: "Admin, Supervisor"': 'write [ Admin, Supervisor ] instead',
  'roles: [Financeiro]': 'or be listed under "profiles"',
  'profiles: [Admin]': 'unknown key "profiles" (did you mean "roles"?)',
  'strip_prefix: /api': 'did you mean "stripPrefix"?',
  'prefix: /api': 'did you mean "stripPrefix"?',
  'stripPrefix: /ap': 'such as /api',
  'timeout: 30sec': 'write 30s instead of "30sec"',
  'timeout: "30 s"': 'write 30s instead of "30 s"',
  'timeout: 1.5m': 'write 90s instead of "1.5m"',
  'timeout: 1h30m': 'write 90m instead of "1h30m"',
  'timeout: 5 minutes': 'write 5m instead of "5 minutes"',
  'timeout: 2w': 'write 14d instead of "2w"',
  'timeout: 30': 'write 30s or 30ms instead of 30',
  'timeout: { after: 30s }': 'must be a duration such as 500ms, 30s or 2m',
  'methods: [{ name: GET }]': 'must be a method in upper case',
  'timeout: soon': 'must be a duration such as 500ms, 30s or 2m, not "soon"',
  'maxBody: 10M': 'write 10MB instead of "10M"',
  'maxBody: 512 KiB': 'write 512KB instead of "512 KiB"',
  'maxBody: 1.5mb': 'write 1536KB instead of "1.5mb"',
  'rateLimit: 100/min': 'write { max: 100, window: 1m } instead of "100/min"',
  'rateLimit: 10 requests per second': 'write { max: 10, window: 1s } instead',
  'rateLimit: 5r/s': 'write { max: 5, window: 1s } instead',
  'rateLimit: 100': 'write { max: 100, window: 1m } instead of 100',
  'rateLimit: { max: "20", window: 1m }': 'write 20 instead of "20"',
  'rateLimit: { limit: 20, per: 1m }': 'unknown key "limit" (did you mean "max"?)',
  'rateLimit: { max: 20 }': '"rateLimit" needs the key "window", as in { max: 20, window: 1m, by: user }',
  'rateLimit: { max: 20, window: 1m, by: users }': 'did you mean "user"?',
  'socketio: { namespaces: { /m: {} } }, rateLimit: { max: 20, window: 1m, by: user }':
    'the requests of a socketio route name no person, so "by: user" counts per address',
  'socketio: { namespaces: { /m: {} } }, maxBody: 5MB': '"maxBody" has no effect on a socketio route',
  'public: true, forwardToken: true':
    'a public route checks no token and forwards none, so "forwardToken" has no effect',
  'public: true, websocket: { tokenInQuery: true }':
    'a public route requires no token, so "tokenInQuery" has no effect',
  'public: yes': 'write true instead of "yes"',
  'public: off': 'write false instead of "off"',
  'websocket: true': 'write {} instead of true',
  'websocket: { origins: [app.example.org] }': 'write https://app.example.org',
  'websocket: { origins: [https://app.example.org/] }': 'write https://app.example.org',
  'websocket: { origins: ["*"] }': 'there are no wildcards',
  'websocket: { origins: [wss://app.example.org] }': 'as in https://app.example.org',
  'socketio: { namespaces: { messaging: {} } }': 'write /messaging',
  'socketio: { namespaces: { /m: [Agente] } }': 'write { roles: [ Agente ] }',
  'socketio: { namespaces: { /m: { events: { send: [Agente] } } } }': 'write { roles: [ Agente ] }',
  'websocket: { origins: [https://u:secret@h/] }': 'as in https://app.example.org'
})

check('a path', path => `${UPSTREAMS}routes:\n  - { upstream: orders, path: '${path}' }\n`, {
  'api/orders': 'write /api/orders',
  'https://gateway.example/api': 'write /api: the address of a backend goes under "upstreams"',
  '^/api/.*$': 'looks like a regular expression',
  '/api/\\d+': 'looks like a regular expression',
  '/api/(a|b)': 'looks like a regular expression',
  '/api/**': 'write /*',
  '/api/*/items': 'write :name for one segment',
  '/api/*/': 'only alone, after the last /',
  '/api/{id}': 'write :id',
  '/api/:id.json': 'write :id instead of ":id.json"',
  '/api?x=1': 'a query is not matched',
  '/api//x': 'write one slash',
  '/api/../x': 'write the path that . or .. leads to',
  '/a%2Fb': 'allowInPath: [encodedSlash]'
})

check('the name of an upstream', name => `${UPSTREAMS}routes:\n  - { upstream: '${name}', path: /x }\n`, {
  order: 'did you mean "orders"?',
  billing: 'unknown upstream "billing": known is orders',
  'http://127.0.0.1:4001': '"upstream" takes the name of an entry of "upstreams", not an address'
})

check('an upstream', upstream => `upstreams: { orders: ${upstream} }\nroutes: []\n`, {
  '"http://127.0.0.1:4001"': 'write { url: http://127.0.0.1:4001 } instead',
  '{ url: "localhost:4001" }': 'write http://localhost:4001',
  '{ url: "10.0.0.1:4001" }': 'write http://10.0.0.1:4001',
  '{ url: "ws://h" }': 'write http://',
  '{ url: "http://$HOST:80" }': 'a placeholder that was not filled in',
  '{ targets: "http://h:1" }': 'write [ http://h:1 ] instead',
  '{ host: h }': 'did you mean "url"?',
  '{ url: "http://h", headers: {} }': 'did you mean "requestHeaders"?',
  '{ url: "http://h", requestHeaders: { X-A: b } }': 'a header goes under "set": set: { X-A: … }',
  '{ url: "http://h", healthCheck: /healthz }': 'write { path: /healthz } instead',
  '{ url: "https://h", caFile: none.pem }': join(folder, 'none.pem')
})

check('a test line', line => `${route('roles: [Admin]')}tests:\n  - ${line}\n`, {
  'GET /api as Admin -> 200': 'write allow',
  'GET /api as Agente -> deny': 'write 401 for a missing token, 403 for a missing role',
  'GET /api as Agente -> forbidden': 'write 403',
  'GET /api as anonymous -> 302': 'write 401',
  'GET /api as Admin => allow': 'write -> before the outcome',
  'GET /api as Admin->allow': 'write a space before and after ->',
  'GET /api -> 401': '"as WHO" is missing',
  'GET /api as Admin': '"-> OUTCOME" is missing',
  'get /api as Admin -> allow': 'write the method as GET',
  'GTE /api as Admin -> allow': 'unknown method "GTE" (did you mean "GET"?)',
  'GET /api as Admin -> allow please': 'nothing may follow the outcome',
  'GET /api as Admin,Agente -> allow': 'as in Admin+Agente',
  'GET /api as maria -> allow': 'must be anonymous, unassigned, cloud-unassigned, or roles joined by +',
  'GET /api as Admin+anonymous -> allow': '"anonymous" cannot be combined',
  'GET: /api': 'a test line such as "GET /api/orders/7 as Agente -> allow"'
})

check('a whole section', section => `routes: []\n${section}\n`, {
  'upstreams: "http://127.0.0.1:4001"':
    'must be a map of upstreams, such as { orders: { url: http://127.0.0.1:4001 } }',
  'tests: GET /api as Admin -> allow': 'write [ GET /api as Admin -> allow ] instead'
})

check('the syntax of YAML', text => text, {
  'upstreams:\n\torders: {}\n': 'indented with spaces only',
  'routes:\n  - path: /a\n   upstream: x\n': 'the indentation of this line matches none',
  'routes:\n  - path:/a\n    upstream: x\n': 'a key needs a colon and a space after it',
  'routes:\n  - path: *\n': 'in quotes',
  'routes: [ { path: /a }\n': 'a list that begins with [ must end with ]',
  'routes: { path: /a\n': 'a map that begins with { must end with }',
  'routes: "x\n': 'never closed',
  'routes: @x\n': 'must be in quotes',
  'routes: a: b\n': 'write the value in quotes',
  'routes: []]\n': 'no open bracket that this one could close',
  'routes: "x" y\n': 'in one pair of quotes',
  'routes: "\\q"\n': 'use single quotes',
  'routes:\n  - { path: /api/{id}/items, upstream: x }\n': '"{id}" would be no parameter: write :id',
  'routes:\n  - { path: /api/[orderId], upstream: x }\n': '"[orderId]" would be no parameter: write :orderId',
  'routes: - a\n': 'on a line of its own'
})

t.test('what could hold a password is not repeated', async t => {
  const said = await saidOf(
    `upstreams: { orders: "http://user:secret@h", a: { requestHeaders: { set: { X: [secret] } } } }\n`
  )
  t.ok(said.length > 1)
  t.notMatch(said.join(), /secret/)
})
