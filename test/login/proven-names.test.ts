// Nobody becomes somebody else by a piece of a name: links, guards and the audit log follow an entry's own login attributes.
// RV-58, RV-59, RV-70, LD-07, LD-18
import t, { type Test } from 'tap'
import { startGateway } from '../support/gateway.ts'
import { logIn, postLogin } from '../support/login.ts'
import { type DirectoryEntrySpec, SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'

const ldap = await startOpenLdap(t, { lockoutThreshold: 5 })
const add = (person: Omit<DirectoryEntrySpec, 'password'>) => ldap.addPerson({ password: SAMPLE_PASSWORD, ...person })

await add({ uid: 'alpha', mail: 'beta@corp.example' })
await add({ uid: 'beta', mail: 'someone@corp.example' })
const principal = (name: string) => `${name}@corp.example`
await add({ uid: 'x1', account: { sAMAccountName: 'gama', userPrincipalName: principal('delta') } })
await add({ uid: 'x2', account: { sAMAccountName: 'delta', userPrincipalName: principal('outro') } })

const SERVICE = {
  ...ldap.serviceEnv,
  LDAP_RECHECK: '0',
  TRUST_PROXY: '127.0.0.1'
}
const AD = { ...SERVICE, LDAP_SEARCH_FILTER: '(|(sAMAccountName={{username}})(userPrincipalName={{username}}))' }
/** People are linked by their login: no entry is read. */
const BLIND = { ...ldap.env, LDAP_SEARCH_BASE: '', LDAP_SEARCH_FILTER: '', BOOTSTRAP_ADMINS: 'ldap:beta,ldap:x2' }

const startWorld = async (t: Test) => {
  const postgres = await startPostgres(t)
  const start = (env: Record<string, string>) => startGateway(t, { postgres, env })
  return { postgres, start }
}

for (const { what, env, victim, uid, others } of [
  {
    what: 'OpenLDAP, mail in the filter',
    env: SERVICE,
    victim: 'beta',
    uid: 'beta',
    others: ['beta@corp.example', 'alpha']
  },
  {
    what: 'Active Directory',
    env: AD,
    victim: 'delta',
    uid: 'x2',
    others: ['delta@corp.example', 'gama', 'CORP\\gama']
  }
]) {
  t.test(`an address or principal name never leads to the link of its local part: ${what}`, async t => {
    const { postgres, start } = await startWorld(t)
    const blind = await start(BLIND)
    const { user } = await logIn(blind, uid)
    // OpenLDAP binds by uid only, where Active Directory would have bound the sAMAccountName.
    await postgres.query(`UPDATE provider_links SET subject = '${victim}'`)
    // The directory says only to the second when it created an entry, so the login has to be a second later.
    await postgres.query(
      `UPDATE users SET username = '${victim}', last_login_at = last_login_at + interval '2 seconds'`
    )
    await blind.gateway.close()
    const world = await start(env)
    const ids = new Set<number>()
    for (const name of others) {
      const foreign = await logIn(world, name)
      t.not(foreign.user.id, user.id, name)
      t.same(foreign.user.profiles, [], name)
      ids.add(foreign.user.id)
    }
    t.equal(ids.size, 1, 'all names of the account are one person')
    const own = await logIn(world, victim)
    t.equal(own.user.id, user.id, 'the link belongs to the entry whose login attribute it is')
    t.match(own.user, { username: victim, profiles: ['Admin'] })
  })
}

t.test('a name without its domain proves nothing, so that nobody is named or held back for another', async t => {
  const { postgres, start } = await startWorld(t)
  const world = await start(SERVICE)
  const beta = await logIn(world, 'beta')
  const alpha = await logIn(world, 'beta@corp.example')
  t.not(beta.user.id, alpha.user.id)
  await world.logged(({ reason }) => reason === 'login-name-shared')
  t.same(await postgres.query('SELECT login FROM login_names'), [], 'the entry shows its names each time')
  t.equal((await postLogin(world, 'beta', { password: 'errada' })).status, 401)
  for (let n = 0; n < 6; n++) {
    const from = { 'x-forwarded-for': `203.0.113.${n}` }
    const { status } = await postLogin(world, 'alpha', { password: `guess ${n}`, headers: from })
    t.equal(status, n < 2 ? 401 : 429)
  }
  t.equal((await postLogin(world, 'beta', { headers: { 'x-forwarded-for': '203.0.113.99' } })).status, 200)
  await world.gateway.close()
  const [first] = await postgres.query(
    "SELECT actor_username, target FROM audit_events WHERE action = 'login.failed' ORDER BY id LIMIT 1"
  )
  t.same(first, { actor_username: 'beta', target: `user:${beta.user.id}` })
})

t.test('the same answers for a name that exists and for one that does not, under both of its forms', async t => {
  const { start } = await startWorld(t)
  for (const domain of ['', 'corp.example']) {
    const world = await start({ ...SERVICE, LDAP_DOMAIN: domain })
    const statuses = async (local: string) => {
      const answers: number[] = []
      for (const [at, name] of [local, local, local, `${local}@corp.example`, local].entries()) {
        const headers = { 'x-forwarded-for': `203.0.113.${at}` }
        answers.push((await postLogin(world, name, { password: `guess ${at}`, headers })).status)
      }
      return answers
    }
    for (const prefix of ['', 'm']) {
      const uid = `u${prefix}${domain.length}`
      await add({ uid, mail: `${prefix}${uid}@corp.example` })
      t.same(await statuses(uid), await statuses(`nobody${uid}`), `${prefix} ${domain}`)
    }
    await world.gateway.close()
  }
})

t.test('a failed login of an entry that took over a name does not name its former owner', async t => {
  const { postgres, start } = await startWorld(t)
  const world = await start(SERVICE)
  await add({ uid: 'rehired', mail: 'rehired@corp.example' })
  const { user } = await logIn(world, 'rehired')
  await ldap.remove(`uid=rehired,ou=people,${ldap.baseDn}`)
  await add({ uid: 'rehired', mail: 'rehired@corp.example' })
  for (const name of ['rehired', 'rehired@corp.example']) await postLogin(world, name, { password: `errada ${name}` })
  t.not((await logIn(world, 'rehired')).user.id, user.id)
  await world.gateway.close()
  const failed = await postgres.query("SELECT DISTINCT target FROM audit_events WHERE action = 'login.failed'")
  t.same(failed, [{ target: '' }])
})
