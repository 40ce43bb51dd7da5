// However much is guessed, no account of the directory is locked, and its owner still gets in.
// LD-07, LD-14, RL-06, RL-08, RL-14
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { DirectoryPerson } from '../../gateway/directory/person.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'
import { HOME, openThrottle, peopleOf, startThrottles, stranger, tally } from '../support/throttles.ts'
import { until } from '../support/until.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const postgres = await startPostgres(t)
/** Two of the four permits are kept for known addresses. */
const STRANGERS = THRESHOLD - 3
const common = { ldap, postgres }
const newPerson = peopleOf(ldap, 'pessoa')

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
    const { uid: person } = await newPerson()
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

t.test('new instances with another JWT_SECRET go on with what the former ones have counted', async t => {
  const { uid } = await newPerson()
  const guess = (world: Awaited<ReturnType<typeof startThrottles>>, n: number) =>
    world.login({ username: uid, password: `guess ${n}`, from: stranger(n), at: n })
  const world = await startThrottles(t, { ...common, instances: 1 })
  for (let n = 0; n < STRANGERS; n++) await guess(world, n)
  const secret = 'another secret after a rotation, also long enough'
  const changed = await startThrottles(t, { ...common, databaseUrl: world.databaseUrl, secret })
  const more = await Promise.all(Array.from({ length: 50 }, (_, n) => guess(changed, 100 + n)))
  t.same(tally(more), { 'login-throttled-account': 50 })
  t.equal(await ldap.failureCount(uid), STRANGERS)
})

t.test('without Postgres no directory is asked', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres, instances: 1 })
  t.match(await world.login({ username: 'ana', password: ldap.password, from: stranger(1) }), { what: 'in' })
  await postgres.kill()
  for (let n = 0; n < 5; n++)
    t.match(await world.login({ username: 'ana', password: `guess ${n}`, from: stranger(n) }), {
      what: 'database-unavailable'
    })
  t.equal(world.binds(), 1)
  t.equal(await ldap.failureCount('ana'), 0)
  await postgres.start()
  t.match(await world.login({ username: 'ana', password: ldap.password, from: stranger(1) }), { what: 'in' })
})

t.test('a database that goes away during a bind costs a right password nothing once it is back', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres, instances: 1, settings: { lockoutThreshold: 2 } })
  const login = () => world.login({ username: 'maria', password: ldap.password, from: stranger(1) })
  world.freezeAtBind(postgres.kill)
  // The directory accepts the password, and the gateway cannot store that it did.
  await login()
  world.freezeAtBind(undefined)
  await postgres.start()
  await until(async () => (await login()).what === 'in', 'the only permit comes back')
  t.same(await postgres.query('SELECT * FROM login_attempts', [], world.databaseUrl), [])
})

t.test('a database that stands still during a bind costs nothing but time', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres, instances: 2, settings: { lockoutThreshold: 2 } })
  const login = (at: number) => world.login({ username: 'carlos', password: ldap.password, from: stranger(1), at })
  world.freezeAtBind(postgres.freeze)
  t.teardown(postgres.thaw)
  const first = login(0)
  await until(() => world.binds() === 1)
  const second = login(1)
  setTimeout(postgres.thaw, 200)
  world.freezeAtBind(undefined)
  t.same(tally(await Promise.all([first, second])), { in: 2 })
  t.same(await postgres.query('SELECT * FROM login_attempts', [], world.databaseUrl), [])
})

t.test('outcomes that the database did not take are offered again until it does, one after the other', async t => {
  const store = await openStore(t, postgres)
  const names = ['ana', 'bia', 'caio', 'davi', 'eva']
  const state = { isAway: true, again: 0, running: 0, most: 0 }
  const offered = new Set<string>()
  const settle: Parameters<typeof openThrottle>[2]['settle'] = async (settlement, store) => {
    const { id } = settlement.attempt
    if (offered.has(id)) {
      state.again += 1
      state.running += 1
      state.most = Math.max(state.most, state.running)
      await delay(5)
      state.running -= 1
    }
    offered.add(id)
    if (state.isAway) throw new Error('away')
    await store(settlement)
  }
  const throttle = openThrottle(ldap.settings({}), store.database, { perIp: 20, settle })
  const logIn = (name: string) =>
    throttle.attempt({ login: name, password: 'x', ipKey: HOME }, guard =>
      guard.bind({ name, mayHaveTwoNames: false, whose: { bound: name } }, async () => ({}) as DirectoryPerson)
    )
  await Promise.all(names.map(logIn))
  await until(() => state.again >= names.length)
  const open = "SELECT count(*)::int AS n FROM login_attempts WHERE kind = 'open'"
  t.match(await postgres.query(open, [], store.url), [{ n: names.length }])
  state.isAway = false
  await until(async () => (await postgres.query(open, [], store.url))[0]?.n === 0)
  t.equal(state.most, 1)
})
