// People see where they are logged in, and end what is not theirs any more.
import t from 'tap'
import { startGateway, type World } from '../support/gateway.ts'
import { logIn } from '../support/login.ts'
import { only } from '../support/only.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { ownTimeUntil } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)
const raw = await startRawUpstream(t)
raw.respond(() => OK)
const options = {
  postgres,
  config: { upstreams: { raw: { url: raw.url } }, routes: [{ path: '/any/*', upstream: 'raw' }] },
  env: {
    ...ldap.env,
    BOOTSTRAP_ADMINS: 'ldap:maria'
  }
}
const first = await startGateway(t, options)
const second = await startGateway(t, options)

interface SessionItem {
  id: number
  current: boolean
  provider: string
  createdAt: string
  lastUsedAt: string
  ip: string
  userAgent: string
}

const login = (world: World, username: string, userAgent = 'a browser') =>
  logIn(world, username, { headers: { 'user-agent': userAgent } })

const list = async (world: World, token: string, path = '/auth/sessions') => {
  const answer = await world.fetch(path, { token })
  return {
    status: answer.status,
    body: (await answer.json()) as { items: SessionItem[]; total: number; code?: string }
  }
}

/** Asks until the status is the one awaited; how long that took, ms. */
const felt = (world: World, token: string, status: number): Promise<number> =>
  ownTimeUntil(async () => {
    const answer = await world.fetch('/any/x', { token })
    await answer.body?.cancel()
    return answer.status === status
  }, `${status}`)

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

t.test('a session of somebody else can be neither seen nor ended', async t => {
  // AD-18
  const ana = await login(first, 'ana')
  const carlos = await login(first, 'carlos')
  const [his] = (await list(first, carlos.token)).body.items
  t.equal((await first.fetch(`/auth/sessions/${his?.id}`, { method: 'DELETE', token: ana.token })).status, 404)
  t.equal((await first.fetch('/any/x', { token: carlos.token })).status, 200)
})

t.test('"log out everywhere else" keeps the session that asks', async t => {
  const others = [await login(first, 'a+b'), await login(second, 'a+b')]
  const asking = await login(first, 'a+b')
  t.equal((await first.fetch('/auth/sessions', { method: 'DELETE', token: asking.token })).status, 204)
  for (const { token } of others) t.ok((await felt(second, token, 401)) < 1000)
  t.equal((await second.fetch('/any/x', { token: asking.token })).status, 200)
  t.match((await list(second, asking.token)).body, { total: 1, items: [{ current: true }] })
})

t.test('a logout, and the end of all tokens of a person, end sessions too', async t => {
  const admin = await login(first, 'maria')
  const out = await login(first, 'ana')
  const stays = await login(first, 'ana')
  const before = (await list(first, stays.token)).body.total
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token: out.token })).status, 204)
  t.equal((await list(first, stays.token)).body.total, before - 1)
  const revoke = { method: 'POST', token: admin.token }
  t.equal((await first.fetch(`/auth/admin/users/${stays.user.id}/revoke`, revoke)).status, 204)
  const again = await login(first, 'ana')
  t.match((await list(first, again.token)).body, { total: 1 })
})

t.test('an Admin sees the sessions of a person and ends them all', async t => {
  const admin = await login(first, 'maria')
  const { token, user } = await login(second, 'carlos', 'to be ended')
  const path = `/auth/admin/users/${user.id}/sessions`
  const seen = await list(first, admin.token, path)
  t.ok(seen.body.items.some(({ userAgent }) => userAgent === 'to be ended'))
  t.equal((await list(first, token, path)).status, 403)
  t.equal((await first.fetch(path, { method: 'DELETE', token: admin.token })).status, 204)
  t.ok((await felt(second, token, 401)) < 1000)
  t.match((await list(first, admin.token, path)).body, { total: 0, items: only() })
  t.equal((await list(first, admin.token, '/auth/admin/users/999999/sessions')).status, 404)
})

t.test('a token from before sessions were kept is listed once it is used, and never after it has ended', async t => {
  const { user } = await login(first, 'joão')
  const old = await first.tokenFor({ id: user.id, username: 'joão' }, { auth_time: undefined })
  t.ok((await list(first, old)).body.items.some(({ current, ip }) => current && ip === ''))
  t.equal((await first.fetch('/auth/logout', { method: 'POST', token: old })).status, 204)
  await first.gateway.close()
  t.notOk((await list(second, (await login(second, 'joão')).token)).body.items.some(({ ip }) => ip === ''))
})
