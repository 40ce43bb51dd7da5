// However much is guessed, no account of the directory is locked, and its owner still gets in.
// LD-07, LD-14, RL-06, RL-08, RL-14
import t from 'tap'
import { startOpenLdap } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
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

t.test('ten thousand wrong guesses through three instances lock no account, and its owner gets in', async t => {
  const world = await startThrottles(t, { ...common, settings: { domain: 'corp.example' } })
  const maria = await newPerson()
  await world.remember(maria, HOME)
  const spellings = [maria, maria.toUpperCase(), ` ${maria} `, `CORP\\${maria}`, `${maria}@Corp.Example`]
  const ownTimeMs = measureOwnTime()
  const answers = []
  for (let first = 0; first < 10_000; first += 250) {
    const crowd = Array.from({ length: 250 }, (_, index) => {
      const n = first + index
      const username = spellings[n % spellings.length] ?? maria
      return world.login({ username, password: `guess ${n}`, from: stranger(n), at: n })
    })
    answers.push(...(await Promise.all(crowd)))
  }
  t.ok(ownTimeMs() < 120_000, `${ownTimeMs()} ms`)
  t.same(tally(answers), { 'invalid-credentials': STRANGERS, 'login-throttled-account': 10_000 - STRANGERS })
  t.equal(await ldap.failureCount(maria), STRANGERS)
  t.match(await world.login({ username: maria, password: ldap.password, from: stranger(1) }), {
    what: 'login-throttled-account'
  })
  t.match(await world.login({ username: maria, password: ldap.password, from: HOME, at: 1 }), { what: 'in' })
  t.equal(await ldap.failureCount(maria), 0)
})

t.test('the last permit of an account is used by its known addresses alone, and then no one binds', async t => {
  const world = await startThrottles(t, common)
  const person = await newPerson()
  await world.remember(person, HOME)
  const guess = (n: number, from: string) => world.login({ username: person, password: `guess ${n}`, from, at: n })
  const guesses = Array.from({ length: 60 }, (_, n) => guess(n, n % 2 ? HOME : stranger(n)))
  t.match(tally(await Promise.all(guesses)), { 'invalid-credentials': THRESHOLD - 1 })
  t.equal(await ldap.failureCount(person), THRESHOLD - 1)
  const refused = await world.login({ username: person, password: ldap.password, from: HOME })
  t.equal(refused.what, 'login-throttled-account')
  t.ok((refused.retryAfterS ?? 0) > 1600 && (refused.retryAfterS ?? 0) <= 1801, `${refused.retryAfterS}`)
  await world.advance(1_802_000)
  t.match(await world.login({ username: person, password: ldap.password, from: stranger(1) }), { what: 'in' })
})

t.test('an unknown name is throttled exactly as a known one', async t => {
  const world = await startThrottles(t, common)
  const person = await newPerson()
  const answers = async (username: string) => {
    const told = []
    for (let n = 0; n < 8; n++)
      told.push(await world.login({ username, password: `guess ${n}`, from: stranger(n), at: n }))
    return told.map(({ what, retryAfterS }) => `${/throttled/.test(what) ? 429 : 401} ${retryAfterS}`)
  }
  t.same(await answers('nobody'), await answers(person))
})

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

// RV-66
t.test('after strangers have failed, a known address still has two tries', async t => {
  const world = await startThrottles(t, common)
  const person = await newPerson()
  t.match(await world.login({ username: person, password: ldap.password, from: HOME }), { what: 'in' })
  await world.remember(person, HOME)
  const guess = (n: number) => world.login({ username: person, password: `guess ${n}`, from: '192.0.2.66', at: n })
  t.same(tally([await guess(0), await guess(1), await guess(2)]), {
    'invalid-credentials': STRANGERS,
    'login-throttled-account': 1
  })
  const away = { username: person, password: ldap.password, from: '192.0.2.99' }
  t.match(await world.login(away), { what: 'login-throttled-account' }, 'what a stranger can still cause')
  t.match(await world.login({ username: person, password: 'slip', from: HOME, at: 1 }), { what: 'invalid-credentials' })
  t.match(await world.login({ username: person, password: ldap.password, from: HOME, at: 2 }), { what: 'in' })
  t.match(await world.login(away), { what: 'in' })
})

t.test(
  'a client may fail only so often in all, whatever names it tries, on whichever instance and all at once',
  async t => {
    const world = await startThrottles(t, common)
    const from = '192.0.2.55'
    const spray = (n: number) => world.login({ username: `name${n}`, password: 'Verao2026', from, at: n })
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => spray(n)))
    t.same(tally(answers), { 'invalid-credentials': 20, 'login-throttled-client': 180 })
    const refused = await spray(300)
    t.match(refused, { what: 'login-throttled-client' })
    t.ok((refused.retryAfterS ?? 0) > 250 && (refused.retryAfterS ?? 0) <= 300, `${refused.retryAfterS}`)
    t.match(await world.login({ username: 'carlos', password: ldap.password, from }), {
      what: 'login-throttled-client'
    })
  }
)

t.test('right passwords are never limited: those beyond the permits wait for the others', async t => {
  // On a machine that does ten other things, the last of them waits for longer than people would.
  const world = await startThrottles(t, { ...common, settings: { timeoutMs: 60_000 } })
  const person = await newPerson()
  const right = (at: number) => world.login({ username: person, password: ldap.password, from: '192.0.2.77', at })
  t.same(tally(await Promise.all(Array.from({ length: 120 }, (_, at) => right(at)))), { in: 120 })
})

t.test('a person who mistypes and then gets in starts anew', async t => {
  const world = await startThrottles(t, common)
  const person = await newPerson()
  await world.remember(person, '192.0.2.6')
  const type = (password: string, at: number) => world.login({ username: person, password, from: '192.0.2.6', at })
  for (let day = 0; day < 4; day++) {
    for (let n = 0; n < STRANGERS; n++) t.match(await type(`slip ${day} ${n}`, n), { what: 'invalid-credentials' })
    t.match(await type(ldap.password, day), { what: 'in' })
  }
})

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
