// An explanation says in words why a request is decided as it is; that it says what is decided, test/fuzz/decisions.test.ts asks.
import t from 'tap'
import type { AdminParts } from '../../gateway/admin/admin-parts.ts'
import { matrixEndpoints } from '../../gateway/admin/matrix-routes.ts'
import { distinguishedBy } from '../../gateway/explain/access-matrix.ts'
import { askersWith, readAsker } from '../../gateway/explain/askers.ts'
import { explain } from '../../gateway/explain/explain.ts'
import { PROFILES } from '../../gateway/identity.ts'
import { atOnce } from '../../gateway/values/in-parts.ts'
import { startGateway } from '../support/gateway.ts'
import { longestTurn } from '../support/own-time.ts'
import { tableOf } from '../support/route-files.ts'
import { words } from '../support/words.ts'

const OPTIONS = { cloudUnassignedMayPass: false }
const ROUTES = [
  '/* {public: true}',
  '/api/* {roles: [Agente, Supervisor]}',
  '/api/:id {methods: [GET]}',
  '/api/:id {methods: [DELETE], roles: [Admin]}',
  '/api/admin/* {roles: [Admin]}'
]

t.test('each candidate says why it lost', async t => {
  const table = await tableOf(t, ...ROUTES)
  const ask = (method: string, target: string) => {
    const { candidates } = explain(table, { method, target, asker: { name: 'anonymous' } }, OPTIONS)
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
  const { decision, words } = explain(table, { method: 'GET', target: '/API/admin/x', asker }, OPTIONS)
  t.match(decision, { decision: 400, reason: 'lax-reading' })
  t.match(words, /Read as \/api\/admin\/x it would belong to the route "\/api\/admin\/\*"/)
})

t.test('a refused token counts only where a token is asked for', async t => {
  const table = await tableOf(t, '/open {public: true}', '/any')
  const tokenFault = { code: 'GW_TOKEN_EXPIRED', reason: 'expired' }
  const ask = (target: string) =>
    explain(table, { method: 'GET', target, asker: { name: 'x' }, tokenFault }, OPTIONS).decision
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
  for (const bad of words`
    method=get&path=/ method=GET&path=x method=GET method=GET&path=/&as=Nobody method=GET&path=https://a_b:x/
    method=GET&path=/&x=1
  `)
    t.equal((await ask(bad)).status, 400, bad)
  t.equal((await ask('method=GET&path=/', await world.tokenFor())).status, 403)
})

// RV-34
t.test('a wider route that names TRACE decides beside a narrower one for the usual methods', async t => {
  const table = await tableOf(t, '/a/* {methods: [TRACE], roles: [Admin]}', '/a/x {}', '/b {}')
  const { candidates, decision } = explain(
    table,
    { method: 'TRACE', target: '/a/x', asker: askersWith().find(({ name }) => name === 'Admin') ?? { name: '' } },
    OPTIONS
  )
  t.equal(decision.decision, 'allow')
  t.match(candidates, [
    { route: { path: '/a/*' }, chosen: true },
    { route: { path: '/a/x' }, why: 'takes TRACE only if its methods name it' }
  ])
  t.match(table.match('TRACE', '/b'), { refusal: 'method', routes: [{ path: '/b' }] })
})

t.test('a profile whose name is a number is compared with itself in the matrix', async t => {
  const profiles = [...PROFILES, '2024']
  const { routes } = await tableOf(t, '/x {roles: [Admin]}')
  const ofFiles = routes.filter(({ upstream }) => upstream !== undefined)
  const names = atOnce(distinguishedBy(ofFiles, OPTIONS, profiles)).map(({ name }) => name)
  t.same(names.slice(3), ['Agente', 'Supervisor', 'Admin', '2024'])
})

/** The endpoint of the access matrix, for this table. */
const matrixOf = (table: unknown) =>
  matrixEndpoints({ routes: () => table, cloudUnassignedMayPass: false } as unknown as AdminParts)[
    'GET /auth/admin/routes'
  ]

t.test('the matrix of thousands of routes is worked out once, in turns, for all of its pages', async t => {
  const one = await tableOf(t, '/api/* {roles: [Agente], from: [10.0.0.0/8]}')
  const table = { ...one, routes: Array.from({ length: 20_000 }, () => one.routes.at(-1)) }
  const list = matrixOf(table)
  let turns = 0
  let next = setImmediate(function turn() {
    turns += 1
    next = setImmediate(turn)
  })
  const took = async (pages: readonly number[]) => {
    const before = process.threadCpuUsage().user
    for (const page of pages) t.match(await list?.run({ paging: { page, pageSize: 200 } } as never), { total: 20_000 })
    return process.threadCpuUsage().user - before
  }
  const alike = Array.from({ length: 20_000 }, () => one.routes.filter(({ from }) => from !== undefined)).flat()
  t.ok([...distinguishedBy(alike, OPTIONS, PROFILES)].length > 600, 'it says in turns, too, whom to show')
  const first = await took([1])
  clearImmediate(next)
  t.ok(turns > 3, `the event loop turned ${turns} times`)
  t.ok((await took([2, 3, 4, 5])) < first)
})

t.test('the matrix of thousands of profiles delays no request', async t => {
  const one = await tableOf(t, '/api/* {roles: [Agente]}')
  const routes = Array.from({ length: 64 }, () => one.routes.at(-1))
  const profiles = [...PROFILES, ...Array.from({ length: 3000 }, (_, i) => `p${i}`)]
  const table = { ...one, routes, profiles }
  const list = matrixOf(table)
  const longest = await longestTurn(async () => list?.run({ paging: { page: 1, pageSize: 1 } } as never))
  t.ok(longest < 0.5, `the longest turn took ${longest} of the time`)
})
