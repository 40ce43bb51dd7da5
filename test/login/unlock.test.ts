// An account that the throttle holds back is freed at once by an Admin or from the command line, under all its names.
// RW-15, RL-08
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)
const env = {
  ...ldap.env,
  LDAP_USER_DN_TEMPLATE: '',
  LDAP_BIND_DN: ldap.admin.dn,
  LDAP_BIND_PASSWORD: ldap.admin.password,
  LDAP_SEARCH_FILTER: '(|(uid={{username}})(mail={{username}}))',
  LDAP_LOCKOUT_THRESHOLD: '5',
  LOGIN_FAILURES_PER_IP: '6',
  BOOTSTRAP_ADMINS: 'ldap:ana',
  TRUST_PROXY: '127.0.0.1'
}

t.test('unlock frees an account under all its names, and is on record', async t => {
  const world = await startGateway(t, { postgres, env })
  const login = async (username: string, password: string, from: string) => {
    const answer = await postLogin(world, username, { password, headers: { 'x-forwarded-for': from } })
    return { status: answer.status, body: (await answer.json()) as { token?: string; user?: { id: number } } }
  }
  const ana = await login('ana', SAMPLE_PASSWORD, '192.0.2.1')
  const maria = await login('maria', SAMPLE_PASSWORD, '192.0.2.2')
  const id = maria.body.user?.id ?? 0
  const exhaust = async (from: string) => {
    const statuses = []
    for (const [n, name] of ['maria', 'maria@corp.example', 'MARIA', 'maria'].entries())
      statuses.push((await login(name, `errada ${from} ${n}`, `${from}.${n}`)).status)
    return statuses
  }
  t.same(await exhaust('203.0.113'), [401, 401, 429, 429])
  t.equal((await login('maria', SAMPLE_PASSWORD, '203.0.113.9')).status, 429)
  const path = `/auth/admin/users/${id}/unlock`
  t.equal((await world.fetch(path, { method: 'POST', token: maria.body.token })).status, 403)
  t.equal((await world.fetch('/auth/admin/users/99999/unlock', { method: 'POST', token: ana.body.token })).status, 404)
  t.equal((await world.fetch(path, { method: 'POST', token: ana.body.token })).status, 204)
  t.equal((await login('maria@corp.example', SAMPLE_PASSWORD, '203.0.113.9')).status, 200, 'at once')

  t.same(await exhaust('198.51.100'), [401, 401, 429, 429])
  const unlocked = await portaria(['unlock', 'ldap:maria', '--json'], { env: { DATABASE_URL: postgres.url } })
  t.equal(unlocked.code, 0, unlocked.stderr)
  t.match(unlocked.json(), {
    id,
    username: 'maria',
    logins: only('maria', 'maria@corp.example'),
    freed: 2,
    heldAddresses: []
  })
  const again = await startGateway(t, { postgres, env })
  const answer = await postLogin(again, 'maria', { headers: { 'x-forwarded-for': '198.51.100.77' } })
  t.equal(answer.status, 200)
  const rows = await postgres.query("SELECT actor_username, target FROM audit_events WHERE action = 'person.unlock'")
  t.same(rows, [
    { actor_username: 'ana', target: `user:${id}` },
    { actor_username: 'cli', target: `user:${id}` }
  ])
  t.equal((await portaria(['unlock', 'ninguem'], { env: { DATABASE_URL: postgres.url } })).code, 2)
})

t.test('a changed search base makes no one new; relink repairs by hand what a login cannot', async t => {
  // RW-20
  const byDn = { ...ldap.env, LDAP_SEARCH_BASE: '', LDAP_SEARCH_FILTER: '' }
  const own = await startPostgres(t)
  const logIn = async (env: Record<string, string>, username: string) => {
    const world = await startGateway(t, { postgres: own, env })
    const answer = await postLogin(world, username)
    const { user } = (await answer.json()) as { user: { id: number; profiles: string[]; username: string } }
    await world.gateway.close()
    return { ...user, log: world.logText() }
  }
  const before = await logIn({ ...byDn, BOOTSTRAP_ADMINS: 'ldap:maria' }, 'maria')
  const after = await logIn(env, 'maria@corp.example')
  t.match(after, { id: before.id, profiles: only('Admin'), username: 'maria' })
  const back = await logIn(byDn, 'maria')
  t.not(back.id, before.id, 'without a search the directory does not say who this is')
  t.match(back.log, /"people":1.*linked/s, 'and the start says how many people that concerns')
  const options = { env: { DATABASE_URL: own.url } }
  t.equal((await portaria(['relink', String(back.id), String(before.id)], options)).code, 2, 'it has access')
  const relinked = await portaria(['relink', String(before.id), String(back.id), '--json'], options)
  t.match(relinked.json(), { old: before.id, new: back.id, links: 1 })
  t.match(await logIn(byDn, 'maria'), { id: before.id, profiles: only('Admin') })
  t.equal((await portaria(['relink', 'maria', '2'], options)).code, 2)
})
