// Three instances before one Redis admit exactly max per address and window. RL-09, RL-13
// Timed by the clock of the machine.
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { flood, median, startLimiter } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const addresses = Array.from({ length: 40 }, (_, index) => `203.0.113.${index}`)

t.test(
  '50 clients from 40 addresses at ten times the limit get exactly max per window from three instances',
  async t => {
    const redis = await startRedis(t)
    const limiters = await Promise.all([1, 2, 3].map(() => startLimiter(t, redis.url)))
    const options = { max: 30, windowMs: 1500, keys: addresses, clients: 50, forMs: 6000, pauseMs: 6 }
    const { admitted, requests, commands, waitsMs } = await flood(limiters, options)

    t.equal(admitted.size, 40)
    for (const [address, windows] of admitted) {
      // The flood may end in the middle of the last window.
      t.same(
        windows.slice(0, -1),
        windows.slice(0, -1).fill(30),
        `${address} got 30 in each of ${windows.length - 1} windows`
      )
      t.ok((windows.at(-1) ?? 0) <= 30)
      t.ok(windows.length >= 3)
    }
    t.comment(`${requests} requests, ${commands} commands, median wait ${median(waitsMs).toFixed(3)} ms`)
    t.ok(commands / requests <= 0.1, `${(commands / requests).toFixed(3)} commands per request`)
    t.ok(median(waitsMs) < 5)
    t.same(new Set(limiters.map(limiter => limiter.status().mode)), new Set(['redis']))
  }
)

t.test('a lone client behind one instance gets all of max, one after the other', async t => {
  const redis = await startRedis(t)
  const [first] = await Promise.all([1, 2, 3].map(() => startLimiter(t, redis.url)))
  const verdicts = []
  for (let index = 0; index < 400; index++) verdicts.push(await first?.take('global', '198.51.100.1', 300, 60_000))

  t.equal(verdicts.filter(verdict => verdict?.allowed).length, 300)
  t.same(
    verdicts.slice(0, 300).map(verdict => verdict?.remaining),
    Array.from({ length: 300 }, (_, index) => 299 - index)
  )
  t.match(verdicts.at(-1), { allowed: false, limit: 300, remaining: 0 })
})

t.test('a thousand requests at once on three instances: exactly 300 pass', async t => {
  const redis = await startRedis(t)
  const limiters = await Promise.all([1, 2, 3].map(() => startLimiter(t, redis.url)))
  const verdicts = await Promise.all(
    Array.from({ length: 1000 }, (_, index) => limiters[index % 3]?.take('global', '198.51.100.2', 300, 60_000))
  )

  t.equal(verdicts.filter(verdict => verdict?.allowed).length, 300)
})

t.test('an address known to be over the limit costs Redis nothing', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  for (let index = 0; index < 60; index++) await limiter.take('global', '198.51.100.3', 50, 60_000)
  const before = limiter.status().commands
  for (let index = 0; index < 50_000; index++) {
    const verdict = limiter.take('global', '198.51.100.3', 50, 60_000)
    if (verdict instanceof Promise || verdict.allowed) t.fail('refused at once')
  }

  t.equal(limiter.status().commands, before)
})

t.test('permits that an instance holds come back within 300 ms of its last request', async t => {
  const redis = await startRedis(t)
  const [holder, other] = await Promise.all([1, 2].map(() => startLimiter(t, redis.url)))
  // Quick demand makes the holder keep a reserve.
  for (let index = 0; index < 50; index++) await holder?.take('global', '198.51.100.4', 100, 60_000)
  const idleSince = performance.now()
  let admitted = 0
  await until(
    async () => {
      while ((await other?.take('global', '198.51.100.4', 100, 60_000))?.allowed) admitted++
      return admitted === 50
    },
    'all permits are found',
    1000
  )

  t.ok(performance.now() - idleSince < 300, `all of max was had ${Math.round(performance.now() - idleSince)} ms later`)
})

t.test('close gives back at once what is in hand', async t => {
  const redis = await startRedis(t)
  const [holder, other] = await Promise.all([1, 2].map(() => startLimiter(t, redis.url)))
  for (let index = 0; index < 50; index++) await holder?.take('global', '198.51.100.5', 100, 60_000)
  await holder?.close()
  let admitted = 0
  for (let index = 0; index < 100; index++)
    if ((await other?.take('global', '198.51.100.5', 100, 60_000))?.allowed) admitted++

  t.equal(admitted, 50)
})

t.test('limits of different names, sizes and keys do not touch each other', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  const take = async (name: string, key: string, max: number) => (await limiter.take(name, key, max, 60_000)).allowed

  t.same([await take('global', 'a', 1), await take('global', 'a', 1)], [true, false])
  t.same([await take('GET /x', 'a', 1), await take('GET /x', 'a', 1)], [true, false])
  t.same([await take('global', 'b', 1), await take('global', 'a', 2)], [true, true])
})

t.test('a window is closed by Redis and the next one opened by the next request', async t => {
  const redis = await startRedis(t)
  const limiter = await startLimiter(t, redis.url)
  const take = () => limiter.take('global', '198.51.100.6', 2, 300)
  t.match([await take(), await take(), await take()], [{ allowed: true }, { allowed: true }, { allowed: false }])
  const { resetMs } = await take()
  t.ok(resetMs > 0 && resetMs <= 300)
  await delay(resetMs + 5)

  t.match(await take(), { allowed: true, remaining: 1 })
})
