// What the limiter answers and when it asks, with a Redis that answers when the test says so. RL-03, RL-09, RL-11, RL-13
import t, { type Test } from 'tap'
import { createLimiter, type Limiter, type LimiterParts, type Verdict } from '../../gateway/limits/limiter.ts'
import type { RedisStore } from '../../gateway/redis/redis.ts'
import { redisFault } from '../../gateway/redis/redis-failure.ts'
import { createLeaseModel } from '../support/lease-model.ts'
import { silent } from '../support/limiters.ts'
import { fc } from '../support/worlds.ts'

interface Teardown {
  teardown(action: () => unknown): unknown
}

/** A Redis in which the lease script is its model; commands are answered when `answer` is called. */
const startModel = () => {
  const models = new Map<string, ReturnType<typeof createLeaseModel>>()
  const modelOf = (key = '') => {
    const model = models.get(key) ?? createLeaseModel()
    models.set(key, model)
    return model
  }
  const clock = { now: 1000 }
  let waiting: (() => void)[] = []
  const state = { isAway: false, isCut: false, commands: [] as (string | number)[][], keys: [] as string[] }
  const underWay = new Map<string, number>()
  const evalScript: RedisStore['evalScript'] = (_script, [key], args) =>
    new Promise((resolve, reject) => {
      state.commands.push([...args])
      state.keys.push(`${key}`)
      const way = `${args[0]} ${key}`
      underWay.set(way, (underWay.get(way) ?? 0) + 1)
      waiting.push(() => {
        underWay.set(way, (underWay.get(way) ?? 0) - 1)
        if (state.isCut) return reject(new Error('Connection is closed.'))
        if (state.isAway) return reject(new Error('OOM command not allowed'))
        const [instance, ...numbers] = args
        const [max = 0, windowMs = 0, sequence = 0, unheard = 0, generation = 0, ...rest] = numbers.map(Number)
        const [spent = 0, keep = 0, more = 0, extra = 0, leftMs = 0] = rest
        const request = { sequence, unheard, generation, spent, keep, waiting: more, extra, leftMs }
        const reply = modelOf(key).run(clock.now, `${instance}`, max, windowMs, request)
        const { nowMs, remainingMs, lent, others, free, held } = reply
        resolve([reply.generation, nowMs, remainingMs, reply.spent, lent, others, free, held])
      })
    })
  const redis = { evalScript, ready: async () => true, failure: redisFault } as unknown as RedisStore
  const turns = async () => {
    for (let turn = 0; turn < 4; turn++) await new Promise(resolve => setImmediate(resolve))
  }
  const answer = async () => {
    await turns()
    const now = waiting
    waiting = []
    for (const reply of now) reply()
    await turns()
  }
  return { redis, clock, state, underWay, turns, answer }
}

const startLimiter = (t: Teardown, parts: Partial<LimiterParts>): Limiter => {
  const limiter = createLimiter({ log: silent, timeoutMs: 60_000, ...parts })
  t.teardown(() => {
    void limiter.close()
  })
  return limiter
}

/** A limiter that has asked Redis whether it counts; `take` asks it, or another one, for a permit of `a` some time later. */
const startCounting = async (t: Teardown, max: number, windowMs = 1000, parts: Partial<LimiterParts> = {}) => {
  const model = startModel()
  const { redis, clock, answer } = model
  const start = async () => {
    const limiter = startLimiter(t, { redis, clock: () => clock.now, ...parts })
    await answer()
    return limiter
  }
  const limiter = await start()
  const take = async (laterMs = 0, from = limiter) => {
    clock.now += laterMs
    const taken = from.take('global', 'a', max, windowMs)
    await answer()
    return { ...(await taken), waited: taken instanceof Promise }
  }
  return { ...model, limiter, start, take }
}

t.test('a request during which the process stood still until its window had ended is not refused', async t => {
  const { limiter, clock, answer, turns } = await startCounting(t, 20)
  const late = limiter.take('global', 'a', 20, 1000)
  await turns()
  clock.now += 1500
  await answer()
  t.match(await late, { allowed: true, limit: 20 })
})

t.test('a Redis that cannot be written is known before the first request', async t => {
  const { redis, clock, state, answer } = startModel()
  state.isAway = true
  const limiter = startLimiter(t, { redis, clock: () => clock.now })
  await answer()
  t.match(limiter.status(), { mode: 'degraded', reason: 'oom' })
})

t.test('the first request of a window asks, the next ones spend what was lent with it', async t => {
  const { limiter, state, take } = await startCounting(t, 20)
  t.match(await take(), { waited: true, allowed: true, limit: 20, remaining: 19, resetMs: 999 })
  await take(10)
  t.match(await take(10), { allowed: true, remaining: 17, resetMs: 979 })
  const verdicts: Verdict[] = []
  for (let n = 0; n < 40; n++) verdicts.push(await take())
  t.equal(verdicts.filter(({ allowed }) => allowed).length, 17)
  t.match(verdicts.at(-1), { allowed: false, remaining: 0 })
  t.ok(state.commands.length <= 12, `${state.commands.length} commands for 20 permits`)
  t.notOk((await take()).waited, 'a window known to be over is decided here')
  t.match(limiter.status(), { mode: 'redis', entries: 1, leases: 1, commands: state.commands.length })
  t.notOk('reason' in limiter.status())
  t.match(await take(1000), { allowed: true, remaining: 19 })
})

/** Timers fire when the test says so. */
const startTimers = (t: Test) => {
  const planned: { act: (key?: string) => void; delayMs: number; key: string | undefined }[] = []
  const plan = (act: (key?: string) => void, delayMs: number, key?: string) => {
    planned.push({ act, delayMs, key })
    const timer = { unref: () => timer }
    return timer
  }
  t.intercept(globalThis, 'setTimeout', { value: plan })
  t.intercept(globalThis, 'setInterval', { value: plan })
  const fire = (delayMs: number) => {
    const last = planned.findLast(each => each.delayMs === delayMs)
    last?.act(last.key)
  }
  return { planned, fire }
}

t.test('requests beyond what the others and this instance have left are refused without asking', async t => {
  const { limiter: here, start, take, answer } = await startCounting(t, 10)
  const there = await start()
  for (const limiter of [there, there, there, here, here]) t.match(await take(100, limiter), { allowed: true })
  const taken = Array.from({ length: 6 }, () => here.take('global', 'a', 10, 1000))
  t.same(
    taken.map(each => each instanceof Promise),
    [true, true, true, true, true, false]
  )
  t.match(taken[5], { allowed: false, remaining: 0 })
  await answer()
  t.equal((await Promise.all(taken)).filter(({ allowed }) => allowed).length, 5)
})

/** Another instance holds the last of 8 permits, one of them unused, when five requests arrive here. */
const holdLastPermits = async (test: Test) => {
  const { limiter: here, start, clock, answer } = await startCounting(test, 8)
  const there = await start()
  const take = async (limiter: Limiter, times: number) => {
    const taken = Array.from({ length: times }, () => limiter.take('global', 'a', 8, 1000))
    await answer()
    return taken
  }
  await take(there, 3)
  return { here, there, taken: await take(here, 5), clock, answer }
}

// RV-41
t.test('while another instance holds the last permits unused, requests wait for them, 200 ms at most', async t => {
  const { fire } = startTimers(t)
  const { here, there, taken, clock, answer } = await holdLastPermits(t)
  const [first, , , , last] = taken
  t.match(await first, { allowed: true }, 'four are left')
  t.match(here.take('global', 'a', 8, 1000), { allowed: false, remaining: 0 }, 'nor is there one for a further request')
  let verdict: Verdict | undefined
  void Promise.resolve(last).then(known => {
    verdict = known
  })
  const tick = async (ms: number) => {
    clock.now += ms
    fire(20)
    await answer()
  }
  await tick(199)
  t.equal(verdict, undefined)
  await tick(1)
  t.match(verdict, { allowed: false, remaining: 0 })

  const another = here.take('global', 'a', 8, 1000)
  t.ok(another instanceof Promise, 'a later request waits anew')
  t.match(there.take('global', 'a', 8, 1000), { allowed: true }, 'the holder uses its permit')
  const further = there.take('global', 'a', 8, 1000)
  await answer()
  t.match(await further, { allowed: false, remaining: 0 })
  await tick(20)
  t.match(await another, { allowed: false, remaining: 0 })
})

// RV-41
t.test('exactly max over three instances all pass, and one more is refused with nothing left', async t => {
  const { redis, clock, answer } = startModel()
  const { planned } = startTimers(t)
  const limiters = Array.from({ length: 3 }, () => startLimiter(t, { redis, clock: () => clock.now }))
  await answer()
  const pass = async (ms: number) => {
    for (const end = clock.now + ms; clock.now < end; clock.now++) {
      if (clock.now % 20 === 0) for (const { act, delayMs } of planned) if (delayMs === 20) act()
      await answer()
    }
  }
  const ask = async (key: string, apartMs: number, order: readonly number[]) => {
    const take = (index: number) => limiters[index]?.take('global', key, order.length, 60_000)
    const taken = []
    for (const index of order) {
      taken.push(take(index))
      await pass(apartMs)
    }
    await pass(220)
    const all = await Promise.all(taken)
    t.equal(all.filter(verdict => verdict?.allowed).length, order.length, `${key}: ${order}`)
    const more = take(0)
    await pass(220)
    t.match(await more, { allowed: false, remaining: 0 })
  }
  const orderOf = (length: number) => fc.array(fc.nat(2), { minLength: length, maxLength: length })
  let round = 0
  for (const [length, apartMs, numRuns] of [
    [300, 1, 5],
    [1000, 0, 2]
  ] as const)
    await fc.assert(
      fc.asyncProperty(orderOf(length), order => ask(`${++round}`, apartMs, order)),
      { numRuns }
    )
})

t.test('steady demand is met from a reserve, which is refilled in time and void when its window ends', async t => {
  const { planned } = startTimers(t)
  const { limiter, redis, clock, state, answer, take } = await startCounting(t, 1000, 2000, { timeoutMs: 1234 })
  for (let n = 0; n < 30; n++) await take(5)
  const before = state.commands.length
  for (let n = 0; n < 60; n++) t.equal((await take(5)).waited, false)
  t.ok(state.commands.length > before)
  t.ok(
    planned.some(({ delayMs }) => delayMs === 1234),
    'a reply has as long as was set'
  )
  const { resetMs } = await take(5)
  clock.now += resetMs - 1
  t.match(limiter.take('global', 'a', 1000, 2000), { allowed: true, resetMs: 1 })
  clock.now += 1
  t.ok(limiter.take('global', 'a', 1000, 2000) instanceof Promise)

  const other = createLimiter({ redis, clock: () => clock.now, log: silent })
  t.teardown(() => void other.close())
  planned.length = 0
  void other.take('global', 'b', 1000, 2000)
  await answer()
  t.ok(
    planned.some(({ delayMs }) => delayMs === 100),
    'or a tenth of a second'
  )
})

t.test('permits in hand are confirmed in time, before Redis counts them as used', async t => {
  const { fire } = startTimers(t)
  const { state, take } = await startCounting(t, 1000, 60_000)
  const takeAndTick = (laterMs: number) => {
    const taking = take(laterMs)
    fire(20)
    return taking
  }
  for (let n = 0; n < 30; n++) await takeAndTick(5)
  const before = state.commands.length
  for (let n = 0; n < 8; n++) await takeAndTick(100)
  t.ok(state.commands.slice(before).some(([, , , , , , , keep]) => Number(keep) > 0))
})

t.test('a permit that comes when its window has ended is not used: the next window is asked for', async t => {
  const { redis, clock, answer } = startModel()
  startTimers(t)
  let passing = 0
  const limiter = startLimiter(t, { redis, clock: () => (clock.now += passing) })
  await answer()
  const taken = limiter.take('global', 'a', 5, 1000)
  await new Promise(resolve => setImmediate(resolve))
  clock.now += 997
  passing = 1
  await answer()
  passing = 0
  await answer()
  t.match(await taken, { allowed: true, limit: 5 })
})

t.test('what is admitted without Redis counts on top of what others used, and is reported later', async t => {
  const { planned, fire } = startTimers(t)
  const { limiter: here, start, state, answer, take } = await startCounting(t, 5)
  const there = await start()
  for (const limiter of [there, there, there, here]) t.match(await take(100, limiter), { allowed: true })
  state.isAway = true
  t.match(await take(100), { allowed: true, remaining: 0 })
  for (let n = 0; n < 3; n++) t.match(here.take('global', 'a', 5, 1000), { allowed: false, remaining: 0 })
  t.match(here.status(), { mode: 'degraded' })

  state.isAway = false
  fire(planned.findLast(({ key }) => key !== undefined)?.delayMs ?? 0)
  await answer()
  t.match(here.status(), { mode: 'redis' })
  const [, , , , , , spent, keep] = state.commands.at(-1) ?? []
  t.same([spent, keep], [2, 0], 'and what was refused is not')
})

t.test('a limiter that is closed gives back what it holds, and counts for itself from then on', async t => {
  const { redis, clock, state, answer } = startModel()
  const limiter = createLimiter({ redis, clock: () => clock.now, log: silent, timeoutMs: 60_000 })
  await answer()
  const taken = [1, 2, 3].map(() => limiter.take('global', 'a', 100, 1000))
  await answer()
  await Promise.all(taken)
  const before = state.commands.length
  let isClosed = false
  const closed = limiter.close().then(() => (isClosed = true))
  await new Promise(resolve => setImmediate(resolve))
  const [, , , , , , spent, keep] = state.commands[before] ?? []
  t.same([state.commands.length, spent, keep, isClosed], [before + 1, 3, 0, false])
  await answer()
  await closed
  t.match(limiter.take('global', 'a', 100, 1000), { allowed: true, remaining: 96 })
})

t.test('a request that waits for permits of another instance is answered when its limiter is closed', async t => {
  startTimers(t)
  const { here, taken, answer } = await holdLastPermits(t)
  const last = taken.at(-1)
  let verdict: Verdict | undefined
  void Promise.resolve(last).then(known => {
    verdict = known
  })
  await answer()
  t.equal(verdict, undefined)
  const closed = here.close()
  await answer()
  await closed
  t.match(verdict, { limit: 8 })
})

t.test('permits that were given back over a connection that ended are given back again', async t => {
  const { fire } = startTimers(t)
  const { limiter, clock, state, answer, take } = await startCounting(t, 1000, 60_000)
  for (let n = 0; n < 30; n++) await take(5)
  const idle = async () => {
    const before = state.commands.length
    clock.now += 200
    fire(20)
    await answer()
    return state.commands.slice(before).map(([, , , , , , spent, keep]) => [spent, keep])
  }
  state.isCut = true
  t.same(await idle(), [[30, 0]])
  state.isCut = false
  t.same(await idle(), [[30, 0]])
  t.match(limiter.status(), { mode: 'redis' })
  t.same(await idle(), [], 'once')
})

t.test('a connection that ended while no request waited is made anew, and Redis is not away', async t => {
  const { planned, fire } = startTimers(t)
  const { limiter, clock, state, answer, take } = await startCounting(t, 1000, 60_000, { timeoutMs: 1234 })
  /** How long Redis has for the command that was sent last. */
  const lastWait = () => planned.findLast(({ delayMs }) => delayMs > 1000)?.delayMs
  for (let n = 0; n < 30; n++) await take(50)
  state.isCut = true
  const before = state.commands.length
  while (state.commands.length === before) await take(10)
  state.isCut = false
  const broken = state.commands.length
  const tick = async (ms: number) => {
    clock.now += ms
    fire(20)
    await answer()
    return [state.commands.length - broken, lastWait()]
  }
  t.same(await tick(20), [1, 1214], 'it is asked again with the next tick, in the time that is left')
  t.same(await tick(700), [2, 1234], 'the command after it has all of the time')
  t.match(limiter.status(), { mode: 'redis' })
})

t.test('a request is decided here once Redis has not answered in time, which an answered one is not', async t => {
  const { fire } = startTimers(t)
  const { limiter, clock, turns, take } = await startCounting(t, 5, 1000, { timeoutMs: 700 })
  await take()
  fire(700)
  await turns()
  t.match(limiter.status(), { mode: 'redis' })
  clock.now += 1000
  const unanswered = limiter.take('global', 'a', 5, 1000)
  await turns()
  fire(700)
  t.match(await unanswered, { allowed: true, limit: 5 })
  t.match(limiter.status(), { mode: 'degraded' })
})

t.test('a key that is not asked for any more is forgotten; with the last one, the timer for them ends', async t => {
  const { planned, fire } = startTimers(t)
  const { limiter, clock, answer, take } = await startCounting(t, 5)
  const counts = async () => {
    await take()
    return [limiter.status().leases, planned.filter(({ delayMs }) => delayMs === 20).length]
  }
  t.same(await counts(), [1, 1])
  t.match(limiter.take('global', 'b', 0, 1000), { allowed: false }, 'where nothing is allowed, nobody is asked')
  for (let n = 0; n < 4; n++) {
    clock.now += 2000
    fire(20)
    await answer()
  }
  fire(1000)
  t.match(limiter.status(), { leases: 0, entries: 0 })
  t.same(await counts(), [1, 2])
})

t.test('a limiter that is closed sends nothing to a Redis that is away, nor for a window that has ended', async t => {
  for (const isAway of [true, false]) {
    const { redis, clock, state, answer } = startModel()
    const limiter = createLimiter({ redis, clock: () => clock.now, log: silent, timeoutMs: 60_000 })
    await answer()
    const take = async (key: string) => {
      const taken = [1, 2, 3].map(() => limiter.take('global', key, 100, 1000))
      await answer()
      await Promise.all(taken)
    }
    await take('a')
    state.isAway = isAway
    if (isAway) await take('b')
    else clock.now += 1000
    const before = state.commands.length
    await limiter.close()
    t.equal(state.commands.length, before)
  }
})

const isProbe = (key: string) => key.endsWith(':probe')

t.test('whatever happens when, a key has one command under way, and none while Redis is away', async t => {
  const { planned, fire } = startTimers(t)
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('take' as const), key: fc.constantFrom('a', 'b', 'c') }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'answer' as const }) },
    { weight: 2, arbitrary: fc.constant({ kind: 'tick' as const }) },
    { weight: 1, arbitrary: fc.constant({ kind: 'turn' as const }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(150) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('redis' as const), isAway: fc.boolean() }) }
  )
  const run = async (steps: (typeof step extends fc.Arbitrary<infer S> ? S : never)[]) => {
    const { redis, clock, state, underWay, turns, answer } = startModel()
    const limiter = createLimiter({ redis, clock: () => clock.now, log: silent, timeoutMs: 60_000 })
    await answer()
    const taken: unknown[] = []
    let lastProbe: unknown
    for (const action of steps) {
      const [isAway, before] = [limiter.status().mode === 'degraded', state.keys.length]
      if (action.kind === 'take') taken.push(limiter.take('global', action.key, 30, 1000))
      if (action.kind === 'pass') clock.now += action.ms
      if (action.kind === 'tick') fire(20)
      if (action.kind === 'turn') await turns()
      if (action.kind === 'answer') await answer()
      if (action.kind === 'redis') {
        state.isAway = action.isAway
        const probe = planned.findLast(({ key }) => key !== undefined)
        // A timer fires once.
        if (probe !== lastProbe) probe?.act(probe.key)
        lastProbe = probe
      }
      const sent = state.keys.slice(before).filter(key => !isProbe(key))
      if (isAway && limiter.status().mode === 'degraded' && sent.length > 0) return `sent ${sent} while away`
      const most = Math.max(...[...underWay].map(([way, count]) => (isProbe(way) ? 0 : count)))
      if (most > 1) return `${most} commands for a key`
    }
    state.isAway = false
    for (let n = 0; n < 4; n++) await answer()
    const closed = limiter.close()
    await answer()
    await closed
    await Promise.all(taken)
    return ''
  }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60, size: 'max' }), async steps => {
      const fault = await run(steps)
      if (fault !== '') throw new Error(fault)
    }),
    { numRuns: 150 }
  )
  t.pass('150 histories')
})
