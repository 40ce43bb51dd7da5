// One account has one guard, whatever its names. Whom a name leads to, and that no account is locked, is generated in test/fuzz/people.test.ts.
// LD-07, LD-14, LD-20, RL-06, RL-08, RV-63, RV-71, RW-04, RW-15, RW-31
import t, { type Test } from 'tap'
import { createDirectory } from '../../gateway/directory/directory.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { entry, identity, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'
import { logIn, postLogin, postLoginAgain } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { dnOf } from '../support/openldap-people.ts'
import { startPostgres } from '../support/postgres.ts'
import { HOME, peopleOf, startThrottles, stranger } from '../support/throttles.ts'
import { until } from '../support/until.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const postgres = await startPostgres(t)
/** Two of the four permits are kept for known addresses. */
const STRANGERS = THRESHOLD - 3
const common = { ldap, postgres, withService: true }
const newPerson = peopleOf(ldap, 'nome')
/** A failure that was stored so long ago counts once, by the directory's count that the next attempt reads. */
const SEEN_MS = 2000

t.test('an unknown name is throttled exactly as a known one, under both of its forms', async t => {
  for (const domain of [undefined, 'corp.example']) {
    const world = await startThrottles(t, { ...common, settings: { domain } })
    const answers = async (local: string) => {
      const told = []
      for (const [n, username] of [local, local, local, `${local}@corp.example`, local].entries()) {
        told.push(await world.login({ username, password: `guess ${n >> 1}`, from: stranger(n), at: n }))
        await world.advance(SEEN_MS)
      }
      // In minutes: a second or two pass between the first and the last of them.
      return told.map(
        ({ what, retryAfterS = 0 }) => `${/throttled/.test(what) ? 429 : 401} ${Math.round(retryAfterS / 60)}`
      )
    }
    for (const prefix of ['', 'm']) {
      const uid = `u${prefix}${domain?.length}`
      await ldap.addPerson({ uid, mail: `${prefix}${uid}@corp.example`, password: ldap.password })
      t.same(await answers(uid), await answers(`nobody${uid}`), `${uid} ${domain}`)
    }
  }
})

t.test('a name that leads to two accounts proves neither of them, which the log says', async t => {
  const own = await startPostgres(t)
  const world = await startGateway(t, { postgres: own, env: ldap.serviceEnv })
  await ldap.addPerson({ uid: 'alpha', mail: 'beta@corp.example', password: ldap.password })
  await ldap.addPerson({ uid: 'beta', mail: 'someone@corp.example', password: ldap.password })
  const [beta, alpha] = [await logIn(world, 'beta'), await logIn(world, 'beta@corp.example')]
  t.not(beta.user.id, alpha.user.id)
  await world.logged(({ reason }) => reason === 'login-name-shared')
  t.same(await own.query('SELECT login FROM login_names'), [], 'the entry shows its names each time')
})

// RV-63
t.test('an account of a directory that never forgets is refused for a day at a time', async t => {
  const world = await startThrottles(t, { ...common, settings: { lockoutWindowMs: 0 } })
  const { uid } = await newPerson()
  const guess = async (n: number) => {
    await world.advance(SEEN_MS)
    return world.login({ username: uid, password: `guess ${n}`, from: stranger(n), at: n })
  }
  for (let n = 0; n < STRANGERS; n++) await guess(n)
  t.match(await guess(STRANGERS), { what: 'login-throttled-account', retryAfterS: 86_400 })
})

t.test('guesses at once do not lock an account again whose lock-out has run out at the directory', async t => {
  const world = await startThrottles(t, common)
  const { uid } = await newPerson()
  await world.remember(uid, HOME)
  const elsewhere = createDirectory(ldap.settings(), { failureFloorMs: 0 })
  for (let n = 0; n < THRESHOLD; n++) await t.rejects(elsewhere.authenticate(uid, `guess ${n}`))
  t.equal((await ldap.lockedSince(uid)).length, 1)
  // OpenLDAP keeps the time of a lock-out until the next bind after it, and the failures until a right password.
  await ldap.replace('cn=default,ou=policies,dc=corp,dc=example', 'pwdLockoutDuration', ['60'])
  const runOut = ['20200101000000Z']
  await ldap.replace(dnOf({ uid }), 'pwdAccountLockedTime', runOut)

  const login = async (from: string, at: number, password = `guess ${at}`) =>
    (await world.login({ username: uid, password, from, at })).what
  const strangers = await Promise.all([1, 2, 3].map(at => login(stranger(at), at)))
  t.same(new Set(strangers), new Set(['login-throttled-account']))
  t.same(await ldap.lockedSince(uid), runOut)
  const mistakes = await Promise.all([login(HOME, 1), login(HOME, 2)])
  t.same(mistakes.sort(), ['login-throttled-account', 'wrong-password'])
  t.same(await ldap.lockedSince(uid), [], 'the directory has not locked it again')
  // Refusals are remembered for a second; the directory is to be asked.
  await world.advance(0)
  t.equal(await login(HOME, 0, ldap.password), 'login-throttled-account', 'one more failure would lock it')
  await world.advance(0)
  await ldap.replace(dnOf({ uid }), 'pwdAccountLockedTime', runOut)
  t.equal(await login(HOME, 0, ldap.password), 'in')
})

const OWN = 'a-senha-certa'

/** Answers as Active Directory does to the owner of one account, and to guesses at it. */
const startActiveDirectory = (t: Test) =>
  startLdapServer(t, ({ tag, id, body, send }) => {
    const isRight = body.includes(OWN)
    if (tag === REQUEST.bind) send(result(id, 0x61, isRight ? 0 : 49, isRight ? '' : '80090308: data 52e, v4563'))
    if (tag === REQUEST.extended) send(identity(id, 'u:CORP\\msilva'))
    if (tag === REQUEST.search)
      send(
        entry(id, 'CN=Maria Silva,DC=corp,DC=example', {
          defaultNamingContext: ['DC=corp,DC=example'],
          sAMAccountName: ['msilva'],
          userPrincipalName: ['maria.silva@corp.example'],
          objectGUID: [Buffer.alloc(16, 7)]
        }),
        result(id, 0x65)
      )
  })

/** The owner logs in from home, strangers guess, and the owner errs once. */
const checkKnownAddress = async (t: Test, usernames: readonly string[], env: Record<string, string>) => {
  const common = { LDAP_ENABLED: 'true', TRUST_PROXY: '127.0.0.1' }
  const world = await startGateway(t, { postgres: await startPostgres(t), env: { ...common, ...env } })
  const login = async (password: string, from: string, n = 0) => {
    const username = usernames[n % usernames.length] ?? ''
    return (await postLoginAgain(world, username, { password, from })).status
  }
  t.equal(await login(OWN, HOME), 200)
  const guesses = []
  for (let n = 0; n < 5; n++) guesses.push(await login(`errada ${n}`, stranger(n), n))
  t.same(guesses, [401, 401, 429, 429, 429])
  t.equal(await login('um-erro', HOME, 1), 401)
  t.equal(await login(OWN, HOME), 200)
}

// RV-71
t.test('a known address is known under the canonical name, whatever name is typed', async t => {
  const { url } = await startActiveDirectory(t)
  await checkKnownAddress(t, ['maria.silva'], { LDAP_URL: url, LDAP_DOMAIN: 'corp.example' })
})

const PEOPLE = 'ou=people,dc=corp,dc=example'

t.test('an entry without a login attribute has one guard, whatever finds it, and unlock frees it', async t => {
  const unlocking = await startOpenLdap(t, { lockoutThreshold: 0 })
  await unlocking.add(`cn=Sem Uid,${PEOPLE}`, {
    objectClass: 'inetOrgPerson',
    cn: ['Sem Uid', 'semuid'],
    sn: 'Uid',
    mail: ['a@corp.example', 'b@corp.example'],
    userPassword: unlocking.password
  })
  const own = await startPostgres(t)
  const env = {
    ...unlocking.serviceEnv,
    LDAP_SEARCH_FILTER: '(|(mail={{username}})(cn={{username}}))',
    TRUST_PROXY: '127.0.0.1'
  }
  const world = await startGateway(t, { postgres: own, env })
  const login = async (name: string, password: string, from: string) =>
    (await postLogin(world, name, { password, from })).status
  t.equal(await login('semuid', unlocking.password, HOME), 200)
  const names = ['a@corp.example', 'b@corp.example', 'sem uid', 'semuid']
  const guesses = []
  for (const [n, name] of names.entries()) guesses.push(await login(name, `errada ${n}`, stranger(n)))
  t.same(guesses, [401, 401, 429, 429])
  t.equal(await login('a@corp.example', 'um-erro', HOME), 401, 'the address is known under every name')
  const cli = { env: { DATABASE_URL: own.url, JWT_SECRET: TEST_SECRET } }
  t.match((await portaria(['unlock', '--json'], cli)).json(), { accounts: [{ username: 'semuid', failures: 3 }] })
  t.match((await portaria(['unlock', 'semuid', '--json'], cli)).json(), { freed: 3, logins: ['semuid'] })
  await until(async () => (await login('b@corp.example', unlocking.password, stranger(9))) === 200, 'within a second')
})

t.test('a known address is known with a DN template too, whatever attribute its value is of', async t => {
  const dn = 'cn=maria silva,ou=people,dc=corp'
  const { url } = await startLdapServer(t, ({ tag, id, body, send }) => {
    if (tag === REQUEST.bind) send(result(id, 0x61, body.includes(OWN) ? 0 : 49))
    if (tag === REQUEST.extended) send(identity(id, `dn:${dn}`))
    if (tag === REQUEST.search) send(entry(id, dn, { cn: ['Maria Silva'], uid: ['msilva'] }), result(id, 0x65))
  })
  const env = { LDAP_URL: url, LDAP_USER_DN_TEMPLATE: 'cn={{username}},ou=people,dc=corp', LDAP_SEARCH_BASE: 'dc=corp' }
  await checkKnownAddress(t, ['maria silva'], { ...env, LDAP_SEARCH_FILTER: '(cn={{username}})' })
})

t.test('an account whose directory ignores accents has one guard with a DN template, however it is typed', async t => {
  const { url } = await startActiveDirectory(t)
  const env = { LDAP_URL: url, LDAP_USER_DN_TEMPLATE: 'cn={{username}},dc=corp' }
  await checkKnownAddress(t, ['josé lima', 'jose lima', 'jøsë łima'], env)
})

t.test('an account gives no guesses at another whose login differs in accents, with a DN template of uids', async t => {
  const world = await startThrottles(t, { ldap, postgres })
  const [own, other] = ['andre', 'andré']
  for (const uid of [own, other]) await ldap.addPerson({ uid, password: ldap.password })
  await world.remember(own, HOME)
  const login = async (username: string, password: string, at = 0) =>
    (await world.login({ username, password, from: HOME, at })).what
  const told = []
  for (let n = 0; n < THRESHOLD + 1; n++) {
    if (n % STRANGERS === 0) t.equal(await login(own, ldap.password), 'in')
    told.push(await login(other, `guess ${n}`, n))
  }
  t.same(new Set(told.slice(STRANGERS)), new Set(['login-throttled-account']))
  t.same(await ldap.lockedSince(other), [])
  t.equal(await ldap.failureCount(other), STRANGERS)
})
