// An account that the throttle holds back is freed at once by an Admin or from the command line, under all its names.
// RW-15, RL-08, RV-65, RV-67
import { readFileSync } from 'node:fs'
import t from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { adminCall, logIn, postLogin } from '../support/login.ts'
import { only } from '../support/only.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const ldap = await startOpenLdap(t)
const postgres = await startPostgres(t)
/** For commands on a database. */
const cliOn = ({ url }: Pick<TestPostgres, 'url'>) => ({ env: { DATABASE_URL: url, JWT_SECRET: TEST_SECRET } })
const env = {
  ...ldap.serviceEnv,
  LDAP_LOCKOUT_THRESHOLD: '5',
  LOGIN_FAILURES_PER_IP: '6',
  BOOTSTRAP_ADMINS: 'ldap:ana',
  TRUST_PROXY: '127.0.0.1'
}

t.test('unlock frees an account under all its names, and is on record', async t => {
  const world = await startGateway(t, { postgres, env })
  const login = async (username: string, password: string, from: string) => {
    const answer = await postLogin(world, username, { password, from })
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
  const cli = cliOn(postgres)
  const unlocked = await portaria(['unlock', 'ldap:maria', '--json'], cli)
  t.equal(unlocked.code, 0, unlocked.stderr)
  t.match(unlocked.json(), {
    id,
    username: 'maria',
    logins: only('maria', 'maria@corp.example'),
    freed: 2,
    heldAddresses: []
  })
  t.match((await portaria(['unlock', 'Maria@corp.example', '--json'], cli)).json(), { id, username: 'maria', freed: 0 })
  const again = await startGateway(t, { postgres, env })
  t.equal((await postLogin(again, 'maria', { from: '198.51.100.77' })).status, 200)
  const rows = await postgres.query("SELECT actor_username, target FROM audit_events WHERE action = 'person.unlock'")
  t.same(rows, [
    { actor_username: 'ana', target: `user:${id}` },
    { actor_username: 'cli', target: `user:${id}` },
    { actor_username: 'cli', target: `user:${id}` }
  ])
  t.equal((await portaria(['unlock', 'ninguem'], cli)).code, 2)
})

// RV-65, RV-67
t.test('unlock says when the address is what is held back, lists it, and frees it', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env })
  const cli = { env: { DATABASE_URL: own.url, JWT_SECRET: TEST_SECRET, LOGIN_FAILURES_PER_IP: '6' } }
  const login = async (username: string, password?: string) =>
    (await postLogin(world, username, { from: '2001:db8:1:2::7', password })).status
  t.equal(await login('maria'), 200)
  for (let n = 0; n < 20; n++) await login('carlos', 'a velha')
  t.equal(await login('maria'), 200, 'one old password that is repeated holds nobody else back')
  for (let n = 0; n < 5; n++) t.equal(await login(`ninguem${n}`, 'x'), 401)
  t.equal(await login('maria'), 429)

  const address = '2001:db8:1:2::/64'
  const held = { address, provider: 'ldap', failures: 6 }
  const unlocked = await portaria(['unlock', 'maria', '--json'], cli)
  t.match(unlocked.json(), { username: 'maria', freed: 0, heldAddresses: [held] })
  const words = await portaria(['unlock', 'maria'], cli)
  const said = words.stdout.replace(/\s+/g, ' ')
  t.match(said, /maria \(id \d+\) had no failed logins\. The address 2001:db8:1:2::\/64 is held back until/)
  t.equal(await login('maria'), 429)
  t.match((await portaria(['unlock', '--json'], cli)).json(), { accounts: [], addresses: [held] })
  t.match((await portaria(['unlock'], cli)).stdout, /^2001:db8:1:2::\/64 {2}6 failed logins, until 20/)

  const freed = await portaria(['unlock', '2001:db8:1:2:aa::1', '--json'], cli)
  t.same(freed.json(), { address, freed: 6 })
  t.match((await portaria(['unlock', address], cli)).stdout, /had no failed logins/)
  t.equal((await portaria(['unlock'], cli)).stdout, 'No account or address is held back.\n')
  await until(async () => (await login('maria')) === 200, 'within a second')
  const rows = await own.query("SELECT target, details FROM audit_events WHERE action = 'address.unlock' ORDER BY id")
  t.same(rows, [
    { target: `address:${address}`, details: { freed: 6 } },
    { target: `address:${address}`, details: { freed: 0 } }
  ])
})

// RV-65, RV-67
t.test('the admin API lists accounts and addresses that are held back, and frees an address at once', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env })
  const login = (username: string, from: string, password?: string) => postLogin(world, username, { from, password })
  const { token, user } = await logIn(world, 'ana', { from: '192.0.2.1' })
  const { user: maria } = await logIn(world, 'maria', { from: '192.0.2.2' })
  for (let n = 0; n < 2; n++) await login('maria', '203.0.113.1', `errada ${n}`)
  for (let n = 0; n < 4; n++) await login(`ninguem${n}`, '203.0.113.1', 'x')
  const call = adminCall(world, token)
  const admin = (path: string, body?: object) => call(body === undefined ? 'GET' : 'POST', path, body)
  const time = /^20\d\d-.*Z$/
  t.match(await admin('held-back'), {
    status: 200,
    body: {
      items: [
        { kind: 'account', name: 'maria', userId: maria.id, provider: 'ldap', failures: 2, until: time },
        { kind: 'address', name: '203.0.113.1', userId: null, provider: 'ldap', failures: 6, until: time }
      ],
      total: 2
    }
  })
  const [, documented = ''] =
    /```sql\n(SELECT n\.account[\s\S]*?)```/.exec(readFileSync('docs/operate.md', 'utf8')) ?? []
  t.match(await own.query(documented), [
    { username: 'maria', login: 'maria', address: '203.0.113.1', kind: 'failed' },
    { username: 'maria', login: 'maria', address: '203.0.113.1', kind: 'failed' }
  ])
  t.match(await admin('held-back?page=2&pageSize=1'), { body: { items: [{ kind: 'address' }], page: 2, total: 2 } })
  t.equal((await login('ana', '203.0.113.1')).status, 429)
  t.same((await admin('held-back/unlock', { address: '203.0.113.1' })).body, { address: '203.0.113.1', freed: 6 })
  t.equal((await login('ana', '203.0.113.1')).status, 200)
  t.match(await admin('held-back'), { body: { items: [{ kind: 'account', name: 'maria' }] } }, 'it is not freed')
  t.match(await admin('held-back/unlock', { address: 'maria' }), { status: 400, body: { code: 'GW_BAD_REQUEST' } })
  t.match(await admin(`users/${maria.id}/unlock`, {}), { status: 204 })
  t.match(await admin('held-back'), { body: { items: [], total: 0 } })
  t.equal((await admin(`users/${user.id}/unlock`, {})).status, 204)
  const rows = await own.query("SELECT target, details FROM audit_events WHERE action = 'person.unlock' ORDER BY id")
  t.same(rows, [
    { target: `user:${maria.id}`, details: { freed: 2 } },
    { target: `user:${user.id}`, details: { freed: 0 } }
  ])
})

// RV-67
t.test('unlock frees a relinked person who came by mail and by cloud, but not a namesake at the provider', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env })
  const fail = async () => {
    for (let n = 0; n < 2; n++) await postLogin(world, 'maria', { password: `errada ${n}`, from: `203.0.113.${n}` })
  }
  const { token } = await logIn(world, 'ana')
  const { user: maria } = await logIn(world, 'maria@corp.example')
  const [namesake = { id: 0 }] = await own.query(
    "INSERT INTO users (provider, username) VALUES ('cloudidp', 'maria') RETURNING id"
  )
  await own.query(`INSERT INTO provider_links VALUES ('cloudidp', 'https://idp.example', 'm', ${namesake.id})`)
  const call = adminCall(world, token)
  await fail()
  t.match(await call('POST', `users/${namesake.id}/unlock`, {}), { status: 204 })
  t.match(await call('GET', 'held-back'), { body: { total: 1, items: [{ userId: maria.id, failures: 2 }] } })

  // The same is true of one who was relinked, and has logged in at the cloud provider since.
  await own.query(`UPDATE users SET provider = 'cloudidp', username = 'm.silva@idp.example' WHERE id = ${maria.id}`)
  t.match(await call('GET', 'held-back'), { body: { total: 1, items: [{ userId: maria.id, failures: 2 }] } })
  t.match(await call('POST', `users/${maria.id}/unlock`, {}), { status: 204 })
  t.match(await call('GET', 'held-back'), { body: { total: 0 } })
  const { user: carlos } = await logIn(world, 'carlos')
  const relink = ['relink', String(carlos.id), String(maria.id)]
  t.equal((await portaria(relink, cliOn(own))).code, 0)
  await fail()
  t.match(await call('GET', 'held-back'), { body: { total: 1, items: [{ userId: carlos.id, failures: 2 }] } })
  t.match(await call('POST', `users/${carlos.id}/unlock`, {}), { status: 204 })
  t.match(await call('GET', 'held-back'), { body: { total: 0 } }, 'before the first login since then')
  await fail()
  await own.query(`
  INSERT INTO login_addresses VALUES ('maria', '192.0.2.99', ${namesake.id}, now() + interval '1 minute');
  INSERT INTO provider_links VALUES ('ldap', 'ldap', 'namesake', ${namesake.id})`)
  t.match(await call('POST', `users/${carlos.id}/unlock`, {}), { status: 204 })
  const held = { body: { total: 1, items: [{ userId: namesake.id, failures: 2 }] } }
  t.match(await call('GET', 'held-back'), held, 'a login that has been given to somebody else is theirs')
})

// RV-67
t.test('a password that is typed before it is set works as soon as the account is unlocked', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env })
  const dn = await ldap.addPerson({ uid: 'novo', password: 'antiga' })
  t.equal((await postLogin(world, 'novo', { password: 'antiga' })).status, 200)
  t.equal((await postLogin(world, 'novo', { password: 'nova' })).status, 401)
  await ldap.replace(dn, 'userPassword', ['nova'])
  await portaria(['unlock', 'novo'], cliOn(own))
  t.equal((await postLogin(world, 'novo', { password: 'nova' })).status, 200)
})

t.test('unlock frees a login under which no one has logged in yet', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env: { ...env, LDAP_LOCKOUT_WINDOW: '0' } })
  const cli = { env: { ...cliOn(own).env, LDAP_LOCKOUT_WINDOW: '0' } }
  await ldap.addPerson({ uid: 'estreante', password: SAMPLE_PASSWORD })
  for (const n of [1, 2]) await postLogin(world, 'estreante', { password: `errada ${n}`, from: `203.0.113.${n}` })
  t.equal((await postLogin(world, 'estreante')).status, 429)
  for (const name of ['estreante@corp.example', 'CORP\\estreante', 'ldap:estreante@corp.example'])
    t.match(await portaria(['unlock', name], cli), {
      code: 2,
      stderr: /under the login name alone: unlock estreante\n/
    })
  const unlocked = await portaria(['unlock', 'ldap:Estreante', '--json'], cli)
  t.match(unlocked, { code: 0, stderr: '' })
  t.same(unlocked.json(), { login: 'Estreante', freed: 2 })
  await until(async () => (await postLogin(world, 'estreante')).status === 200, 'within a second')
  t.equal((await portaria(['unlock', 'ninguem'], cli)).code, 2)
  const rows = await own.query("SELECT target, details FROM audit_events WHERE action = 'person.unlock'")
  t.same(rows, [{ target: 'user:unknown', details: { freed: 2 } }])
})

t.test('a changed search base makes no one new; relink repairs by hand what a login cannot', async t => {
  // RW-20
  const byDn = { ...ldap.env, LDAP_SEARCH_BASE: '', LDAP_SEARCH_FILTER: '' }
  const own = await startPostgres(t)
  const logInWith = async (env: Record<string, string>, username: string) => {
    const world = await startGateway(t, { postgres: own, env })
    const { user } = await logIn(world, username)
    await world.gateway.close()
    return { ...user, log: world.logText() }
  }
  const before = await logInWith({ ...byDn, BOOTSTRAP_ADMINS: 'ldap:maria' }, 'maria')
  const after = await logInWith({ ...env, LOG_LEVEL: 'info' }, 'maria@corp.example')
  t.match(after.log, /"people":1,"reason":"links-by-login"/)
  t.match(after, { id: before.id, profiles: only('Admin'), username: 'maria' })
  const back = await logInWith(byDn, 'maria')
  t.not(back.id, before.id, 'without a search the directory does not say who this is')
  t.match(back.log, /"people":1.*linked/s, 'and the start says how many people that concerns')
  const options = cliOn(own)
  t.equal((await portaria(['relink', String(back.id), String(before.id)], options)).code, 2, 'it has access')
  const relinked = await portaria(['relink', String(before.id), String(back.id), '--json'], options)
  t.match(relinked.json(), { old: before.id, new: back.id, links: 1 })
  t.match(await logInWith(byDn, 'maria'), { id: before.id, profiles: only('Admin') })
  t.equal((await portaria(['relink', 'maria', '2'], options)).code, 2)
  t.match(await portaria(['relink', '2147483647', '2'], options), { code: 2, stderr: /^There is no such person/ })
})
