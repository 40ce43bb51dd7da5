// Three instances before one Redis admit exactly max per address and window. RL-09, RL-13
// Timed by the clock of the machine.
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { countedInRedis, flood, median, startLimiter } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const addresses = Array.from({ length: 40 }, (_, index) => `203.0.113.${index}`)

const startThree = async (t: Test) => {
  const { url } = await startRedis(t)
  const limiters = await Promise.all([startLimiter(t, url), startLimiter(t, url), startLimiter(t, url)])
  const [first, second] = limiters
  return { limiters, first, second }
}

t.test(
  '50 clients from 40 addresses at ten times the limit get exactly max per window from three instances',
  async t => {
    const { limiters } = await startThree(t)
    const options = { max: 30, windowMs: 1500, clients: 50, forMs: 4600, pauseMs: 6 }
    const { admitted, flooded, requests, commands, waitsMs } = await countedInRedis(limiters, attempt =>
      flood(limiters, { ...options, keys: addresses.map(address => `${attempt} ${address}`) })
    )

    t.equal(admitted.size, 40)
    t.same(new Set(flooded), new Set([30]), 'exactly 30 in each window')
    for (const [address, windows] of admitted) t.ok(Math.max(...windows) <= 30, `${address}: ${windows}`)
    const total = [...admitted.values()].flat().reduce((sum, count) => sum + count, 0)
    const perPermit = commands / total
    t.comment(
      `${requests} requests, ${total} admitted, ${commands} commands, median wait ${median(waitsMs).toFixed(3)} ms`
    )
    t.ok(perPermit <= 1, `${perPermit.toFixed(3)} commands per request admitted`)
    t.ok(median(waitsMs) < 50, 'no request waits for Redis in its turn')
  }
)

t.test('a lone client behind one instance gets all of max, one after the other', async t => {
  const { first } = await startThree(t)
  const verdicts = await countedInRedis([first], async attempt => {
    const taken = []
    for (let index = 0; index < 400; index++)
      taken.push(await first.take('global', `${attempt} 198.51.100.1`, 300, 60_000))
    return taken
  })

  t.equal(verdicts.filter(({ allowed }) => allowed).length, 300)
  t.same(
    verdicts.slice(0, 300).map(({ remaining }) => remaining),
    Array.from({ length: 300 }, (_, index) => 299 - index)
  )
  t.match(verdicts.at(-1), { allowed: false, limit: 300, remaining: 0 })
})

t.test('a thousand requests at once on three instances: exactly 300 pass', async t => {
  const { limiters } = await startThree(t)
  const verdicts = await countedInRedis(limiters, attempt => {
    const take = (_: unknown, index: number) =>
      limiters[index % 3]?.take('global', `${attempt} 198.51.100.2`, 300, 60_000)
    return Promise.all(Array.from({ length: 1000 }, take))
  })

  t.equal(verdicts.filter(verdict => verdict?.allowed).length, 300)
})

t.test('an address known to be over the limit costs Redis nothing', async t => {
  const { first } = await startThree(t)
  const { commands, unknown } = await countedInRedis([first], async attempt => {
    const take = () => first.take('global', `${attempt} 198.51.100.3`, 50, 60_000)
    for (let index = 0; index < 60; index++) await take()
    const before = first.status().commands
    let unknown = 0
    for (let index = 0; index < 50_000; index++) {
      const verdict = take()
      if (verdict instanceof Promise || verdict.allowed) unknown++
    }
    return { commands: first.status().commands - before, unknown }
  })

  t.equal(unknown, 0, 'refused at once')
  t.equal(commands, 0)
})

t.test('permits that an instance holds come back within 300 ms of its last request', async t => {
  const { first, second, limiters } = await startThree(t)
  const round = async (attempt: number) => {
    const key = `${attempt} 198.51.100.4`
    // Quick demand makes the holder keep a reserve.
    for (let index = 0; index < 50; index++) await first.take('global', key, 100, 60_000)
    const idleSince = performance.now()
    let admitted = 0
    await until(async () => {
      while ((await second.take('global', key, 100, 60_000)).allowed) admitted++
      return admitted >= 50
    }, 'all permits are found')
    return { admitted, tookMs: performance.now() - idleSince }
  }
  const { admitted, tookMs } = await countedInRedis(limiters, round, 20)

  t.equal(admitted, 50)
  t.ok(tookMs < 300, `all of max was had ${Math.round(tookMs)} ms later`)
})

t.test('close gives back at once what is in hand', async t => {
  const redis = await startRedis(t)
  const other = await startLimiter(t, redis.url)
  const admitted = await countedInRedis([other], async attempt => {
    const holder = await startLimiter(t, redis.url)
    const key = `${attempt} 198.51.100.5`
    for (let index = 0; index < 50; index++) await holder.take('global', key, 100, 60_000)
    if (holder.status().mode !== 'redis') return undefined
    await holder.close()
    let count = 0
    for (let index = 0; index < 100; index++) if ((await other.take('global', key, 100, 60_000)).allowed) count++
    return count
  })

  t.equal(admitted, 50)
})

t.test('limits of different names, sizes and keys do not touch each other', async t => {
  const { first } = await startThree(t)
  const allowed = await countedInRedis([first], async attempt => {
    const take = async (name: string, key: string, max: number) =>
      (await first.take(name, `${attempt} ${key}`, max, 60_000)).allowed
    return {
      names: [await take('global', 'a', 1), await take('global', 'a', 1)],
      other: [await take('GET /x', 'a', 1), await take('GET /x', 'a', 1)],
      keys: [await take('global', 'b', 1), await take('global', 'a', 2)]
    }
  })

  t.same(allowed, { names: [true, false], other: [true, false], keys: [true, true] })
})

t.test('a window is closed by Redis and the next one opened by the next request', async t => {
  const { first } = await startThree(t)
  const round = async (attempt: number) => {
    const take = () => first.take('global', `${attempt} 198.51.100.6`, 2, 300)
    const taken = [await take(), await take(), await take(), await take()]
    const resetMs = taken.at(-1)?.resetMs ?? 0
    await delay(resetMs + 5)
    return { allowed: taken.map(({ allowed }) => allowed), resetMs, next: await take() }
  }
  const { allowed, resetMs, next } = await countedInRedis([first], round, 50)

  t.same(allowed, [true, true, false, false])
  t.ok(resetMs > 0 && resetMs <= 300)
  t.match(next, { allowed: true, remaining: 1 })
})
