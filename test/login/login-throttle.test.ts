// However much is guessed, no account of the directory is locked, and its owner still gets in.
// LD-07, LD-14, RL-06, RL-08, RL-14
import t from 'tap'
import { startOpenLdap } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { startThrottles, tally } from '../support/throttles.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const postgres = await startPostgres(t)
const redis = await startRedis(t)
const common = { ldap, postgres, redisUrl: redis.url }
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
  t.same(tally(answers), { 'wrong-password': THRESHOLD - 2, 'login-throttled-account': 10_000 - (THRESHOLD - 2) })
  t.equal(await ldap.failureCount(maria), THRESHOLD - 2)
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
  t.match(tally(await Promise.all(guesses)), { 'wrong-password': THRESHOLD - 1 })
  t.equal(await ldap.failureCount(person), THRESHOLD - 1)
  const refused = await world.login({ username: person, password: ldap.password, from: HOME })
  t.equal(refused.what, 'login-throttled-account')
  t.ok((refused.retryAfterS ?? 0) > 1600 && (refused.retryAfterS ?? 0) <= 1801, `${refused.retryAfterS}`)
  world.advance(1_802_000)
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

t.test('a wrong password that is repeated costs one bind, on whichever instance, one by one or at once', async t => {
  const world = await startThrottles(t, { ...common, perIp: 10_000 })
  const person = await newPerson()
  const same = (at: number) => world.login({ username: person, password: 'yesterdays', from: '192.0.2.4', at })
  t.same(tally(await Promise.all(Array.from({ length: 50 }, () => same(0)))), {
    'wrong-password': 1,
    'repeated-wrong-password': 49
  })
  t.same(tally(await Promise.all(Array.from({ length: 150 }, (_, at) => same(at)))), { 'repeated-wrong-password': 150 })
  t.equal(world.binds(), 1)
  t.equal(await ldap.failureCount(person), 1)
  world.advance(121_000)
  await redis.command('flushall')
  t.match(await same(2), { what: 'wrong-password' }, 'after two minutes it may have become right')
})

t.test('a wrong password counts for its client each time, also when it is repeated', async t => {
  const world = await startThrottles(t, { ...common, perIp: 5 })
  const person = await newPerson()
  const told = []
  for (let at = 0; at < 7; at++)
    told.push(await world.login({ username: person, password: 'x y z', from: '192.0.2.5', at }))
  t.same(tally(told), { 'wrong-password': 1, 'repeated-wrong-password': 4, 'login-throttled-client': 2 })
  t.match(await world.login({ username: person, password: ldap.password, from: '192.0.2.1' }), { what: 'in' })
})

t.test(
  'a client may fail only so often in all, whatever names it tries, on whichever instance and all at once',
  async t => {
    const world = await startThrottles(t, common)
    const from = '192.0.2.55'
    const spray = (n: number) => world.login({ username: `name${n}`, password: 'Verao2026', from, at: n })
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => spray(n)))
    t.same(tally(answers), { 'unknown-user': 20, 'login-throttled-client': 180 })
    const refused = await spray(300)
    t.match(refused, { what: 'login-throttled-client' })
    t.ok((refused.retryAfterS ?? 0) > 250 && (refused.retryAfterS ?? 0) <= 300, `${refused.retryAfterS}`)
    t.match(await world.login({ username: 'carlos', password: ldap.password, from }), {
      what: 'login-throttled-client'
    })
    t.match(await world.login({ username: 'bad\u200bname', password: 'x', from }), { what: 'login-throttled-client' })
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
    for (let n = 0; n < THRESHOLD - 2; n++) t.match(await type(`slip ${day} ${n}`, n), { what: 'wrong-password' })
    t.match(await type(ldap.password, day), { what: 'in' })
  }
})

t.test('names that are refused before any bind count for the client, not for an account', async t => {
  const world = await startThrottles(t, { ...common, perIp: 3, settings: { domain: 'corp.example' } })
  const names = ['OTHER\\maria', 'bo\u200bss', 'maria@elsewhere.example', 'OTHER\\ana']
  const told = []
  for (const [at, username] of names.entries())
    told.push((await world.login({ username, password: 'x', from: '192.0.2.88', at })).what)
  t.same(told, ['foreign-domain', 'bad-login-name', 'foreign-domain', 'login-throttled-client'])
})

// Kinds, times and random ids: by its shape nothing of a name, a password or an address.
const PERMITS = /^([ofl]\d+\.[\w-]{12} ?)+$/

t.test('what is kept in Redis says nothing of names, passwords and addresses, and does not stay', async t => {
  await redis.command('flushall')
  const world = await startThrottles(t, common)
  const names = ['a:b{c}\nd', '{}', 'x'.repeat(256), '中文', 'maria']
  for (const [at, username] of names.entries())
    await world.login({ username, password: `secret ${username}`, from: `192.0.2.${at}:{x}\n`, at })
  const keys = (await redis.command('keys', '*')).split('\n')
  t.ok(keys.length >= 5)
  for (const key of keys) {
    t.match(key, /^portaria:login(-wrong)?:\{[\w-]{43}\}$/)
    const ttlMs = Number(await redis.command('pttl', key))
    t.ok(ttlMs > 0 && ttlMs <= (key.includes('wrong') ? 120_000 : 320_000), `${key} ${ttlMs}`)
    t.match(await redis.command('get', key), key.includes('wrong') ? /^1$/ : PERMITS)
  }
  for (const row of await postgres.query('SELECT * FROM login_permits', [], world.databaseUrl))
    t.match(row, { key: /^[\w-]{43}$/, permits: PERMITS })
})
