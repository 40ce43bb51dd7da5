// One account has one guard, whatever its names, and the directory's own count is part of it.
// LD-07, LD-14, LD-20, RL-06, RL-08, RV-63, RV-71, RW-04, RW-15, RW-31
import t, { type Test } from 'tap'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway, TEST_SECRET } from '../support/gateway.ts'
import { entry, identity, REQUEST, result, startLdapServer } from '../support/ldap-server.ts'
import { postLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { HOME, peopleOf, startThrottles, stranger, tally } from '../support/throttles.ts'
import { until } from '../support/until.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const postgres = await startPostgres(t)
/** Two of the four permits are kept for known addresses. */
const STRANGERS = THRESHOLD - 3
const common = { ldap, postgres, withService: true }
const newPerson = peopleOf(ldap, 'nome')

const NO_SEARCH = { searchBase: undefined, searchFilter: undefined }
const SETUPS: readonly { name: string; options: Partial<Parameters<typeof startThrottles>[1]>; aliases: boolean }[] = [
  { name: 'a service account', options: { withService: true }, aliases: true },
  {
    name: 'a service account and LDAP_DOMAIN',
    options: { withService: true, settings: { domain: 'corp.example' } },
    aliases: true
  },
  { name: 'a search base', options: {}, aliases: false },
  { name: 'a search base and LDAP_DOMAIN', options: { settings: { domain: 'corp.example' } }, aliases: false },
  { name: 'neither', options: { settings: NO_SEARCH }, aliases: false },
  { name: 'LDAP_DOMAIN alone', options: { settings: { ...NO_SEARCH, domain: 'corp.example' } }, aliases: false }
]

for (const { name, options, aliases } of SETUPS) {
  t.test(`guesses under every name through three instances never lock the account, with ${name}`, async t => {
    const world = await startThrottles(t, { ldap, postgres, ...options })
    const { uid, mail } = await newPerson()
    await world.remember(uid, HOME)
    const hasDomain = options.settings?.domain !== undefined
    const names = [
      ...[uid, uid.toUpperCase(), ` ${uid}`],
      ...(aliases ? [mail, ` ${mail.toUpperCase()}`] : []),
      ...(hasDomain ? [`CORP\\${uid}`, `${uid}@corp.example`] : [])
    ]
    const crowd = Array.from({ length: 200 }, (_, n) =>
      world.login({ username: names[n % names.length] ?? uid, password: `guess ${n}`, from: stranger(n), at: n })
    )
    const answers = await Promise.all(crowd)
    t.equal(await ldap.failureCount(uid), STRANGERS)
    t.equal(tally(answers)[aliases ? 'wrong-password' : 'invalid-credentials'], STRANGERS)
    const last = names.at(-1) ?? uid
    t.match(await world.login({ username: last, password: ldap.password, from: HOME, at: 1 }), { what: 'in' })
    t.equal(await ldap.failureCount(uid), 0)
  })
}

t.test('failures elsewhere count, so that ours never complete them', async t => {
  const world = await startThrottles(t, common)
  const { uid } = await newPerson()
  const elsewhere = await startThrottles(t, { ldap, postgres, instances: 1, withService: true })
  await elsewhere.login({ username: uid, password: 'other', from: stranger(1) })
  t.equal(await ldap.failureCount(uid), 1)
  const told = []
  for (let n = 10; n < 16; n++)
    told.push(await world.login({ username: uid, password: `guess ${n}`, from: stranger(n), at: n }))
  t.match(tally(told), { 'wrong-password': 1, 'login-throttled-account': 5 })
  t.equal(await ldap.failureCount(uid), STRANGERS)
  t.ok((told.at(-1)?.retryAfterS ?? 0) > 1700)
})

t.test('an unknown name is throttled exactly as a known one', async t => {
  // As for people, the next attempt comes only after the directory's count includes the one before.
  const world = await startThrottles(t, { ...common, failureFloorMs: 100 })
  const { uid } = await newPerson()
  const answers = async (username: string) => {
    const told = []
    for (let n = 0; n < 8; n++)
      told.push(await world.login({ username, password: `guess ${n >> 1}`, from: stranger(n), at: n }))
    // In minutes: a second or two pass between the first and the last of them.
    return told.map(
      ({ what, retryAfterS = 0 }) => `${/throttled/.test(what) ? 429 : 401} ${Math.round(retryAfterS / 60)}`
    )
  }
  t.same(await answers('ninguem'), await answers(uid))
})

// RV-63
for (const withService of [true, false])
  t.test(
    `an account of a directory that never forgets is never locked, ${withService ? 'with' : 'without'} a service account`,
    async t => {
      const settings = { lockoutWindowMs: 0 }
      const world = await startThrottles(t, { ldap, postgres, withService, settings, perIp: 1000 })
      const { uid } = await newPerson()
      await world.remember(uid, HOME)
      const guess = (n: number, from: string) => world.login({ username: uid, password: `guess ${n}`, from, at: n })
      for (let day = 0; day < 3; day++) {
        for (let n = 0; n < 4; n++) await guess(10 * day + n, stranger(n))
        await world.advance(40 * 24 * 60 * 60_000)
      }
      t.equal(await ldap.failureCount(uid), STRANGERS)
      t.match(await guess(100, stranger(1)), { what: 'login-throttled-account', retryAfterS: 86_400 })
      t.match(await guess(101, HOME), { what: withService ? 'wrong-password' : 'invalid-credentials' })
      t.match(await world.login({ username: uid, password: ldap.password, from: HOME }), { what: 'in' })
      t.match(await world.login({ username: uid, password: ldap.password, from: stranger(1) }), { what: 'in' })
    }
  )

/** Answers as Active Directory does to the owner of one account, and to guesses at it. */
const startActiveDirectory = (t: Test, password: string) =>
  startLdapServer(t, ({ tag, id, body, send }) => {
    const isRight = body.includes(password)
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

// RV-71
t.test('a known address is known under the canonical name, whatever name is typed', async t => {
  const own = await startPostgres(t)
  const directory = await startActiveDirectory(t, 'a-senha-certa')
  const world = await startGateway(t, {
    postgres: own,
    env: { LDAP_ENABLED: 'true', LDAP_URL: directory.url, LDAP_DOMAIN: 'corp.example', TRUST_PROXY: '127.0.0.1' }
  })
  const login = async (password: string, from: string): Promise<number> => {
    const { status } = await postLogin(world, 'maria.silva', { password, headers: { 'x-forwarded-for': from } })
    // A machine too busy to ask the database in time says so.
    return status === 503 ? login(password, from) : status
  }
  t.equal(await login('a-senha-certa', HOME), 200)
  const guesses = []
  for (let n = 0; n < 5; n++) guesses.push(await login(`errada ${n}`, stranger(n)))
  t.same(guesses, [401, 401, 429, 429, 429])
  t.equal(await login('um-erro', HOME), 401)
  t.equal(await login('a-senha-certa', HOME), 200)
})

const PEOPLE = 'ou=people,dc=corp,dc=example'

t.test(
  'an entry without a login attribute of its own has one guard, whatever finds it, and unlock frees it',
  async t => {
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
      (await postLogin(world, name, { password, headers: { 'x-forwarded-for': from } })).status
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
  }
)

t.test('two entries with one uid have a guard each: the password of one frees nothing of the other', async t => {
  const twins = await startOpenLdap(t, { lockoutThreshold: 0 })
  const settings = { searchFilter: '(|(uid={{username}})(mail={{username}}))' }
  const world = await startThrottles(t, { ldap: twins, postgres, withService: true, settings })
  await twins.addPerson({ uid: 'dup', mail: 'victim@corp.example', password: twins.password })
  await twins.addPerson({ uid: 'dup', mail: 'twin@corp.example', ou: 'contractors', password: 'the-twin-password' })
  const guesses = []
  for (let n = 0; n < 8; n++) {
    guesses.push(
      await world.login({ username: 'victim@corp.example', password: `guess ${n}`, from: stranger(n), at: n })
    )
    const twin = await world.login({ username: 'twin@corp.example', password: 'the-twin-password', from: HOME, at: n })
    t.match(twin, { what: 'in' })
  }
  t.same(tally(guesses), { 'wrong-password': STRANGERS, 'login-throttled-account': 8 - STRANGERS })
})
