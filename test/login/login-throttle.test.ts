// However much is guessed, no account of the directory is locked, and its owner still gets in.
// LD-07, LD-14, RL-06, RL-08, RL-14
import t from 'tap'
import { startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { startThrottles, tally } from '../support/throttles.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const postgres = await startPostgres(t)
/** Two of the four permits are kept for known addresses. */
const STRANGERS = THRESHOLD - 3
const common = { ldap, postgres }
const HOME = '198.51.100.7'
const stranger = (n: number) => `203.0.${n >> 8}.${n & 255}`

let people = 0
/** Somebody new, whose failures nobody has counted. */
const newPerson = async () => {
  people += 1
  const uid = `pessoa${people}`
  await ldap.addPerson({ uid, password: ldap.password })
  return uid
}

// RV-65
t.test(
  'one program that repeats an old password costs its address one failure, and holds nobody else back',
  async t => {
    const world = await startThrottles(t, { ...common, perIp: 5 })
    const people = [await newPerson(), await newPerson()]
    const from = '192.0.2.4'
    const old = await newPerson()
    const repeats = []
    for (let at = 0; at < 20; at++) repeats.push(await world.login({ username: old, password: 'yesterdays', from, at }))
    t.same(tally(repeats), { 'invalid-credentials': STRANGERS, 'login-throttled-account': 20 - STRANGERS })
    for (const [at, username] of people.entries())
      t.match(await world.login({ username, password: ldap.password, from, at }), { what: 'in' })
    for (let n = 0; n < 4; n++) await world.login({ username: `other${n}`, password: 'yesterdays', from, at: n })
    const [first = ''] = people
    t.match(await world.login({ username: first, password: ldap.password, from }), { what: 'login-throttled-client' })
  }
)

// RV-65
t.test('names that are refused before any bind count for nobody', async t => {
  const world = await startThrottles(t, { ...common, perIp: 1, settings: { domain: 'corp.example' } })
  const names = ['OTHER\\maria', 'bo\u200bss', 'maria@elsewhere.example']
  const told = []
  for (const [at, username] of names.entries())
    told.push((await world.login({ username, password: 'x', from: '192.0.2.88', at })).what)
  t.same(told, ['foreign-domain', 'bad-login-name', 'foreign-domain'])
})

t.test('what is stored says nothing of names that no one has proven, nor of passwords', async t => {
  const world = await startThrottles(t, common)
  const names = ['a:b{c}\nd', '{}', 'x'.repeat(256), '中文', 'maria']
  for (const [at, username] of names.entries())
    await world.login({ username, password: `secret ${username}`, from: `192.0.2.${at}`, at })
  const rows = await postgres.query('SELECT * FROM login_attempts', [], world.databaseUrl)
  t.ok(rows.length >= 3)
  for (const row of rows) t.match(row, { account: /^[\w-]{43}$/, pair: /^[\w-]{22}$/, address: /^192\.0\.2\.\d$/ })
})

t.test('a login costs five or six statements, and a crowd of guesses that are refused a few each', async t => {
  for (const withService of [true, false]) {
    const world = await startThrottles(t, { ...common, instances: 1, withService })
    const person = await newPerson()
    await world.remember(person, HOME)
    const cost = async (work: () => Promise<unknown>): Promise<number> => {
      const before = world.statements()
      await work()
      return world.statements() - before
    }
    const right = () => world.login({ username: person, password: ldap.password, from: HOME })
    // Without a service account, the names that were bound are joined.
    const all = withService ? 5 : 6
    t.equal(await cost(right), all, 'take a permit in a transaction of four, settle it, join the names')
    t.equal(await cost(right), all)
    t.equal(await cost(() => world.login({ username: person, password: 'slip', from: HOME })), 5)
    const guess = (n: number) => world.login({ username: person, password: `guess ${n}`, from: stranger(n) })
    const crowd = await cost(() => Promise.all(Array.from({ length: 100 }, (_, n) => guess(n))))
    // Those that wait for their turn ask again now and then, so a slow machine sees more; each for all others would be 10,000.
    t.ok(crowd <= 500, `${crowd} statements for a hundred guesses`)
  }
})
