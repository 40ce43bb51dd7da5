// A login on several instances: a change of access is felt everywhere, and people see and end their own sessions.
import t from 'tap'
import type { World } from '../support/gateway.ts'
import { claimsOf, jsonRequest, logIn, refreshLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { SAMPLE_PASSWORD } from '../support/openldap-people.ts'
import { startRedis } from '../support/redis.ts'
import { felt, startTwoInstances } from '../support/two-instances.ts'

const [ldap, redis] = [await startOpenLdap(t), await startRedis(t)]
const { postgres, first, second } = await startTwoInstances(
  t,
  [{ path: '/api/*', roles: ['Agente'] }, { path: '/any/*' }],
  { REDIS_URL: redis.url, ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria' }
)

const admin = (await logIn(first, 'maria')).token
await first.fetch('/auth/admin/areas', jsonRequest('POST', admin, { name: 'Norte' }))

const setAccess = (id: number, profiles: readonly string[], areas: readonly string[] = ['Norte']) =>
  first.fetch(`/auth/admin/users/${id}/access`, jsonRequest('PUT', admin, { profiles, areas, areaPrincipal: areas[0] }))

t.test('a change of access is felt on the other instance within a second, and a refresh brings it', async t => {
  // JW-11, AD-09
  const { token, user } = await logIn(second, 'ana')
  t.equal(user.accessStatus, 'unassigned')
  t.equal((await second.fetch('/api/x', { token })).status, 403)
  t.equal((await second.fetch('/any/x', { token })).status, 200, 'a person without access passes what asks for no role')
  const changed = await setAccess(user.id, ['Agente'])
  t.match(await changed.json(), {
    accessStatus: 'assigned',
    profiles: only('Agente'),
    areaPrincipal: 'Norte',
    disabled: false
  })
  t.ok((await felt(second, '/any/x', token, 401, 'GW_TOKEN_STALE')) < 1000)
  const fresh = await refreshLogin(second, token)
  t.equal((await second.fetch('/api/x', { token: fresh.token })).status, 200)
  t.equal((await first.fetch('/api/x', { token: fresh.token })).status, 200)
  const { jti, exp, ver } = claimsOf(token)
  t.match(claimsOf(fresh.token), { jti, exp, ver: Number(ver) + 1 })
})

t.test('a disabled person is out within a second, and may not log in; enabled again, only new tokens work', async t => {
  // JW-10
  const { token, user } = await logIn(second, 'ana')
  t.equal((await first.fetch(`/auth/admin/users/${user.id}/disable`, jsonRequest('POST', admin))).status, 204)
  t.ok((await felt(second, '/api/x', token, 401, 'GW_TOKEN_REVOKED')) < 1000)
  t.match(await logIn(second, 'ana'), { code: 'GW_LOGIN_FAILED', message: 'Autenticacao falhou' })
  t.equal((await first.fetch(`/auth/admin/users/${user.id}/enable`, jsonRequest('POST', admin))).status, 204)
  t.equal((await second.fetch('/api/x', { token })).status, 401)
  t.equal((await second.fetch('/api/x', { token: (await logIn(second, 'ana')).token })).status, 200)
})

// RW-54
t.test('nobody gets more areas than a token can hold, and a login that would need such a token fails', async t => {
  const { token, user } = await logIn(first, 'o"neil')
  await postgres.query("INSERT INTO areas (name) SELECT 'Departamento ' || i FROM generate_series(1, 500) i")
  const areas = Array.from({ length: 500 }, (_, i) => `Departamento ${i + 1}`)
  const give = (names: string[]) => setAccess(user.id, ['Agente'], names)
  const refused = await give(areas)
  t.match([refused.status, await refused.json()], [400, { message: 'The areas and profiles are too many for a token' }])
  t.equal((await first.fetch('/any/x', { token })).status, 200, 'nothing has changed')
  const most = areas.slice(0, 300)
  t.equal((await give(most)).status, 200)
  const full = (await logIn(first, 'o"neil')).token
  t.equal((await first.fetch('/any/x', { token: full })).status, 200)

  // As grants to groups, or the new name of an area, could make it.
  await postgres.query(`INSERT INTO user_areas SELECT ${user.id}, id FROM areas ON CONFLICT DO NOTHING`)
  t.match(await logIn(first, 'o"neil'), { statusCode: 401, code: 'GW_LOGIN_FAILED' })
  t.match(first.logText(), /"reason":"token-too-long"/)
  t.equal((await first.fetch('/auth/refresh', jsonRequest('POST', full))).status, 401)
  t.equal((await give(areas.slice(0, 450))).status, 200, 'what is too long can be reduced, step by step')
  t.equal((await give(areas)).status, 400)
})

// RW-61
t.test('whose access ends while the body arrives changes nothing any more', async t => {
  const { user } = await logIn(first, 'ana')
  for (const [end, code] of [
    [() => setAccess(user.id, ['Agente']), 'GW_TOKEN_STALE'],
    [() => first.fetch(`/auth/admin/users/${user.id}/revoke`, jsonRequest('POST', admin)), 'GW_TOKEN_REVOKED']
  ] as const) {
    t.equal((await setAccess(user.id, ['Agente', 'Admin'])).status, 200)
    const { token } = await logIn(first, 'ana')
    const name = `Area ${code}`
    const body = JSON.stringify({ name })
    const connection = await first.connect()
    connection.send(
      `POST /auth/admin/areas HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`
    )
    t.equal((await connection.response()).status, 100, 'the head has been checked')
    connection.send(body.slice(0, -1))
    t.ok((await end()).ok)
    connection.send(body.slice(-1))
    const answer = await connection.response()
    t.equal(answer.status, 401)
    t.match(answer.body, code)
    const areas = await (await first.fetch('/auth/admin/areas?pageSize=200', { token: admin })).text()
    t.notOk(areas.includes(name))
    connection.destroy()
  }
})

interface Sessions {
  readonly items: readonly { id: number; current: boolean; lastUsedAt: string; ip: string; userAgent: string }[]
  readonly total: number
}

const login = (world: World, username: string, userAgent = 'a browser') =>
  logIn(world, username, { headers: { 'user-agent': userAgent } })

const list = async (world: World, token: string, path = '/auth/sessions') => {
  const answer = await world.fetch(path, { token })
  return { status: answer.status, body: (await answer.json()) as Sessions }
}

t.test('people see their own live sessions: where and with what each began, and which is theirs now', async t => {
  const laptop = await login(first, 'ana', 'laptop')
  const phone = await login(second, 'ana', 'phone')
  await login(first, 'carlos', 'another person')
  const { status, body } = await list(second, laptop.token)
  t.equal(status, 200)
  t.match(body, { total: 2, page: 1, pageSize: 50 })
  const mine = body.items.find(({ current }) => current)
  t.match(mine, { provider: 'ldap', ip: '127.0.0.1', userAgent: 'laptop' })
  t.match(mine?.lastUsedAt, /T\d\d:\d\d:00\.000Z$/)
  t.equal(body.items.find(({ current }) => !current)?.userAgent, 'phone')
  t.equal((await list(first, phone.token)).body.items.find(({ current }) => current)?.userAgent, 'phone')
})

t.test('a session that a program without User-Agent began names none', async t => {
  const body = JSON.stringify({ username: 'carlos', password: SAMPLE_PASSWORD })
  const answer = await first.raw(
    `POST /auth/login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  )
  const { token } = JSON.parse(answer.body) as { token: string }
  t.equal((await list(first, token)).body.items.find(({ current }) => current)?.userAgent, '')
})

t.test('a session of somebody else can be neither seen nor ended', async t => {
  // AD-18
  const ana = await login(first, 'ana')
  const carlos = await login(first, 'carlos')
  const [his] = (await list(first, carlos.token)).body.items
  t.equal((await first.fetch(`/auth/sessions/${his?.id}`, { method: 'DELETE', token: ana.token })).status, 404)
  t.equal((await first.fetch('/any/x', { token: carlos.token })).status, 200)
})

t.test('a logout, and the end of all tokens of a person, end sessions too', async t => {
  const out = await login(first, 'ana')
  const stays = await login(first, 'ana')
  const before = (await list(first, stays.token)).body.total
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token: out.token })).status, 204)
  t.equal((await list(first, stays.token)).body.total, before - 1)
  const revoke = { method: 'POST', token: admin }
  t.equal((await first.fetch(`/auth/admin/users/${stays.user.id}/revoke`, revoke)).status, 204)
  const again = await login(first, 'ana')
  t.match((await list(first, again.token)).body, { total: 1 })
})

t.test('an Admin sees the sessions of a person and ends them all', async t => {
  const { token, user } = await login(second, 'carlos', 'to be ended')
  const path = `/auth/admin/users/${user.id}/sessions`
  const seen = await list(first, admin, path)
  t.ok(seen.body.items.some(({ userAgent }) => userAgent === 'to be ended'))
  t.equal((await list(first, token, path)).status, 403)
  t.equal((await first.fetch(path, { method: 'DELETE', token: admin })).status, 204)
  t.ok((await felt(second, '/any/x', token, 401)) < 1000)
  t.match((await list(first, admin, path)).body, { total: 0, items: only() })
  t.equal((await list(first, admin, '/auth/admin/users/999999/sessions')).status, 404)
})

t.test('the token of a person who was lost opens nothing of the one who has got its id since', async t => {
  const { token, user } = await login(first, 'ana')
  const [own] = (await list(first, token)).body.items
  const lost = await first.tokenFor({ id: user.id, username: 'lost' }, { ver: 100 })
  for (const [method, path] of [
    ['GET', '/auth/sessions'],
    ['DELETE', '/auth/sessions'],
    ['DELETE', `/auth/sessions/${own?.id}`],
    ['GET', '/auth/tokens'],
    ['DELETE', '/auth/tokens/1'],
    ['GET', '/auth/account/access']
  ] as const) {
    const answer = await first.fetch(path, { method, token: lost })
    t.match([answer.status, await answer.json()], [401, { code: 'GW_UNAUTHENTICATED' }], `${method} ${path}`)
  }
  t.equal((await first.fetch('/any/x', { token })).status, 200)
  await postgres.query("UPDATE users SET created_at = created_at - interval '1 day' WHERE id = $1", [user.id])
  t.equal((await list(first, lost)).status, 200, 'a person who was there before the login has been renamed since')
})

t.test('a token whose sub and ver are beyond the numbers of our tables is accepted like any other', async t => {
  const now = Math.floor(Date.now() / 1000)
  const wish = { name: 'x', profiles: [], expiresAt: new Date(Date.now() + 86_400_000).toISOString() }
  for (const id of [900_002, 2_147_483_648, 1_767_225_600_000]) {
    const token = await first.tokenFor({ id, profiles: ['Admin'] }, { auth_time: now, ver: 2_147_483_648 })
    for (const [method, path, status, body] of [
      ['GET', '/auth/me', 200],
      ['POST', '/auth/refresh', 401],
      ['GET', '/auth/sessions', 200],
      ['DELETE', '/auth/sessions/1', 404],
      ['DELETE', '/auth/sessions', 204],
      ['GET', '/auth/tokens', 200],
      ['POST', '/auth/tokens', 401, wish],
      ['DELETE', '/auth/tokens/1', 404],
      ['GET', '/auth/account/access', 404],
      ['POST', '/auth/admin/areas', 201, { name: `Area of ${id}` }],
      ['POST', '/auth/logout', 204]
    ] as const) {
      const answer = await first.fetch(path, jsonRequest(method, token, body))
      t.equal(answer.status, status, `${method} ${path} as ${id}`)
    }
    await felt(second, '/any/x', token, 401, 'GW_TOKEN_REVOKED')
  }
})

t.test('a token from before sessions were kept is listed once it is used, and never after it has ended', async t => {
  const { user } = await login(first, 'joão')
  const old = await first.tokenFor({ id: user.id, username: 'joão' }, { auth_time: undefined })
  t.ok((await list(first, old)).body.items.some(({ current, ip }) => current && ip === ''))
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token: old })).status, 204)
  await first.gateway.close()
  t.notOk((await list(second, (await login(second, 'joão')).token)).body.items.some(({ ip }) => ip === ''))
})
