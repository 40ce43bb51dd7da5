// With Redis killed, frozen, slow, flushed, full, read-only or losing a master, nobody waits and nobody fails.
// RW-14, RW-37, RW-38, RL-04, RL-05, RL-06, RL-11, DF-07, DF-08, DF-09, DF-10
// Timed by the clock of the machine.
import t, { type Test } from 'tap'
import type { Limiter } from '../../gateway/limits/limiter.ts'
import {
  countedInRedis,
  type FloodResult,
  flood,
  median,
  modes,
  recordingLog,
  startLimiter
} from '../support/limiters.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startRedis, startRedisCluster } from '../support/redis.ts'
import { startRelay } from '../support/relay.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { until } from '../support/until.ts'

const addresses = Array.from({ length: 40 }, (_, index) => `203.0.113.${index}`)
const limit = { max: 30, windowMs: 1500, keys: addresses, clients: 50, pauseMs: 6 }
/** A turn of the event loop that is later than this is the machine's: its clients would wait for it, and windows end in it. */
const LATE_MS = 150
/** Rounds in which an instance stands still by itself. */
const STANDING_STILL = Number.POSITIVE_INFINITY
const standStill = (ms: number) => {
  const over = performance.now() + ms
  while (performance.now() < over);
}
const three = (t: Test, url: string) => Promise.all([1, 2, 3].map(() => startLimiter(t, url)))
const isBack = (limiters: readonly Limiter[]) => modes(limiters).every(mode => mode === 'redis')

const assertBearable = (t: Test, { admitted, waitsMs }: FloodResult, most: number) => {
  const counts = [...admitted.values()].flat()
  t.ok(Math.max(...counts) <= most, `at most ${Math.max(...counts)} admitted per address and window`)
  t.ok(median(waitsMs) < 50, `median wait ${median(waitsMs).toFixed(3)} ms`)
  // Redis may be waited for for 200 ms, and this process may stand still for as long as is no disturbance.
  t.ok((waitsMs[Math.floor(waitsMs.length * 0.99)] ?? 0) < 200 + LATE_MS)
}

t.test('Redis killed and restarted in the middle of a flood: limits go on locally, then exactly again', async t => {
  const redis = await startRedis(t)
  const limiters = await three(t, redis.url)
  const result = await undisturbed(LATE_MS, async attempt => {
    const before = limiters.map(limiter => limiter.status().commands)
    const keys = addresses.map(address => `${attempt} ${address}`)
    const flooding = flood(limiters, { ...limit, keys, forMs: 4000 })
    await until(() => limiters.every((limiter, index) => limiter.status().commands > 50 + (before[index] ?? 0)))
    await redis.kill()
    await until(() => modes(limiters).every(mode => mode === 'degraded'))
    await redis.restart()
    await until(() => isBack(limiters), 'every instance counts in Redis')
    return flooding
  })
  assertBearable(t, result, 3 * 30)
  const { flooded } = await countedInRedis(limiters, attempt => {
    const keys = addresses.map(address => `new ${attempt} ${address}`)
    return flood(limiters, { ...limit, keys, forMs: 1900 })
  })
  t.same(new Set(flooded), new Set([30]))
})

t.test('a frozen Redis is left within a second and used again when it thaws; one log line per change', async t => {
  const redis = await startRedis(t)
  const log = recordingLog()
  const limiter = await startLimiter(t, redis.url, { log })
  await limiter.take('global', 'a', 10, 60_000)
  await until(() => limiter.status().mode === 'redis')
  log.lines.length = 0
  redis.freeze()
  const ownTimeMs = measureOwnTime()
  const verdicts = []
  for (let index = 0; index < 200; index++) verdicts.push(await limiter.take('global', `b${index % 10}`, 10, 60_000))
  await until(() => limiter.status().mode === 'degraded', 'degraded')

  t.ok(ownTimeMs() < 1000)
  t.equal(verdicts.filter(({ allowed }) => allowed).length, 100, 'each of ten keys got its ten')
  t.match(limiter.status(), { mode: 'degraded', reason: 'timeout' })
  redis.thaw()
  await until(() => limiter.status().mode === 'redis', 'back')
  const levels = log.lines.map(({ level }) => level)
  t.same(levels, ['warn', 'info'])
})

/** Four keys of a hundred each in a window that does not end, for as long as twelve clients ask for each of them. */
const floodOnce = (limiters: readonly Limiter[], attempt: number) =>
  flood(limiters, {
    ...limit,
    keys: addresses.slice(0, 4).map(address => `${attempt} ${address}`),
    clients: 48,
    max: 100,
    windowMs: 60_000,
    forMs: 1500
  })

t.test('a Redis that answers, but late, is not away: the count stays exact from the first window on', async t => {
  const line = await startRelay(t, (await startRedis(t)).port)
  const limiters = await three(t, `redis://127.0.0.1:${line.port}`)
  await Promise.all(limiters.map(limiter => limiter.take('global', 'other', 2, 60_000)))
  line.delayReplies(45)
  const { admitted } = await countedInRedis(limiters, attempt => floodOnce(limiters, attempt))
  for (const [key, windows] of admitted) t.same(windows, [100], key)
})

t.test('an instance that stood still reads the answers that wait for it before it checks Redis', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  await limiter.take('global', 'other', 2, 60_000)
  const round = async (attempt: number) => {
    const asked = limiter.take('global', `${attempt} a`, 2, 60_000)
    setImmediate(() => standStill(250))
    return await asked
  }
  t.match(await countedInRedis([limiter], round, STANDING_STILL), { allowed: true, remaining: 1 })
})

t.test('what was admitted while Redis was away is reported on return, before anybody asks', async t => {
  const redis = await startRedis(t)
  const [first, second] = await Promise.all([1, 2].map(() => startLimiter(t, redis.url)))
  if (first === undefined || second === undefined) return
  // Permits in hand at the time of the outage are not granted afterwards, since Redis has forgotten them.
  for (let index = 0; index < 20; index++) await first.take('global', 'held', 100, 60_000)
  await redis.kill()
  const ownTimeMs = measureOwnTime()
  await first.take('global', 'other', 5, 60_000)
  t.ok(ownTimeMs() < 400, 'the first request waits no longer than it takes to call Redis away')
  t.equal(first.status().mode, 'degraded')
  for (let index = 0; index < 7; index++) await first.take('global', 'a', 10, 60_000)
  await redis.restart()
  await until(() => first.status().mode === 'redis', 'back')
  await until(async () => (await redis.command('dbsize')) >= '3')
  await until(
    async () => (await second.take('global', 'unrelated', 1e6, 60_000)) && second.status().mode === 'redis',
    'the second is back'
  )
  let [a, held] = [0, 0]
  for (let index = 0; index < 100; index++) {
    if ((await second.take('global', 'a', 10, 60_000)).allowed) a++
    if ((await second.take('global', 'held', 100, 60_000)).allowed) held++
  }

  t.equal(a, 3)
  t.equal(held, 80)
  t.notOk((await first.take('global', 'held', 100, 60_000)).allowed)
})

t.test('a flushed Redis takes a window up again where it stood', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  const round = async (attempt: number) => {
    const take = () => limiter.take('global', `${attempt} a`, 40, 60_000)
    let admitted = 0
    for (let index = 0; index < 20; index++) if ((await take()).allowed) admitted++
    const { resetMs } = await take()
    admitted++
    await redis.command('flushall')
    for (let index = 0; index < 100; index++) if ((await take()).allowed) admitted++
    return { admitted, resetMs, laterMs: (await take()).resetMs }
  }
  const { admitted, resetMs, laterMs } = await countedInRedis([limiter], round)

  t.equal(admitted, 40)
  t.ok(laterMs <= resetMs)
})

t.test('a full or read-only Redis is one that is away, until it can be written again', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  const faults: [string[], string[], string][] = [
    [['config', 'set', 'maxmemory', '1'], ['config', 'set', 'maxmemory', '0'], 'oom'],
    [['replicaof', '127.0.0.1', '1'], ['replicaof', 'no', 'one'], 'readonly']
  ]
  for (const [breakIt, mendIt, reason] of faults) {
    await redis.command(...breakIt)
    t.match(await limiter.take('global', reason, 2, 60_000), { allowed: true, remaining: 1 })
    t.match(limiter.status(), { mode: 'degraded', reason })
    await redis.command(...mendIt)
    await until(() => limiter.status().mode === 'redis', 'back')
  }
})

t.test('without any Redis at the start the limit holds locally', async t => {
  const redis = await startRedis(t)
  await redis.kill()
  const limiter = await startLimiter(t, redis.url, {}, 0)
  const verdicts = []
  for (let index = 0; index < 5; index++) verdicts.push(await limiter.take('global', 'a', 3, 60_000))

  const admitted = verdicts.map(({ allowed }) => allowed)
  t.same(admitted, [true, true, true, false, false])
  t.match(limiter.status(), { mode: 'degraded', reason: 'connection' })
})

t.test('a Redis Cluster counts exactly, and losing a master stops no one', async t => {
  const cluster = await startRedisCluster(t)
  const url = `redis-cluster://${cluster.nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`
  const limiters = await three(t, url)
  const few = addresses.slice(0, 10)
  const flooded = await countedInRedis(limiters, async attempt => {
    const options = { ...limit, keys: few.map(address => `${attempt} ${address}`), forMs: 1900 }
    const { flooded } = await flood(limiters, options)
    return flooded.length === 0 ? undefined : flooded
  })
  t.same(new Set(flooded), new Set([30]))

  const flooding = flood(limiters, { ...limit, keys: addresses.map(address => `new ${address}`), forMs: 3500 })
  await until(() => limiters.every(limiter => limiter.status().mode === 'redis'))
  await cluster.servers[0]?.kill()
  assertBearable(t, await flooding, 3 * 30)
  t.ok(modes(limiters).some(mode => mode === 'degraded'))
})
