// What is explained is what is decided, for every request, route and person.
import t from 'tap'
import { askersWith, halfAssignedWith, readAsker } from '../../gateway/explain/askers.ts'
import { explain } from '../../gateway/explain/explain.ts'
import { matchTarget } from '../../gateway/route-files/test-lines.ts'
import { decide } from '../../gateway/routes/decide.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
import { takesMethod } from '../../gateway/routes/route-trie.ts'
import { startGateway } from '../support/gateway.ts'
import { tableOf } from '../support/route-files.ts'
import { compareShapes, pathMatches, segmentsOf } from '../support/route-order.ts'
import { fc } from '../support/worlds.ts'

const ROUTES = [
  '/* {public: true}',
  '/api/* {roles: [Agente, Supervisor]}',
  '/api/:id {methods: [GET]}',
  '/api/:id {methods: [DELETE], roles: [Admin]}',
  '/api/:tenant/keys {roles: [Admin]}',
  '/api/admin/* {roles: [Admin]}',
  '/api/admin/keys {methods: [GET, PUT], requireAssigned: true}',
  '/api/Reports/* {roles: [Supervisor]}',
  '/files/* {allowInPath: [encodedSlash, semicolon]}',
  '/files/private/* {roles: [Admin]}',
  '/cms/* {allowInPath: [doubleSlash]}',
  '/health/live {public: true}',
  '/socket/* {socketio: {namespaces: {/m: {roles: [Agente]}}}}',
  '/:any/deep/:thing {requireAssigned: true}'
]

const word = fc.constantFrom(
  ...'api admin keys Reports reports files private cms socket health live auth me login x 7 deep ADMIN a%2Fb a;b %61pi . .. a. %20 %25'.split(
    ' '
  )
)
const separator = fc.constantFrom('/', '/', '/', '/', '//', '/./', '%2F', '\\')
const target = fc
  .tuple(fc.array(fc.tuple(separator, word), { maxLength: 5 }), fc.constantFrom('', '', '/', '?a=/api', '#x'))
  .map(([parts, end]) => (parts.map(part => part.join('')).join('') || '/') + end)
const request = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND', 'TRACE'),
  target,
  asker: fc.constantFrom(...askersWith(), ...halfAssignedWith()),
  mayPass: fc.boolean()
})

/** Another way to the same answer: every route in turn, without the tree. */
const mostSpecific = (table: RouteTable, method: string, path: string) =>
  table.routes
    .filter(route => pathMatches(route.path, segmentsOf(path)) && takesMethod(route, method))
    .sort((a, b) => compareShapes(b, a, method))[0]

t.test('an explanation always agrees with the live decision, and names the winner and every loser', async t => {
  const tables = [
    await tableOf(t, ...ROUTES),
    await tableOf(t, ...ROUTES.slice(1)),
    await tableOf(t, ...ROUTES.filter((_, index) => index % 2 === 0)),
    await tableOf(t)
  ]
  fc.assert(
    fc.property(fc.constantFrom(...tables), request, (table, { method, target, asker, mayPass }) => {
      const options = { cloudUnassignedMayPass: mayPass }
      const match = matchTarget(table, method, { target })
      const explanation = explain(table, { method, target, asker }, options)
      t.same(explanation.decision, decide(match, asker, options))
      t.not(explanation.words, '')
      const chosen = explanation.candidates.filter(candidate => candidate.chosen)
      t.same(
        chosen.map(({ route }) => route),
        match.route === undefined ? [] : [match.route]
      )
      if (match.route !== undefined)
        t.equal(mostSpecific(table, method, match.path), match.route, `${method} ${target}`)
      t.ok(explanation.candidates.every(({ why }) => why !== ''))
      for (const { name, decision } of explanation.others) {
        const other = askersWith().find(one => one.name === name) ?? {}
        t.same(decision, decide(match, other, options))
      }
    }),
    { numRuns: 1500 }
  )
})

t.test('each candidate says why it lost', async t => {
  const table = await tableOf(t, ...ROUTES)
  const ask = (method: string, target: string) => {
    const { candidates } = explain(
      table,
      { method, target, asker: { name: 'anonymous' } },
      { cloudUnassignedMayPass: false }
    )
    return Object.fromEntries(candidates.map(({ route, why }) => [route.id, why]))
  }
  t.same(ask('DELETE', '/api/7'), {
    'DELETE /api/:id': 'the most specific route for this method',
    'GET /api/:id': 'takes GET, not DELETE',
    '/api/*': '":id" in "DELETE /api/:id" is more specific than "*" here',
    '/*': '"api" in "DELETE /api/:id" is more specific than "*" here'
  })
  t.match(ask('GET', '/api/admin'), {
    '/api/admin/*': /most specific/,
    'GET /api/:id': /"admin" in "\/api\/admin\/\*"/
  })
  t.match(ask('GET', '/auth/me'), { 'GET /auth/me': /most specific/, '/*': /belongs to the gateway/ })
  t.match(ask('GET', '/auth/nothing'), { '/*': /belongs to the gateway/ })
})

t.test('a path that a lax backend would read otherwise is explained by the route it would reach', async t => {
  const table = await tableOf(t, ...ROUTES)
  const asker = { name: 'anonymous' }
  const { decision, words } = explain(
    table,
    { method: 'GET', target: '/API/admin/x', asker },
    { cloudUnassignedMayPass: false }
  )
  t.match(decision, { decision: 400, reason: 'lax-reading' })
  t.match(words, /Read as \/api\/admin\/x it would belong to the route "\/api\/admin\/\*"/)
})

t.test('a refused token counts only where a token is asked for', async t => {
  const table = await tableOf(t, '/open {public: true}', '/any')
  const tokenFault = { code: 'GW_TOKEN_EXPIRED', reason: 'expired' }
  const ask = (target: string) =>
    explain(table, { method: 'GET', target, asker: { name: 'x' }, tokenFault }, { cloudUnassignedMayPass: false })
      .decision
  t.same(ask('/open'), { decision: 'allow', code: undefined, reason: 'public' })
  t.same(ask('/any'), { decision: 401, code: 'GW_TOKEN_EXPIRED', reason: 'expired' })
})

t.test('people are named as they are written in route tests', async t => {
  t.equal(readAsker('anonymous').asker?.user, undefined)
  t.same(readAsker('Agente+Supervisor').asker?.user?.profiles, ['Agente', 'Supervisor'])
  t.same(readAsker('Agente, Supervisor').asker?.user?.profiles, ['Agente', 'Supervisor'])
  t.equal(readAsker('cloud-unassigned').asker?.user?.provider, 'cloudidp')
  t.match(readAsker('Agent').complaint, /did you mean "Agente"/)
  t.match(readAsker('Agente+unassigned').complaint, /cannot be combined/)
  t.match(readAsker('').complaint, /unknown role/)
})

t.test('an Admin can read over HTTP why a request is decided as it is', async t => {
  const world = await startGateway(t, {
    config: {
      upstreams: { up: { url: 'http://127.0.0.1:1' } },
      routes: [
        { path: '/api/*', upstream: 'up', roles: ['Agente'] },
        { path: '/api/:id', methods: ['DELETE'], upstream: 'up', roles: ['Admin'] }
      ]
    }
  })
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const ask = (query: string, as = token) => world.fetch(`/auth/admin/explain?${query}`, { token: as })
  const answer = await ask('method=DELETE&path=/api/%2537&as=Agente')
  t.equal(answer.status, 200)
  t.match(await answer.json(), {
    path: '/api/7',
    as: 'Agente',
    decision: 403,
    code: 'GW_FORBIDDEN',
    reason: 'role-missing',
    route: 'DELETE /api/:id',
    place: /routes\.yaml:\d+:\d+$/,
    candidates: [{ chosen: true }, { id: '/api/*', chosen: false, why: /more specific/ }],
    everybody: { anonymous: '401', Agente: '403', Admin: 'allow' }
  })
  t.match(await (await ask('method=GET&path=/none')).json(), { decision: 401, code: 'GW_UNAUTHENTICATED', route: '' })
  t.match(await (await ask('method=GET&path=/api/1&as=Agente+Admin')).json(), {
    decision: 'allow',
    forwarded: '/api/1'
  })
  for (const bad of [
    'method=get&path=/',
    'method=GET&path=x',
    'method=GET',
    'method=GET&path=/&as=Nobody',
    'method=GET&path=https://a_b:x/',
    'method=GET&path=/&x=1'
  ]) {
    t.equal((await ask(bad)).status, 400, bad)
  }
  t.equal((await ask('method=GET&path=/', await world.tokenFor())).status, 403)
})

// RV-34
t.test('a wider route that names TRACE decides beside a narrower one for the usual methods', async t => {
  const table = await tableOf(t, '/a/* {methods: [TRACE], roles: [Admin]}', '/a/x {}', '/b {}')
  const { candidates, decision } = explain(
    table,
    { method: 'TRACE', target: '/a/x', asker: askersWith().find(({ name }) => name === 'Admin') ?? { name: '' } },
    { cloudUnassignedMayPass: false }
  )
  t.equal(decision.decision, 'allow')
  t.match(candidates, [
    { route: { path: '/a/*' }, chosen: true },
    { route: { path: '/a/x' }, why: 'takes TRACE only if its methods name it' }
  ])
  t.match(table.match('TRACE', '/b'), { refusal: 'method', allowed: ['DELETE', 'GET', 'HEAD', 'OPTIONS'] })
})
