// Whatever fails around a login, fewer binds fail than lock an account, and nobody pays for a directory that is away.
// LD-14, RL-06
import t from 'tap'
import { startOpenLdap } from '../support/openldap.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'
import { startThrottles, tally } from '../support/throttles.ts'
import { until } from '../support/until.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
/** Two of the four permits are kept for known addresses. */
const STRANGERS = THRESHOLD - 3
const stranger = (n: number) => `203.0.${n >> 8}.${n & 255}`

t.test('several instances on one Postgres lock no account, nor do new ones with another JWT_SECRET', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres })
  const guess = (n: number) => world.login({ username: 'carlos', password: `guess ${n}`, from: stranger(n), at: n })
  await Promise.all(Array.from({ length: 300 }, (_, n) => guess(n)))
  t.equal(await ldap.failureCount('carlos'), STRANGERS)
  const changed = await startThrottles(t, {
    ldap,
    postgres,
    databaseUrl: world.databaseUrl,
    secret: 'another secret after a rotation, also long enough'
  })
  const more = Array.from({ length: 50 }, (_, n) =>
    changed.login({ username: 'carlos', password: `more ${n}`, from: stranger(n), at: n })
  )
  t.same(
    tally(await Promise.all(more)),
    { 'login-throttled-account': 50 },
    'new processes and a new JWT_SECRET as well'
  )
  t.equal(await ldap.failureCount('carlos'), STRANGERS)
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

t.test('a transaction whose gateway has vanished keeps its locks for seconds only', async t => {
  const postgres = await startOwnPostgres(t)
  const { database } = await openStore(t, postgres)
  const [row] = await database.read(manager => manager.query('SHOW idle_in_transaction_session_timeout'))
  t.same(row, { idle_in_transaction_session_timeout: '10s' })
})
