// Only Admins administer: people, access, logins on record, and the access matrix.
import t from 'tap'
import { adminCall } from '../support/admin-call.ts'
import { startGateway } from '../support/gateway.ts'
import { logIn, postLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const ldap = await startOpenLdap(t)
const world = await startGateway(t, {
  env: { ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { chat: { url: 'http://127.0.0.1:9' } },
    routes: [
      { path: '/any', upstream: 'chat' },
      { path: '/socket.io/*', upstream: 'chat', socketio: { namespaces: { '/': {}, '/m': { roles: ['Agente'] } } } }
    ]
  }
})

const login = (username: string) => logIn(world, username)

const { token: admin, user: maria } = await login('maria')
const { user: carlos } = await login('carlos')

const call = adminCall(world, admin)

t.test('only an Admin administers', async t => {
  // AD-03, AD-05, AD-18
  const paths = words`users users/1 areas profiles routes audit status traffic audit.csv openapi.json nothing`
  for (const profiles of [['Supervisor'], ['Agente'], ['Supervisor', 'Agente'], []]) {
    const call = adminCall(world, await world.tokenFor({ profiles }))
    for (const path of paths) t.match(await call('GET', path), { status: 403, body: { code: 'GW_FORBIDDEN' } })
    const access = { profiles: ['Admin'], areas: [], areaPrincipal: null }
    t.match(await call('PUT', `users/${carlos.id}/access`, access), { status: 403 })
  }
  t.match(await call('GET', 'nothing'), { status: 404, body: { code: 'GW_NOT_FOUND' } })
})

t.test('people are listed in a stable order, paged, searched, the unassigned easy to find', async t => {
  // AD-11
  for (const name of ['ana', 'a+b', 'joão']) await login(name)
  const all = await call('GET', 'users')
  t.match(all.body, { page: 1, pageSize: 50, total: 5 })
  t.equal(all.body.items.length, 5)
  t.match(all.body.items[0], { accessStatus: 'unassigned', disabled: false, lastLoginAt: /^\d{4}-\d\d-\d\dT/ })
  const page = { page: 2, pageSize: 2, total: 5, items: [all.body.items[2], all.body.items[3]] }
  t.match((await call('GET', 'users?pageSize=2&page=2')).body, page)
  t.match((await call('GET', 'users?search=MARIA')).body.items, [{ username: 'maria' }])
  t.equal((await call('GET', 'users?accessStatus=unassigned')).body.total, 4)
  for (const query of words`
    pageSize=201 pageSize=0 page=-1 page=x sort=password accessStatus=any search=a&search=b
  `)
    t.match(await call('GET', `users?${query}`), { status: 400, body: { code: 'GW_BAD_REQUEST' } }, query)
  const { message } = (await call('GET', 'audit?limit=5')).body
  t.match(message, / besides user, action, since, until, page, pageSize$/, 'the names that are known')
})

t.test('access is given by name, strictly, and on record', async t => {
  // AD-04, AD-08
  t.match(await call('POST', 'areas', { name: 'Sul' }), { status: 201, body: { id: Number, name: 'Sul' } })
  t.match(await call('POST', 'areas', { name: 'sul' }), { status: 409, body: { code: 'GW_CONFLICT' } })
  const good = { profiles: ['Supervisor'], areas: ['Geral', 'Sul'], areaPrincipal: 'Sul' }
  t.match(await call('PUT', `users/${carlos.id}/access`, good), {
    status: 200,
    body: { profiles: only('Supervisor'), perfis: only('Supervisor'), areaPrincipal: 'Sul', accessStatus: 'assigned' }
  })
  for (const body of [
    { ...good, profiles: ['Root'] },
    { ...good, isAdmin: true },
    { ...good, profiles: 'Admin' },
    { ...good, profiles: [1] },
    { profiles: [], areas: [] },
    { ...good, __proto__x: 1 }
  ])
    t.match(await call('PUT', `users/${carlos.id}/access`, body), { status: 400, body: { code: 'GW_BAD_REQUEST' } })
  t.match(await call('PUT', 'users/999999/access', good), { status: 404, body: { code: 'GW_NOT_FOUND' } })
  for (const id of words`0 x 1e3 9999999999 99999999999999 07 +7 7.0 7%20`)
    t.match(await call('GET', `users/${id}`), { status: 404, body: { code: 'GW_NOT_FOUND' } }, id)
  const audit = (await call('GET', `users/${carlos.id}/audit`)).body
  t.match(audit.items[0], {
    actor: { id: maria.id, username: 'maria' },
    target: `user:${carlos.id}`,
    before: { profiles: only() },
    after: { profiles: only('Supervisor'), areas: only('Geral', 'Sul') },
    requestId: String,
    ip: '127.0.0.1',
    hash: /^[0-9a-f]{64}$/
  })
})

t.test('logins, refused ones too, and administration are on record', async t => {
  await postLogin(world, 'carlos', { password: 'wrong' })
  let refused: unknown[] = []
  await until(async () => {
    refused = (await call('GET', 'audit?action=login.failed')).body.items
    return refused.length > 0
  })
  t.match(refused[0], { actor: { id: null, username: 'carlos' }, ip: '127.0.0.1' })
  const { body } = await call('GET', 'audit?pageSize=200')
  const actions = new Set(body.items.map((item: { action: string }) => item.action))
  for (const action of ['login', 'login.failed', 'access.set']) t.ok(actions.has(action), action)
})

// That answers are as described is checked wherever a test reads one: test/support/openapi.ts.
t.test('the API describes itself', async t => {
  const { body } = await call('GET', 'openapi.json')
  t.match(body, { openapi: /^3\.1/, info: { title: 'Portaria' } })
  for (const path of words`
    /health /auth/config /auth/login /auth/me /auth/refresh /auth/logout /auth/admin/users
    /auth/admin/users/{id}/access /auth/admin/areas/{id} /auth/admin/audit /auth/admin/routes /auth/admin/status
    /auth/admin/traffic
  `)
    t.ok(path in body.paths, path)
})

t.test('the access matrix shows who may pass each route, and each Socket.IO namespace only with a token', async t => {
  const { body } = await call('GET', 'routes?pageSize=200')
  t.equal(body.total, body.items.length)
  const nobody = { anonymous: false, 'cloud-unassigned': false, unassigned: false }
  const row = (id: string) => body.items.find((item: { id: string }) => item.id === id)
  for (const [id, roles, allowed] of [
    ['/auth/admin/*', ['Admin'], { ...nobody, Admin: true, Supervisor: false, Agente: false }],
    ['/any', [], { ...nobody, unassigned: true, Admin: true, Supervisor: true, Agente: true }],
    ['/socket.io/* namespace /', [], { ...nobody, unassigned: true, Admin: true, Supervisor: true, Agente: true }],
    ['/socket.io/* namespace /m', ['Agente'], { ...nobody, Admin: false, Supervisor: false, Agente: true }]
  ] as const) {
    t.same(row(id)?.roles, roles, id)
    t.same(row(id)?.allowed, allowed, id)
  }
})
