// However much is guessed, no account of the directory is locked, its owner still gets in, and gateways say the same to everybody.
// LD-07, LD-12, LD-14, RL-06, RL-08, RL-14
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { DirectoryPerson } from '../../gateway/directory/person.ts'
import { startGateway, type World } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startOwnPostgres, startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
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

/** Three whole gateways that share what they know of failed logins. */
const startGateways = async (test: Test) => {
  const [postgres, redis] = [await startPostgres(test), await startRedis(test)]
  const env = {
    REDIS_URL: redis.url,
    TRUST_PROXY: '127.0.0.1',
    OPS_PORT: '0',
    ...ldap.env,
    // A hundred logins of one person wait for each other, on a busy machine too.
    LDAP_TIMEOUT_MS: '20000'
  }
  const worlds: World[] = []
  for (let n = 0; n < 3; n++) worlds.push(await startGateway(test, { postgres, env }))
  const login = async (n: number, from: string, username: string, password: string) => {
    const world = worlds[n % worlds.length]
    if (world === undefined) throw new Error('no gateway')
    let answer = await postLogin(world, username, { password, from })
    // A crowd that waits for the database for longer than a login may, on a machine that does other things too.
    while (answer.status === 503) answer = await postLogin(world, username, { password, from })
    const body = (await answer.json()) as { code?: string; requestId?: string }
    return { status: answer.status, retryAfter: answer.headers.get('retry-after'), body, world }
  }
  return { worlds, postgres, login }
}

t.test('guesses from many addresses through three gateways lock no one out', async t => {
  const { login, postgres, worlds } = await startGateways(t)
  t.equal((await login(0, HOME, 'maria', SAMPLE_PASSWORD)).status, 200)
  const statuses = new Map<number, number>()
  const guess = (n: number) => login(n, stranger(n), n % 2 ? 'maria' : 'CORP\\Maria', `guess ${n}`)
  for (let first = 0; first < 600; first += 100) {
    const crowd = Array.from({ length: 100 }, (_, n) => guess(first + n))
    for (const { status } of await Promise.all(crowd)) statuses.set(status, (statuses.get(status) ?? 0) + 1)
  }
  t.same(Object.fromEntries(statuses), { 401: 2, 429: 598 })
  t.equal(await ldap.failureCount('maria'), 2)
  const refused = await login(1, stranger(9), 'maria', SAMPLE_PASSWORD)
  t.match(refused, { status: 429, retryAfter: /^\d+$/, body: { statusCode: 429, code: 'GW_LOGIN_THROTTLED' } })
  t.notMatch(JSON.stringify(refused.body), /maria|account/)
  await refused.world.logged(
    line => line.requestId === refused.body.requestId && line.reason === 'login-throttled-account'
  )
  t.equal((await login(2, HOME, 'maria', SAMPLE_PASSWORD)).status, 200, 'from home the owner gets in')
  await Promise.all(worlds.map(world => world.gateway.close()))
  const [audit] = await postgres.query("SELECT count(*)::int AS n FROM audit_events WHERE action = 'login.failed'")
  t.ok(Number(audit?.n) < 100, `600 guesses are ${audit?.n} entries of the audit log`)
})

t.test('twenty failures of one client close all gateways for its logins, and every refusal is counted', async t => {
  const { login, worlds } = await startGateways(t)
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, n) => login(n, '192.0.2.1', `name${n}`, 'Verao2026'))
  )
  t.equal(answers.filter(({ status }) => status === 401).length, 20)
  const refused = await login(1, '192.0.2.1', 'ana', SAMPLE_PASSWORD)
  t.match(refused, { status: 429, body: { code: 'GW_LOGIN_THROTTLED' } })
  t.ok(Number(refused.retryAfter) > 200 && Number(refused.retryAfter) <= 300, `${refused.retryAfter}`)
  let counted = 0
  for (const { gateway } of worlds) {
    const metrics = await (await fetch(`http://127.0.0.1:${gateway.opsPort}/metrics`)).text()
    for (const [, count] of metrics.matchAll(/^portaria_logins_total\{.*"login-throttled-client"\} (\d+)$/gm))
      counted += Number(count)
  }
  t.equal(counted, 41)
  t.equal((await login(1, '192.0.2.2', 'ana', SAMPLE_PASSWORD)).status, 200)
})
