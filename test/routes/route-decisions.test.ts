// Who may pass a route: one pure decision for requests, test lines and explanations.
import t from 'tap'
import { checkTestLine, matchTarget } from '../../gateway/route-files/test-lines.ts'
import { type Asker, decide } from '../../gateway/routes/decide.ts'
import { askerOf, complaintsOf, tableOf, UPSTREAMS } from '../support/route-files.ts'

const person = (profiles: string[], accessStatus: 'assigned' | 'unassigned', provider: 'ldap' | 'cloudidp'): Asker => ({
  user: { profiles, accessStatus, provider }
})
const nobody: Asker = {}
const agent = person(['Agente'], 'assigned', 'ldap')
const newcomer = person([], 'unassigned', 'ldap')
const cloudNewcomer = person([], 'unassigned', 'cloudidp')
const cloudHalf = person(['Admin'], 'unassigned', 'cloudidp')

const OPTIONS = { cloudUnassignedMayPass: false }
const ROUTES = [
  '/open/* {public: true}',
  '/form {public: true, methods: [GET]}',
  '/any',
  '/admin/* {roles: [Admin]}',
  '/desk {roles: [Agente, Supervisor]}',
  '/staff {requireAssigned: true}',
  '/read {methods: [GET]}',
  '/socket.io/* {socketio: {namespaces: {/m: {roles: [Agente]}}}}'
]

// RT-35, CF-03
t.test('each situation has one answer', async t => {
  const table = await tableOf(t, ...ROUTES)
  const cases: readonly (readonly [string, Asker, string | number, string | undefined, string])[] = [
    ['GET /open/x', nobody, 'allow', undefined, 'public'],
    ['GET /open/x', cloudNewcomer, 'allow', undefined, 'public'],
    ['GET /open/../x', agent, 400, 'GW_BAD_PATH', 'dot-segment'],
    ['GET /open#x', nobody, 400, 'GW_BAD_PATH', 'fragment'],
    ['GET /ADMIN/x', nobody, 401, 'GW_UNAUTHENTICATED', 'no-token'],
    ['POST /form', nobody, 405, 'GW_METHOD_NOT_ALLOWED', 'method'],
    ['POST /read', nobody, 401, 'GW_UNAUTHENTICATED', 'no-token'],
    ['POST /read', agent, 405, 'GW_METHOD_NOT_ALLOWED', 'method'],
    ['GET /none', nobody, 401, 'GW_UNAUTHENTICATED', 'no-token'],
    ['GET /none', agent, 404, 'GW_NO_ROUTE', 'no-route'],
    ['GET /any?x=/admin', nobody, 401, 'GW_UNAUTHENTICATED', 'no-token'],
    ['GET /any', newcomer, 'allow', undefined, 'any-valid-token'],
    ['GET /any', cloudNewcomer, 403, 'GW_UNASSIGNED', 'cloud-unassigned'],
    ['GET /admin/x', agent, 403, 'GW_FORBIDDEN', 'role-missing'],
    ['GET /admin/x', cloudHalf, 403, 'GW_UNASSIGNED', 'cloud-unassigned'],
    ['GET /desk', agent, 'allow', undefined, 'has-role'],
    ['GET /staff', newcomer, 403, 'GW_UNASSIGNED', 'unassigned'],
    ['GET /staff', agent, 'allow', undefined, 'any-valid-token'],
    ['GET /socket.io/', nobody, 'allow', undefined, 'socketio'],
    ['GET /auth/me', cloudNewcomer, 'allow', undefined, 'any-valid-token'],
    ['GET /auth/admin/users', agent, 403, 'GW_FORBIDDEN', 'role-missing'],
    ['GET /auth/nothing', nobody, 401, 'GW_UNAUTHENTICATED', 'no-token'],
    ['GET /auth/nothing', agent, 404, 'GW_NO_ROUTE', 'no-route']
  ]
  for (const [request, asker, decision, code, reason] of cases) {
    const [method = '', target = ''] = request.split(' ')
    const answer = decide(matchTarget(table, method, { target }), asker, OPTIONS)
    t.same(answer, { decision, code, reason }, `${request} ${JSON.stringify(asker)}`)
  }
})

t.test('a named or open tenant lets unassigned cloud users pass as directory users do', async t => {
  const table = await tableOf(t, ...ROUTES)
  const answer = (path: string, asker: Asker) =>
    decide(table.match('GET', path), asker, { cloudUnassignedMayPass: true }).decision
  t.equal(answer('/any', cloudNewcomer), 'allow')
  t.equal(answer('/staff', cloudNewcomer), 403)
  t.equal(answer('/admin/x', cloudHalf), 'allow')
})

t.test('test lines name an anonymous client, the unassigned, or roles', async t => {
  t.same(askerOf('anonymous'), nobody)
  t.same(askerOf('unassigned'), newcomer)
  t.same(askerOf('Agente+Supervisor'), person(['Agente', 'Supervisor'], 'assigned', 'ldap'))
  t.equal(checkTestLine('GET x as Agente -> allow'), 'the path of a test must begin with /')
  t.equal(checkTestLine('  GET   /x?y as Admin -> 405 '), undefined)
})

t.test('a test line that does not hold refuses the files and says what the answer is', async t => {
  const yaml = (...tests: string[]) =>
    `${UPSTREAMS}routes:\n  - { path: /x/*, upstream: up, roles: [Admin] }\ntests:\n${tests.map(line => `  - ${line}\n`).join('')}`
  t.same(
    await complaintsOf(t, {
      'a.yaml': yaml(
        'GET /x as Agente -> allow',
        'GET /x as Admin -> allow',
        'GET /y as Admin -> 403',
        'GET /x/../y as anonymous -> 401'
      )
    }),
    [
      'a.yaml:6:5: the test "GET /x as Agente -> allow" fails: expected allow, got 403 (role-missing) from the route "/x/*" at a.yaml:4:5. The route requires Admin, and Agente has only Agente.',
      'a.yaml:8:5: the test "GET /y as Admin -> 403" fails: expected 403, got 404 (no-route). No route has this path.',
      'a.yaml:9:5: the test "GET /x/../y as anonymous -> 401" fails: expected 401, got 400 (dot-segment). A dot segment: a backend would resolve it to a different path.'
    ]
  )
  const holding = [
    'GET /x/1 as Admin+Agente -> allow',
    'GET /x as unassigned -> 403',
    'GET /x as cloud-unassigned -> 403',
    'GET /x%2Fy as anonymous -> 400'
  ]
  t.same(await complaintsOf(t, { 'a.yaml': yaml(...holding) }), [])
})

t.test('an own endpoint may be for some kinds of tokens only, and lax readings must admit the asker too', async t => {
  const table = await tableOf(t, '/a', '/b {roles: [Admin]}')
  const [open, admins] = ['/a', '/b'].map(path => table.match('GET', path).route)
  if (open === undefined || admins === undefined) return t.fail('no routes')
  const who = (kind?: 'login' | 'client' | 'personal'): Asker => ({
    user: { profiles: ['Agente'], accessStatus: 'assigned', provider: 'ldap' },
    ...(kind === undefined ? {} : { kind })
  })
  const check = (tokenKinds: readonly ('login' | 'client' | 'personal')[] | undefined, asker: Asker) =>
    decide({ route: { ...open, tokenKinds }, path: '/a' }, asker, OPTIONS)
  const refused = { decision: 403, code: 'GW_FORBIDDEN', reason: 'token-kind' }
  const allowed = { decision: 'allow', code: undefined, reason: 'any-valid-token' }
  t.same(check(['login'], who()), allowed, 'a token of a login, when nothing is said')
  t.same(check(['login'], who('personal')), refused)
  t.same(check(['login', 'personal'], who('personal')), allowed)
  t.same(check(undefined, who('client')), allowed)
  t.same(check(['client'], {}), { decision: 401, code: 'GW_UNAUTHENTICATED', reason: 'no-token' })

  const lax = (...alsoReadAs: (typeof open)[]) => decide({ route: open, path: '/a', alsoReadAs }, who(), OPTIONS)
  t.same(lax(), allowed)
  t.same(lax(open), allowed)
  t.same(lax(open, admins), { decision: 400, code: 'GW_BAD_PATH', reason: 'lax-reading' })
  t.equal(decide({ route: admins, path: '/b', alsoReadAs: [open] }, who(), OPTIONS).decision, 403)
})

t.test('a public route checks no token, so another route that must admit the request knows no person', async t => {
  const table = await tableOf(t, '/* {public: true}', '/index.html')
  const asAdmin: Asker = { user: { profiles: ['Admin'], accessStatus: 'assigned', provider: 'ldap' } }
  t.match(decide(table.match('GET', '/'), asAdmin, OPTIONS), { decision: 400, reason: 'lax-reading' })
  t.match(decide(table.match('GET', '/x'), asAdmin, OPTIONS), { decision: 'allow', reason: 'public' })
  const sockets = await tableOf(t, '/socket.io/* {socketio: {namespaces: {/m: {}}}}', '/socket.io/a {roles: [Admin]}')
  const decided = decide(sockets.match('GET', '/socket.io/a.json'), asAdmin, OPTIONS)
  t.match(decided, { reason: 'lax-reading' }, 'nor does Socket.IO')
})

t.test('of the HTTP side of a Socket.IO route only the path and the methods of Engine.IO are allowed', async t => {
  const socketio = '{socketio: {namespaces: {/m: {}}}}'
  const table = await tableOf(t, `/socket.io/* ${socketio}`, `/ws ${socketio}`)
  const ask = (method: string, target: string) => {
    const { decision, code, reason } = decide(matchTarget(table, method, { target }), {}, OPTIONS)
    return [decision, code, reason].join(' ')
  }
  for (const target of ['/socket.io', '/socket.io/?EIO=4&transport=polling', '/ws', '/ws/'])
    for (const method of ['GET', 'POST']) t.equal(ask(method, target), 'allow  socketio', `${method} ${target}`)
  for (const target of ['/socket.io/socket.io.js', '/socket.io/x/'])
    for (const method of ['GET', 'PUT']) t.equal(ask(method, target), '400 GW_BAD_REQUEST engineio-path', target)
  for (const method of ['PUT', 'HEAD', 'OPTIONS', 'MOVE'])
    t.equal(ask(method, '/socket.io/'), '405 GW_METHOD_NOT_ALLOWED engineio-method', method)
})

// RW-45
t.test('what a request writes to besides its own path must admit the asker too', async t => {
  const table = await tableOf(t, '/a', '/b {roles: [Admin]}', '/c {methods: [GET]}', '/d {public: true}')
  const asAgente: Asker = { user: { profiles: ['Agente'], accessStatus: 'assigned', provider: 'ldap' } }
  const writing = (path: string, asker: Asker, ...written: string[]) => {
    const match = table.match('COPY', path)
    if (match.route === undefined) throw new Error(`${path} has no route`)
    return decide({ ...match, alsoWrites: written.map(one => table.match('PUT', one)) }, asker, OPTIONS)
  }
  const forbidden = { decision: 403, code: 'GW_FORBIDDEN', reason: 'destination' }
  const allowed = { decision: 'allow', code: undefined, reason: 'any-valid-token' }
  t.same(writing('/a', asAgente), allowed)
  t.same(writing('/a', asAgente, '/a', '/d'), allowed)
  t.same(writing('/a', asAgente, '/a', '/b'), forbidden, 'another profile')
  t.same(writing('/a', asAgente, '/c'), forbidden, 'another method')
  t.same(writing('/a', asAgente, '/nowhere'), forbidden, 'no route')
  t.same(writing('/a', asAgente, '/x/../b'), { decision: 400, code: 'GW_BAD_PATH', reason: 'dot-segment' })
  t.same(writing('/d', {}, '/a'), { decision: 401, code: 'GW_UNAUTHENTICATED', reason: 'no-token' })
  t.same(writing('/d', {}, '/d'), { decision: 'allow', code: undefined, reason: 'public' })
  for (const written of ['/a', '/x/../b'])
    t.match(writing('/b', asAgente, written), { decision: 403, reason: 'role-missing' }, 'its own path comes first')
})
