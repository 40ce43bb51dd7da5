// Only Admins administer: they see people, the access matrix and what groups give, change access, and do not overwrite each other.
import t from 'tap'
import type { AdminParts } from '../../gateway/admin/admin-parts.ts'
import { auditEndpoints } from '../../gateway/admin/audit-routes.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { startGateway } from '../support/gateway.ts'
import { adminCall, jsonRequest } from '../support/login.ts'
import { only } from '../support/only.ts'
import { longestTurn } from '../support/own-time.ts'
import { countLockWaits, startPostgres } from '../support/postgres.ts'
import { actor, openClient, openStore, person, UNASKED_DIRECTORY } from '../support/store.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const config = {
  upstreams: { chat: { url: 'http://127.0.0.1:9' } },
  routes: [
    { path: '/any', upstream: 'chat' },
    { path: '/socket.io/*', upstream: 'chat', socketio: { namespaces: { '/': {}, '/m': { roles: ['Agente'] } } } }
  ]
}

const postgres = await startPostgres(t)
const world = await startGateway(t, { postgres, config, env: UNASKED_DIRECTORY })
const { database } = await openStore(t, postgres, postgres.url)
const users = createUsers(database)
const adminToken = await world.tokenFor({ id: 900_002, username: 'root', profiles: ['Admin'] })

const call = adminCall(world, adminToken)

const BAD_REQUEST = { status: 400, body: { code: 'GW_BAD_REQUEST' } }
const NOT_FOUND = { status: 404, body: { code: 'GW_NOT_FOUND' } }
const CONFLICT = { status: 409, body: { code: 'GW_CONFLICT' } }

const newPerson = async (name: string, groups: readonly string[] = []) =>
  (await users.syncPerson(person(name, { groups }))).user.id
const carlos = await newPerson('carlos')

t.test('only an Admin administers', async t => {
  // AD-03, AD-05, AD-18
  const paths = words`users users/1 areas profiles routes audit status traffic audit.csv openapi.json nothing`
  for (const profiles of [['Supervisor'], ['Agente'], ['Supervisor', 'Agente'], []]) {
    const call = adminCall(world, await world.tokenFor({ profiles }))
    for (const path of paths) t.match(await call('GET', path), { status: 403, body: { code: 'GW_FORBIDDEN' } })
    const access = { profiles: ['Admin'], areas: [], areaPrincipal: null }
    t.match(await call('PUT', `users/${carlos}/access`, access), { status: 403 })
  }
  t.match(await call('GET', 'nothing'), { status: 404, body: { code: 'GW_NO_ROUTE' } })
})

t.test('a method that an endpoint lacks is 405, with those that it has', async t => {
  for (const [method, path, allow] of [
    ['POST', 'users', 'GET, HEAD'],
    ['DELETE', `users/${carlos}`, 'GET, HEAD'],
    ['GET', `users/${carlos}/access`, 'PUT'],
    ['GET', 'users/access', 'POST'],
    ['PUT', 'clients/7', 'DELETE, GET, HEAD, PATCH'],
    ['QUERY', 'users', 'GET, HEAD'],
    ['PROPFIND', 'users', 'GET, HEAD']
  ] as const) {
    const body = method === 'GET' ? {} : { headers: { 'content-type': 'text/plain' }, body: 'whatever it is' }
    const answer = await world.fetch(`/auth/admin/${path}`, { method, token: adminToken, ...body })
    t.match(await answer.json(), { statusCode: 405, code: 'GW_METHOD_NOT_ALLOWED' }, `${method} ${path}`)
    t.equal(answer.headers.get('allow'), allow)
  }
})

t.test('people are listed in a stable order, paged, searched, the unassigned easy to find', async t => {
  // AD-11
  for (const name of ['maria', 'bia', 'a+b', 'josé']) await newPerson(name)
  const all = await call('GET', 'users')
  t.match(all.body, { page: 1, pageSize: 50, total: 5 })
  t.equal(all.body.items.length, 5)
  t.match(all.body.items[0], { accessStatus: 'unassigned', disabled: false, lastLoginAt: /^\d{4}-\d\d-\d\dT/ })
  const page = { page: 2, pageSize: 2, total: 5, items: [all.body.items[2], all.body.items[3]] }
  t.match((await call('GET', 'users?pageSize=2&page=2')).body, page)
  t.match((await call('GET', 'users?search=MARIA')).body.items, [{ username: 'maria' }])
  t.equal((await call('GET', 'users?accessStatus=unassigned')).body.total, 5)
  for (const query of words`
    pageSize=201 pageSize=0 page=-1 page=x sort=password accessStatus=any search=a&search=b
  `)
    t.match(await call('GET', `users?${query}`), BAD_REQUEST, query)
  const { message } = (await call('GET', 'audit?limit=5')).body
  t.match(message, / besides user, action, since, until, page, pageSize$/, 'the names that are known')
})

t.test('access is given by name, strictly, and on record', async t => {
  // AD-04, AD-08
  await call('POST', 'areas', { name: 'Geral' })
  t.match(await call('POST', 'areas', { name: 'Sul' }), { status: 201, body: { id: Number, name: 'Sul' } })
  t.match(await call('POST', 'areas', { name: 'sul' }), CONFLICT)
  t.match((await call('POST', 'areas', { name: 'sul' })).body.message, /already an area of this name/)
  t.match((await call('POST', 'areas', { name: 'x'.repeat(65) })).body.message, /name must have 1 to 64 characters/)
  const good = { profiles: ['Supervisor'], areas: ['Geral', 'Sul'], areaPrincipal: 'Sul' }
  t.match(await call('PUT', `users/${carlos}/access`, good), {
    status: 200,
    body: { profiles: only('Supervisor'), perfis: only('Supervisor'), areaPrincipal: 'Sul', accessStatus: 'assigned' }
  })
  for (const body of [
    { ...good, profiles: ['Root'] },
    { ...good, profiles: ['Agente', 'Agente'] },
    { ...good, areas: ['Geral', 'Sul', 'Norte'] },
    { ...good, isAdmin: true },
    { ...good, profiles: 'Admin' },
    { ...good, profiles: [1] },
    { profiles: [], areas: [] },
    { ...good, __proto__x: 1 }
  ])
    t.match(await call('PUT', `users/${carlos}/access`, body), BAD_REQUEST)
  for (const [body, message] of [
    [{ ...good, areaPrincipal: 'Geral ' }, 'areaPrincipal must be one of areas'],
    [{ ...good, areaPrincipal: null }, 'areaPrincipal must be one of areas'],
    [{ ...good, areas: [] }, 'areaPrincipal must be null without areas']
  ] as const)
    t.match(await call('PUT', `users/${carlos}/access`, body), { ...BAD_REQUEST, body: { message } }, message)
  for (const id of words`0 x 1e3 999999 2147483648 9999999999 99999999999999 07 +7 7.0 7%20`)
    for (const [method, path, body] of [
      ['GET', ''],
      ['PUT', '/access', good],
      ['POST', '/erase', { username: 'carlos' }],
      ['POST', '/unlock'],
      ['GET', '/sessions']
    ] as const)
      t.match(await call(method, `users/${id}${path}`, body), NOT_FOUND, `${id}${path}`)
  const audit = (await call('GET', `users/${carlos}/audit`)).body
  t.match(audit.items[0], {
    actor: { id: 900_002, username: 'root' },
    target: `user:${carlos}`,
    before: { profiles: only() },
    after: { profiles: only('Supervisor'), areas: only('Geral', 'Sul') },
    requestId: String,
    ip: '127.0.0.1',
    hash: /^[0-9a-f]{64}$/
  })
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
  const login = body.paths['/auth/login'].post
  const access = body.paths['/auth/admin/users/{id}/access'].put
  const names = ['code', 'error', 'message', 'requestId', 'statusCode']
  for (const { responses } of [login, access])
    t.same(Object.keys(responses.default.content['application/json'].schema.properties).sort(), names, 'errors')
  t.equal(login.security, undefined, 'needs no token')
  t.same(access.security, [{ bearer: [] }])
  t.match(access.parameters, [
    { in: 'path', name: 'id' },
    { in: 'header', name: 'if-match', required: false }
  ])
  const callback = body.paths['/auth/oauth/cloudidp/callback'].get
  t.same(callback.parameters.map(({ name }: { name: string }) => name).sort(), ['code', 'error', 'iss', 'state'])
  t.same(Object.keys(callback.responses), ['302', 'default'])
  for (const page of ['login', 'apps', 'account', 'console'])
    t.same(Object.keys(body.paths[`/auth/${page}`].get.responses), ['200', '302', 'default'], 'on a named host')
  const apps = body.paths['/auth/apps'].get.responses[200].content
  t.same([apps['text/html'].schema.type, apps['application/json'].schema.type], ['string', 'object'])
  const token = body.paths['/auth/token'].post
  t.same(Object.keys(token.requestBody.content), ['application/x-www-form-urlencoded'])
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
  const assigned = { path: '/assigned', upstream: 'chat', requireAssigned: true }
  world.writeRoutes({ ...config, routes: [...config.routes, assigned] })
  t.ok(await world.gateway.reload())
  const { items } = (await call('GET', 'routes?pageSize=200')).body
  t.match(
    ['/any', '/assigned'].map(path => items.find((item: { id: string }) => item.id === path).allowed),
    [true, false].map(passes => ({ Agente: true, 'Agente without area': passes }))
  )
})

t.test('a reload gives members of a group what a new grant says, and their earlier tokens are stale', async t => {
  const id = await newPerson('ana', [SUPORTE.toLowerCase()])
  const token = await world.tokenFor({ id, username: 'ana', profiles: ['Agente'] })
  t.equal((await world.fetch('/auth/me', { token })).status, 200)
  const grant = { group: SUPORTE, profiles: ['Agente', 'Finanças'], areas: ['Suporte'] }
  world.writeRoutes({ ...config, profiles: ['Finanças'], grants: [grant] })
  t.ok(await world.gateway.reload())
  await until(async () => (await call('GET', `users/${id}`)).etag === '"1"')
  t.match((await call('GET', `users/${id}`)).body, {
    profiles: only('Agente', 'Finanças'),
    areas: only('Suporte'),
    areaPrincipal: 'Suporte',
    accessStatus: 'assigned',
    assigned: { profiles: only(), areas: only(), areaPrincipal: '' },
    granted: [{ group: SUPORTE, profiles: only('Agente', 'Finanças'), areas: only('Suporte') }],
    groupsCutOff: false
  })
  await until(async () => (await world.fetch('/auth/me', { token })).status === 401)
  t.match((await call('GET', 'users?search=ana')).body.items, [{ granted: [{ group: SUPORTE }] }])
  t.match((await call('GET', `users/${id}/audit`)).body.items, [
    { action: 'access.granted', actor: { username: 'grants' } }
  ])
})

t.test('grants are listed with the number of people in each group, and further profiles can be assigned', async t => {
  t.match((await call('GET', 'grants')).body, {
    items: [{ group: SUPORTE, provider: 'ldap', tenant: '', people: 1, place: /routes\.yaml:\d+:\d+$/ }],
    total: 1,
    peopleCutOff: 0
  })
  const names = (await call('GET', 'profiles')).body.items.map((item: { name: string }) => item.name)
  t.same(names, ['Admin', 'Supervisor', 'Agente', 'Finanças'])
  const { body: page } = await call('GET', 'profiles?page=2&pageSize=3')
  t.match(page, { items: [{ name: 'Finanças' }], page: 2, pageSize: 3, total: 4 })
  t.match(await call('GET', 'profiles?pageSize=201'), BAD_REQUEST)
  const id = await newPerson('rui')
  const access = { profiles: ['Finanças'], areas: ['Suporte'], areaPrincipal: 'Suporte' }
  t.match(await call('PUT', `users/${id}/access`, access), { status: 200, body: { assigned: access, granted: only() } })
  // As some editors and file systems write it.
  const decomposed = ['Finanças'.normalize('NFD')]
  t.match(await call('PUT', `users/${id}/access`, { ...access, profiles: decomposed }), { body: { assigned: access } })
  const token = await world.tokenFor({ id, username: 'rui' }, { ver: 2, auth_time: Math.floor(Date.now() / 1000) })
  const wish = { name: 'x', profiles: decomposed, expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  t.match(await world.json('/auth/tokens', jsonRequest('POST', token, wish)), { profiles: only('Finanças') })
  const twice = { ...access, profiles: [...decomposed, 'Finanças'] }
  t.match(await call('PUT', `users/${id}/access`, twice), BAD_REQUEST)
  const removed = await call('POST', 'users/access', { ids: [id], profiles: { remove: decomposed } })
  t.match(removed, { status: 200, body: { changed: 1, failed: only() } })
})

t.test('a person with more than ten profiles can be edited like any other', async t => {
  const id = await newPerson('muitos')
  const profiles = Array.from({ length: 12 }, (_, i) => `Perfil ${i}`)
  await database.write(manager => manager.query('INSERT INTO profiles (name) SELECT unnest($1::text[])', [profiles]))
  const access = { profiles, areas: ['Suporte'], areaPrincipal: 'Suporte' }
  await users.setAccess(actor, id, access)
  const fewer = { ...access, profiles: profiles.slice(1) }
  t.match(await call('PUT', `users/${id}/access`, fewer), { status: 200, body: { accessStatus: 'assigned' } })
  t.same((await call('GET', `users/${id}`)).body.profiles.toSorted(), fewer.profiles.toSorted())
})

t.test('a profile that no file names any more is kept, but given neither to people nor to programs', async t => {
  const id = await newPerson('tarde')
  const former = { profiles: ['Perfil 1'], areas: ['Suporte'], areaPrincipal: 'Suporte' }
  t.match(await call('PUT', `users/${id}/access`, former), BAD_REQUEST)
  t.match(await call('POST', 'clients', { ...former, name: 'former' }), BAD_REQUEST)
  const { body: client } = await call('POST', 'clients', { ...former, profiles: ['Agente'], name: 'former' })
  t.match(await call('PATCH', `clients/${client.id}`, { profiles: ['Agente', 'Perfil 1'] }), BAD_REQUEST)
  await database.write(manager =>
    manager.query(
      "INSERT INTO user_profiles (user_id, profile_id) SELECT $1, id FROM profiles WHERE name = 'Perfil 1'",
      [client.id]
    )
  )
  t.equal((await call('PATCH', `clients/${client.id}`, { name: 'kept' })).status, 200)
})

t.test('an area that a grant names is neither renamed nor deleted', async t => {
  const { items } = (await call('GET', 'areas')).body
  const { id } = items.find((area: { name: string }) => area.name === 'Suporte')
  t.match(await call('PATCH', `areas/${id}`, { name: 'Other' }), CONFLICT)
  t.match(await call('DELETE', `areas/${id}`), CONFLICT)
})

// AD-19
t.test('of two Admins who edit one person, the one who saw an older state is refused', async t => {
  const id = await newPerson('eva')
  const { etag } = await call('GET', `users/${id}`)
  const agente = { profiles: ['Agente'], areas: [], areaPrincipal: null }
  const late = { ...agente, profiles: ['Supervisor'] }
  const put = (access: object, ifMatch?: string | null) =>
    call('PUT', `users/${id}/access`, access, ifMatch ? { 'if-match': ifMatch } : {})
  const first = await put(agente, etag)
  t.match(first, { status: 200, etag: '"1"' })
  t.match(await put(late, etag), CONFLICT)
  t.same((await call('GET', `users/${id}`)).body.profiles, ['Agente'])
  for (const [access, ifMatch] of [[late, `"7", ${first.etag}`], [agente, '*'], [late]] as const)
    t.equal((await put(access, ifMatch)).status, 200, ifMatch ?? 'without')
})

t.test('an ETag that a compressing proxy has changed still names the version', async t => {
  const id = await newPerson('iris')
  const access = { profiles: ['Agente'], areas: [], areaPrincipal: null }
  const put = async (ifMatch: string) =>
    (await call('PUT', `users/${id}/access`, access, { 'if-match': ifMatch })).status
  const { etag } = await call('GET', `users/${id}`)
  const version = Number(etag?.slice(1, -1))
  const next = version + 1
  t.equal(await put(`W/"${version}"`), 200)
  t.equal(await put(`W/"${version}"`), 409, 'an earlier version')
  t.equal(await put(`"${next}-gzip"`), 200)
  for (const tag of [`${next}`, `W/"${next}`, `"x${next}"`, `"${next}x"`, `"${version}-gzip"`, '""'])
    t.equal(await put(tag), 409, tag)
})

// AD-04, AD-06, AD-20
t.test('many people are changed by one request, each checked and recorded by themselves', async t => {
  await call('POST', 'areas', { name: 'Norte' })
  const ids: number[] = []
  for (let n = 0; n < 120; n++) ids.push(await newPerson(`bulk${n}`))
  const [first = 0, second = 0] = ids
  const norte = { profiles: ['Supervisor'], areas: ['Norte'], areaPrincipal: 'Norte' }
  await call('PUT', `users/${first}/access`, norte)
  const change = { ids: [...ids, 999_999], profiles: { add: ['Supervisor'] }, areas: { add: ['Norte'] } }
  t.match(await call('POST', 'users/access', change), {
    status: 200,
    body: { changed: 119, failed: [{ id: 999_999, code: 'GW_NOT_FOUND' }] }
  })
  t.match((await call('GET', `users/${second}`)).body, { assigned: norte, accessStatus: 'assigned' })
  t.equal((await call('GET', `users/${second}/audit`)).body.items[0].action, 'access.set')
  const taken = await call('POST', 'users/access', { ids: [first, second], areas: { remove: ['Norte'] } })
  t.match(taken, { body: { changed: 2, failed: [] } })
  t.match((await call('GET', `users/${first}`)).body, { areas: only(), areaPrincipal: '', accessStatus: 'unassigned' })
  t.match(await call('POST', 'users/access', { ids: [first], areaPrincipal: 'Norte' }), {
    body: { changed: 0, failed: [{ id: first, code: 'GW_BAD_REQUEST' }] }
  })
  await call('PUT', `users/${first}/access`, { ...norte, profiles: ['Admin'] })
  t.match(await call('POST', 'users/access', { ids: [first, second], profiles: { remove: ['Admin', 'Supervisor'] } }), {
    body: { changed: 1, failed: [{ id: first, code: 'GW_LAST_ADMIN' }] }
  })
})

t.test('what is wrong for everybody is refused as a whole', async t => {
  const id = await newPerson('zoe')
  for (const bad of [
    {},
    { ids: [] },
    { ids: [id, id] },
    { ids: ['1'] },
    { ids: Array.from({ length: 501 }, (_, n) => n + 1) },
    { ids: [id], profile: {} },
    { ids: [id], profiles: { add: ['Chefe'] } },
    { ids: [id], areas: { add: ['Nenhuma'] } },
    { ids: [id], areaPrincipal: 'Nenhuma' },
    { ids: [id], profiles: { add: ['Agente'], remove: ['Agente'] } }
  ])
    t.match(await call('POST', 'users/access', bad), BAD_REQUEST, JSON.stringify(bad).slice(0, 80))
})

// AD-11, AD-12
t.test('a search takes words over several fields, without case and accents; disabled people have a filter', async t => {
  await users.syncPerson(person('jconceicao', { name: 'João Conceição', email: 'joao@corp.example' }))
  const lech = await users.syncPerson(person('lech', { name: 'Łukasz Żółć', email: 'lech@corp.example' }))
  await users.syncPerson(person('odos', { name: 'Οδός Αθηνάς' }))
  await users.syncPerson(person('100%', { name: "a_b\\ o'brien; DROP TABLE users" }))
  t.equal((await call('POST', `users/${lech.user.id}/disable`)).status, 204)
  for (const [search, more, ...found] of [
    ['joao', '', 'jconceicao'],
    ['JOÃO conceicao', '', 'jconceicao'],
    ['conceição  jo', '', 'jconceicao'],
    ['corp.example joão', '', 'jconceicao'],
    ['jconceicao João', '', 'jconceicao'],
    ['lukasz zolc', '', 'lech'],
    ['ΟΔΟΣ', '', 'odos'],
    ['αθηνας οδοσ', '', 'odos'],
    ['ς', '', 'odos'],
    ['joao lech', ''],
    ['jo%o', ''],
    ['100%', '', '100%'],
    ['a_b', '', '100%'],
    ['\\', '', '100%'],
    ["'", '', '100%'],
    ['lukasz', '&disabled=true', 'lech'],
    ['lukasz', '&disabled=false'],
    ['', '&disabled=true', 'lech']
  ] as const) {
    const { body } = await call('GET', `users?search=${encodeURIComponent(search)}${more}`)
    const names = body.items.map((item: { username: string }) => item.username)
    t.same(names, found, search + more)
  }
  t.match(await call('GET', 'users?disabled=yes'), BAD_REQUEST)
})

t.test('the audit log names whom it concerns, takes a period, and is exported as a table without formulas', async t => {
  await call('POST', 'areas', { name: 'a;=1+1;"@x";b;c' })
  await call('POST', 'areas', { name: '＝1＋1' })
  const { body: area } = await call('POST', 'areas', { name: '=HYPERLINK("x")' })
  const id = await newPerson('ze')
  const began = new Date().toISOString()
  const access = { profiles: ['Agente'], areas: [area.name], areaPrincipal: area.name }
  t.equal((await call('PUT', `users/${id}/access`, access)).status, 200)
  const { body: page } = await call('GET', `audit?since=${began}`)
  t.equal(page.total, 1)
  t.match(page.items[0], { action: 'access.set', target: `user:${id}`, targetName: 'ZE', actor: { username: 'root' } })
  const { body: earlier } = await call('GET', `audit?until=${began}&action=area.create`)
  t.match(earlier.items[0], { target: `area:${area.id}`, targetName: area.name })
  for (const time of words`2026-02-30T25:00:00Z 2026-02-30 2027 01/02/2027 1780000000000 2026-01-01T00:00:00`)
    t.match(await call('GET', `audit?since=${time}`), BAD_REQUEST, time)
  t.equal((await call('GET', 'audit?since=2026-01-01&until=2026-01-02')).status, 200)

  const since = new Date(Date.parse(began) - 60_000).toISOString()
  const answer = await world.fetch(`/auth/admin/audit.csv?since=${since}`, { token: adminToken })
  t.match(Object.fromEntries(answer.headers), {
    'content-type': /^text\/csv; charset=utf-8/,
    'content-disposition': /^attachment; filename="portaria-audit\.csv"$/,
    'cache-control': 'no-store'
  })
  const lines = Buffer.from(await answer.arrayBuffer())
    .toString()
    .split('\r\n')
  t.equal(lines[0], '\ufeffat,actorId,actor,action,target,targetName,before,after,ip,requestId,hash')
  const formula = `area.create,area:${area.id},"'=HYPERLINK(""x"")"`
  t.ok(
    lines.some(line => line.includes(formula)),
    'no formula is left'
  )
  t.ok(
    lines.some(line => line.includes(`,"a;'=1+1;'""@x"";b;c",`)),
    'nor one where a semicolon begins a cell'
  )
  t.ok(
    lines.some(line => line.includes(`,"'＝1＋1",`)),
    'nor one in full width'
  )
  t.equal(lines.at(-1), '')
  t.match(await call('GET', 'audit.csv?page=2'), BAD_REQUEST)
})

t.test('the audit log is exported as its largest table without a delay of requests', async t => {
  const { body } = await call('GET', 'audit')
  const items = Array.from({ length: 50_000 }, () => body.items[0])
  const parts = { audit: { collect: async () => items } } as unknown as AdminParts
  const table = auditEndpoints(parts)['GET /auth/admin/audit.csv']
  const reply = { headers: () => undefined }
  let text: unknown
  const longest = await longestTurn(async () => {
    text = await table?.run({ query: {}, reply } as never)
  })
  t.ok(longest < 0.5, `the longest turn took ${longest} of the time`)
  t.equal(String(text).split('\r\n').length, 50_002)
})

t.test('people see their access of today, and where each part of it comes from', async t => {
  const id = (await call('GET', 'users?search=ana')).body.items[0].id as number
  const assigned = { profiles: ['Supervisor'], areas: ['Suporte'], areaPrincipal: 'Suporte' }
  t.equal((await call('PUT', `users/${id}/access`, assigned)).status, 200)
  const token = await world.tokenFor({ id, username: 'ana' }, { ver: 100 })
  const own = await world.fetch('/auth/account/access', { token })
  t.equal(own.status, 200)
  t.strictSame(await own.json(), {
    profiles: ['Supervisor', 'Agente', 'Finanças'],
    areas: ['Suporte'],
    areaPrincipal: 'Suporte',
    accessStatus: 'assigned',
    assigned,
    granted: [{ group: SUPORTE, profiles: ['Agente', 'Finanças'], areas: ['Suporte'] }],
    groupsUnreadable: false,
    groupsCutOff: false
  })
  t.equal((await world.fetch('/auth/account/access')).status, 401)
})

t.test('changes that waited while their Admin lost that right are refused, others are not', async t => {
  const assigned = { profiles: ['Admin'], areas: [], areaPrincipal: null }
  const nothing = { ...assigned, profiles: [] }
  const [kept, lost, revoked] = [await newPerson('kept'), await newPerson('lost'), await newPerson('revoked')]
  const calls = await Promise.all(
    [kept, lost, revoked].map(async id => {
      await call('PUT', `users/${id}/access`, assigned)
      return adminCall(world, await world.tokenFor({ id, profiles: ['Admin'] }, { ver: 1 }))
    })
  )
  const [byKept = call, byLost = call, byRevoked = call] = calls
  const holder = await openClient(t, postgres.url)
  await holder.query('BEGIN; SELECT pg_advisory_xact_lock(7263544002)')
  let count = 0
  /** In the order in which they wait. */
  const queue = async <T>(asked: Promise<T>) => {
    count += 1
    await until(async () => (await countLockWaits(postgres, postgres.url)) === count)
    return { asked }
  }
  const first = [
    await queue(call('PUT', `users/${lost}/access`, nothing)),
    await queue(call('POST', `users/${revoked}/revoke`))
  ]
  const late = await queue(byLost('PUT', `users/${lost}/access`, assigned))
  const ended = await queue(byRevoked('POST', `users/${kept}/disable`))
  const many = await queue(byLost('POST', 'users/access', { ids: [lost], profiles: { add: ['Admin'] } }))
  const good = await queue(byKept('PUT', `users/${kept}/access`, { ...assigned, profiles: ['Admin', 'Agente'] }))
  await holder.query('COMMIT')
  for (const { asked } of first) t.ok((await asked).status < 300)
  for (const { asked } of [late, ended]) t.match(await asked, { status: 401, body: { code: 'GW_TOKEN_STALE' } })
  t.match(await many.asked, { body: { changed: 0, failed: [{ id: lost, code: 'GW_TOKEN_STALE' }] } })
  t.equal((await good.asked).status, 200)
})
