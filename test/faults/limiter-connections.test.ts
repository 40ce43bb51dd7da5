// A connection to Redis that is cut, leads to a demoted server or is refused its database: the count stays exact.
import t from 'tap'
import type { Limiter } from '../../gateway/limits/limiter.ts'
import { modes, recordingLog, startLimiter } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'
import { startRelay } from '../support/relay.ts'
import { until } from '../support/until.ts'

/** Long enough for a machine that does ten other things; a connection that ended has the same time as a slow reply. */
const timeoutMs = 20_000

const admit = async (limiters: readonly Limiter[], key: string, max: number, times: number): Promise<number> => {
  let admitted = 0
  for (let n = 0; n < times; n++)
    for (const limiter of limiters) if ((await limiter.take('global', key, max, 60_000)).allowed) admitted++
  return admitted
}

// RV-39
t.test('a connection that is cut with a command in flight is made anew before anything is counted locally', async t => {
  const redis = await startRedis(t)
  const relay = await startRelay(t, redis.port)
  const log = recordingLog()
  const a = await startLimiter(t, redis.url, { timeoutMs })
  const b = await startLimiter(t, `redis://127.0.0.1:${relay.port}`, { timeoutMs, log })
  t.equal(await admit([a], 'x', 100, 120), 100)
  relay.set('from-store')
  const asked = Array.from({ length: 150 }, () => b.take('global', 'x', 100, 60_000))
  await until(async () => (await redis.command('info', 'clients')).includes('connected_clients:'))
  relay.set('cut')
  relay.set('open')
  t.equal((await Promise.all(asked)).filter(({ allowed }) => allowed).length, 0)
  t.same(log.lines, [], 'Redis never counted as away')
})

t.test('a connection that cannot be made anew in time is why Redis counts as away', async t => {
  const redis = await startRedis(t)
  const relay = await startRelay(t, redis.port)
  const limiter = await startLimiter(t, `redis://127.0.0.1:${relay.port}`)
  await admit([limiter], 'x', 100, 1)
  await until(() => limiter.status().mode === 'redis')
  relay.set('from-store')
  const asked = limiter.take('global', 'y', 1, 60_000)
  await new Promise(resolve => setImmediate(resolve))
  relay.set('cut')
  t.match(await asked, { allowed: true })
  t.match(limiter.status(), { mode: 'degraded', reason: 'connection' })
})

// RV-43
t.test('a burst whose reply is lost counts once', async t => {
  const redis = await startRedis(t)
  const relay = await startRelay(t, redis.port)
  const limiter = await startLimiter(t, `redis://127.0.0.1:${relay.port}`, { timeoutMs })
  // Redis knows the script from then on.
  await admit([limiter], 'other', 100, 1)
  await redis.command('flushall')
  relay.set('from-store')
  const burst = Array.from({ length: 50 }, () => limiter.take('global', 'x', 100, 60_000))
  await until(async () => (await redis.command('keys', 'portaria:rate:{*}')) !== '', 'Redis has run the script')
  relay.set('cut')
  relay.set('open')
  t.equal((await Promise.all(burst)).filter(({ allowed }) => allowed).length, 50)
  await until(() => limiter.status().mode === 'redis', 'it counts in Redis')
  t.equal(await admit([limiter], 'x', 100, 300), 50)
})

// RV-40
t.test('a primary that is demoted behind one address, its connections open, is left for the new one', async t => {
  const atOnce = ['--repl-diskless-sync-delay', '0']
  const old = await startRedis(t, atOnce)
  const next = await startRedis(t, ['--replicaof', '127.0.0.1', `${old.port}`, ...atOnce])
  await until(async () => (await next.command('info', 'replication')).includes('master_link_status:up'))
  const relay = await startRelay(t, old.port)
  const url = `redis://127.0.0.1:${relay.port}`
  const limiters = await Promise.all([startLimiter(t, url, { timeoutMs }), startLimiter(t, url, { timeoutMs })])
  const before = await admit(limiters, 'x', 100, 20)
  await next.command('replicaof', 'no', 'one')
  relay.redirect(next.port)
  await old.command('replicaof', '127.0.0.1', `${next.port}`)
  t.equal(before + (await admit(limiters, 'x', 100, 260)), 100)
  t.equal(await admit(limiters, 'y', 100, 260), 100)
  t.same(modes(limiters), ['redis', 'redis'])
})

t.test('a server that no longer knows the password is left, and says why', async t => {
  const redis = await startRedis(t)
  await redis.command('acl', 'setuser', 'app', 'on', '>first', '~*', '&*', '+@all')
  const limiter = await startLimiter(t, `redis://app:first@127.0.0.1:${redis.port}`)
  await admit([limiter], 'x', 100, 1)
  await redis.command('acl', 'setuser', 'app', 'resetpass', '>second')
  await redis.command('client', 'kill', 'user', 'app')
  await limiter.take('global', 'y', 100, 60_000)
  t.equal(limiter.status().mode, 'degraded')
  await until(() => limiter.status().reason === 'wrongpass', 'a probe has been refused')
  await redis.command('acl', 'setuser', 'app', '>first')
  await until(() => limiter.status().mode === 'redis', 'it is let in again')
})

// RV-46
t.test('a database that is refused is Redis away, and no key is written to another one', async t => {
  const redis = await startRedis(t)
  await redis.command('acl', 'setuser', 'app', 'on', '>secret', '~*', '&*', '+@all', '-select')
  for (const [url, code] of [
    [`${redis.url}/99`, undefined],
    [`redis://app:secret@127.0.0.1:${redis.port}/3`, 'NOPERM']
  ] as const) {
    const lines: object[] = []
    const log = { info: () => {}, warn: (fields: object) => void lines.push(fields) }
    const limiter = await startLimiter(t, url, { log, timeoutMs }, 0)
    t.equal(await admit([limiter], 'x', 2, 5), 2)
    t.match(limiter.status(), { mode: 'degraded', reason: 'select' })
    t.same(lines, [{ reason: 'select', ...(code === undefined ? {} : { code }) }])
    await limiter.close()
    t.equal(await redis.command('info', 'keyspace'), '# Keyspace')
  }
})
