// Whatever fails around a login, fewer binds fail than lock an account, and nobody pays for a directory that is away.
// LD-14, RL-06
import t from 'tap'
import { startOpenLdap } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startOwnPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'
import { startThrottles, tally } from '../support/throttles.ts'

const THRESHOLD = 5
const ldap = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
const stranger = (n: number) => `203.0.${n >> 8}.${n & 255}`

t.test('Redis may be emptied or die in the middle of an attack: accounts stay open, clients stay limited', async t => {
  const postgres = await startOwnPostgres(t)
  const redis = await startRedis(t)
  const world = await startThrottles(t, { ldap, postgres, redisUrl: redis.url })
  const guess = (n: number) => world.login({ username: 'maria', password: `guess ${n}`, from: stranger(n), at: n })
  const spray = (n: number) => world.login({ username: `name${n}`, password: 'x', from: '192.0.2.9', at: 0 })
  await Promise.all([guess(0), guess(1)])
  for (let n = 0; n < 12; n++) await spray(n)
  await redis.command('flushall')
  await Promise.all(Array.from({ length: 100 }, (_, n) => guess(10 + n)))
  for (let n = 12; n < 16; n++) await spray(n)
  await redis.kill()
  await Promise.all(Array.from({ length: 300 }, (_, n) => guess(200 + n)))
  t.equal(await ldap.failureCount('maria'), THRESHOLD - 2)
  const away = []
  for (let n = 16; n < 60; n++) away.push(await spray(n))
  t.match(tally(away), { 'unknown-user': 16, 'login-throttled-client': 28 }, 'the four that Redis knew still count')
  await redis.restart()
  await Promise.all(Array.from({ length: 100 }, (_, n) => guess(600 + n)))
  t.equal(await ldap.failureCount('maria'), THRESHOLD - 2)
})

t.test('a Redis that answers nothing delays a login a little and forgives nothing', async t => {
  const postgres = await startOwnPostgres(t)
  const redis = await startRedis(t)
  const world = await startThrottles(t, { ldap, postgres, redisUrl: redis.url, instances: 1, perIp: 3 })
  redis.freeze()
  t.teardown(redis.thaw)
  const told = []
  for (let n = 0; n < 5; n++) {
    const ownTimeMs = measureOwnTime()
    told.push(await world.login({ username: `name${n}`, password: 'x', from: '192.0.2.10' }))
    t.ok(ownTimeMs() < 2000)
  }
  t.same(tally(told), { 'unknown-user': 3, 'login-throttled-client': 2 })
})

t.test('without Redis several instances on one Postgres lock no account either', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres })
  const guess = (n: number) => world.login({ username: 'carlos', password: `guess ${n}`, from: stranger(n), at: n })
  await Promise.all(Array.from({ length: 300 }, (_, n) => guess(n)))
  t.equal(await ldap.failureCount('carlos'), THRESHOLD - 2)
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
  t.equal(await ldap.failureCount('carlos'), THRESHOLD - 2)
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

t.test('a directory that cannot be reached uses up no permits', async t => {
  const postgres = await startOwnPostgres(t)
  const away = await startOpenLdap(t)
  const world = await startThrottles(t, { ldap: away, postgres, instances: 1, perIp: 4 })
  await away.stop()
  for (let n = 0; n < 12; n++)
    t.match(await world.login({ username: 'maria', password: `any ${n}`, from: '192.0.2.11' }), {
      what: 'directory-unreachable'
    })
  await away.start()
  t.match(await world.login({ username: 'maria', password: away.password, from: '192.0.2.11' }), { what: 'in' })
})

t.test('binds without an answer count as failed, for the directory may judge them later', async t => {
  const postgres = await startOwnPostgres(t)
  const frozen = await startOpenLdap(t, { lockoutThreshold: THRESHOLD })
  const world = await startThrottles(t, { ldap: frozen, postgres, settings: { timeoutMs: 1500 }, failureFloorMs: 0 })
  frozen.freeze()
  t.teardown(frozen.thaw)
  const guess = (n: number) => world.login({ username: 'maria', password: `late ${n}`, from: stranger(n), at: n })
  const told = await Promise.all(Array.from({ length: 40 }, (_, n) => guess(n)))
  const { 'login-throttled-account': throttled, ...tried } = tally(told)
  t.equal(throttled, 42 - THRESHOLD)
  // A machine that stands still meanwhile may name another stage of the same failure.
  t.equal(
    Object.values(tried).reduce((sum, count) => sum + count, 0),
    THRESHOLD - 2,
    JSON.stringify(tried)
  )
  t.ok(
    Object.keys(tried).every(reason => reason.startsWith('directory-')),
    JSON.stringify(tried)
  )
  frozen.thaw()
  t.match(tally(await Promise.all([50, 51, 52].map(guess))), { 'login-throttled-account': 3 })
  t.ok((await frozen.failureCount('maria')) <= THRESHOLD - 2)
})

t.test('an instance that dies in the middle of a login leaves its permit used up', async t => {
  const postgres = await startOwnPostgres(t)
  const world = await startThrottles(t, { ldap, postgres, instances: 2, settings: { timeoutMs: 20_000 } })
  const [row] = await postgres.query(
    `INSERT INTO login_permits (key, permits, expires_at)
     VALUES (translate(encode(sha256('login'::bytea || '\\x00'::bytea || 'twin'::bytea), 'base64'), '+/=', '-_'),
       'o' || floor(extract(epoch FROM now()) * 1000 - 60000) || '.dead1 o' ||
       floor(extract(epoch FROM now()) * 1000 - 60000) || '.dead2', now() + interval '1 hour') RETURNING permits`,
    [],
    world.databaseUrl
  )
  t.match(row, { permits: /dead1 o\d+\.dead2$/ })
  const guess = (n: number) => world.login({ username: 'twin', password: `guess ${n}`, from: stranger(n), at: n })
  const told = tally(await Promise.all([1, 2, 3, 4].map(guess)))
  t.same(told, { 'wrong-password': THRESHOLD - 2 - 2, 'login-throttled-account': 3 })
})
