// What the limiter answers and when it asks, with a Redis that answers when the test says so. RL-03, RL-09, RL-11
import t, { type Test } from 'tap'
import { createCircuit } from '../../gateway/limits/circuit.ts'
import { createWindow } from '../../gateway/limits/leases.ts'
import { createLimiter, type Limiter, type LimiterParts, type Verdict } from '../../gateway/limits/limiter.ts'
import { createPackedWindows } from '../../gateway/limits/packed-windows.ts'
import { createLocalWindows } from '../../gateway/limits/windows.ts'
import type { RedisStore } from '../../gateway/redis/redis.ts'
import { createLeaseModel } from '../support/lease-model.ts'
import { recordingLog, silent } from '../support/limiters.ts'

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
  const state = { isAway: false, commands: [] as (string | number)[][] }
  const evalScript: RedisStore['evalScript'] = (_script, [key], args) =>
    new Promise((resolve, reject) => {
      state.commands.push([...args])
      waiting.push(() => {
        if (state.isAway) return reject(new Error('OOM command not allowed'))
        const [instance, sequence, generation, spent, keep, more, extra, max, windowMs, leftMs] = args.map(
          (value, index) => (index === 0 ? value : Number(value))
        ) as [string, number, number, number, number, number, number, number, number, number]
        const request = { generation, spent, keep, waiting: more, extra, leftMs }
        const reply = modelOf(key).run(clock.now, instance, sequence, request, max, windowMs)
        const { nowMs, remainingMs, lent, others, free, held } = reply
        resolve([reply.generation, nowMs, remainingMs, reply.spent, lent, others, free, held])
      })
    })
  const redis = { evalScript, ready: async () => true, set: async () => undefined } as unknown as RedisStore
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
  return { redis, clock, state, turns, answer }
}

const startLimiter = (t: Teardown, parts: Partial<LimiterParts>): Limiter => {
  const limiter = createLimiter({ log: silent, timeoutMs: 60_000, ...parts })
  t.teardown(() => {
    void limiter.close()
  })
  return limiter
}

t.test('the first request of a window asks, the next ones spend what was lent with it', async t => {
  const { redis, clock, state, answer } = startModel()
  const limiter = startLimiter(t, { redis, clock: () => clock.now })
  await answer()
  const first = limiter.take('global', 'a', 20, 1000)
  t.ok(first instanceof Promise)
  await answer()
  t.match(await first, { allowed: true, limit: 20, remaining: 19, resetMs: 999 })
  clock.now += 10
  const second = limiter.take('global', 'a', 20, 1000)
  await answer()
  await second
  clock.now += 10
  const third = limiter.take('global', 'a', 20, 1000)
  await answer()
  t.match(await third, { allowed: true, remaining: 17, resetMs: 979 })
  const verdicts: Verdict[] = []
  for (let n = 0; n < 40; n++) {
    const verdict = limiter.take('global', 'a', 20, 1000)
    await answer()
    verdicts.push(await verdict)
  }
  t.equal(verdicts.filter(({ allowed }) => allowed).length, 17)
  t.match(verdicts.at(-1), { allowed: false, remaining: 0 })
  t.ok(state.commands.length <= 12, `${state.commands.length} commands for 20 permits`)
  t.notOk(limiter.take('global', 'a', 20, 1000) instanceof Promise, 'a window known to be over asks nobody')
  t.match(limiter.status(), { mode: 'redis', entries: 1, leases: 1, commands: state.commands.length })
  t.notOk('reason' in limiter.status())
  clock.now += 1000
  const fresh = limiter.take('global', 'a', 20, 1000)
  await answer()
  t.match(await fresh, { allowed: true, remaining: 19 })
})

t.test('requests that wait are judged by what comes back, no more than there are permits', async t => {
  const { redis, clock, answer } = startModel()
  const limiter = startLimiter(t, { redis, clock: () => clock.now })
  const taken = Array.from({ length: 9 }, () => limiter.take('global', 'a', 5, 1000))
  t.ok(
    taken.every(each => each instanceof Promise),
    'how many may pass is not known yet'
  )
  await answer()
  const verdicts = await Promise.all(taken)
  t.equal(verdicts.filter(({ allowed }) => allowed).length, 5)
  const other = [1, 2].map(() => limiter.take('global', 'b', 5, 1000))
  await answer()
  t.same(
    (await Promise.all(other)).map(({ remaining }) => remaining),
    [4, 3]
  )
  t.match(limiter.take('none', 'a', 0, 1000), { allowed: false, limit: 0, remaining: 0 })
  t.match(limiter.take('none', 'a', -1, 1000), { allowed: false, remaining: 0 })
  t.ok(limiter.take('one', 'a', 1, 1000) instanceof Promise, 'a limit of one is shared too')
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
  const { redis, clock, answer } = startModel()
  const [here, there] = [1, 2].map(() => startLimiter(t, { redis, clock: () => clock.now })) as [Limiter, Limiter]
  await answer()
  const takeFrom = async (limiter: Limiter, times: number) => {
    for (let n = 0; n < times; n++) {
      const taken = limiter.take('global', 'a', 10, 1000)
      await answer()
      t.equal((await taken).allowed, true)
      clock.now += 100
    }
  }
  await takeFrom(there, 3)
  await takeFrom(here, 2)
  const taken = Array.from({ length: 6 }, () => here.take('global', 'a', 10, 1000))
  t.same(
    taken.map(each => each instanceof Promise),
    [true, true, true, true, true, false]
  )
  t.match(taken[5], { allowed: false, remaining: 5 })
  await answer()
  t.equal((await Promise.all(taken)).filter(({ allowed }) => allowed).length, 5)
})

t.test(
  'while another instance holds the last permits, requests are refused for a moment, then it is asked again',
  async t => {
    const { redis, clock, answer } = startModel()
    const [here, there] = [1, 2].map(() => startLimiter(t, { redis, clock: () => clock.now })) as [Limiter, Limiter]
    await answer()
    const take = async (limiter: Limiter, times: number) => {
      const taken = Array.from({ length: times }, () => limiter.take('global', 'a', 8, 1000))
      await answer()
      return (await Promise.all(taken)).filter(({ allowed }) => allowed).length
    }
    t.equal(await take(there, 3), 3, 'with one in reserve')
    t.equal(await take(here, 5), 4)
    t.match(here.take('global', 'a', 8, 1000), { allowed: false, remaining: 1 })
    clock.now += 14
    t.match(here.take('global', 'a', 8, 1000), { allowed: false, remaining: 1 })
    clock.now += 1
    const asked = here.take('global', 'a', 8, 1000)
    t.ok(asked instanceof Promise)
    t.match(there.take('global', 'a', 8, 1000), { allowed: true })
    await answer()
    t.match(await asked, { allowed: false })
  }
)

t.test('steady demand is met from a reserve, which is refilled in time and void when its window ends', async t => {
  const { redis, clock, state, answer } = startModel()
  const { planned } = startTimers(t)
  const limiter = startLimiter(t, { redis, clock: () => clock.now, timeoutMs: 1234 })
  const take = async () => {
    clock.now += 5
    const taken = limiter.take('global', 'a', 1000, 2000)
    await answer()
    return { waited: taken instanceof Promise, verdict: await taken }
  }
  for (let n = 0; n < 30; n++) await take()
  const before = state.commands.length
  for (let n = 0; n < 60; n++) t.equal((await take()).waited, false)
  t.ok(state.commands.length > before)
  t.ok(
    planned.some(({ delayMs }) => delayMs === 1234),
    'a reply has as long as was set'
  )
  const { verdict } = await take()
  clock.now += verdict.resetMs - 1
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

t.test('a window that is over needs no lease, and Redis is not asked about it', async t => {
  const { redis, clock, answer } = startModel()
  const { fire } = startTimers(t)
  const limiter = startLimiter(t, { redis, clock: () => clock.now })
  await answer()
  const taken = [1, 2].map(() => limiter.take('global', 'a', 2, 1000))
  await answer()
  await Promise.all(taken)
  clock.now += 200
  fire(20)
  t.match(limiter.status(), { leases: 0, entries: 1 })
  t.match(limiter.take('global', 'a', 2, 1000), { allowed: false, remaining: 0, resetMs: 799 })
})

t.test('a permit that comes when its window has ended is not used', async t => {
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
  t.match(await taken, { allowed: false, limit: 5, remaining: 5, resetMs: 1 })
})

t.test(
  'what is admitted without Redis counts on top of what the others had used, and is reported to it later',
  async t => {
    const { redis, clock, state, answer } = startModel()
    const { planned, fire } = startTimers(t)
    const [here, there] = [1, 2].map(() => startLimiter(t, { redis, clock: () => clock.now })) as [Limiter, Limiter]
    await answer()
    for (const limiter of [there, there, there, here]) {
      const taken = limiter.take('global', 'a', 5, 1000)
      await answer()
      t.match(await taken, { allowed: true })
      clock.now += 100
    }
    state.isAway = true
    const last = here.take('global', 'a', 5, 1000)
    await answer()
    t.match(await last, { allowed: true, remaining: 0 })
    for (let n = 0; n < 3; n++) t.match(here.take('global', 'a', 5, 1000), { allowed: false, remaining: 0 })
    t.match(here.status(), { mode: 'degraded' })

    state.isAway = false
    fire(planned.findLast(({ key }) => key !== undefined)?.delayMs ?? 0)
    await answer()
    t.match(here.status(), { mode: 'redis' })
    const [, , , spent, keep] = state.commands.at(-1) ?? []
    t.same([spent, keep], [2, 0], 'and what was refused is not')
  }
)

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
  const [, , , spent, keep] = state.commands[before] ?? []
  t.same([state.commands.length, spent, keep, isClosed], [before + 1, 3, 0, false])
  await answer()
  await closed
  t.match(limiter.take('global', 'a', 100, 1000), { allowed: true, remaining: 96 })
})

t.test('two instances share one window', async t => {
  const { redis, clock, answer } = startModel()
  const limiters = [1, 2].map(() => startLimiter(t, { redis, clock: () => clock.now }))
  let admitted = 0
  for (let round = 0; round < 12; round++) {
    const taken = limiters.map(limiter => limiter.take('global', 'a', 10, 1000))
    await answer()
    for (const { allowed } of await Promise.all(taken)) if (allowed) admitted++
    clock.now += 35
  }
  t.equal(admitted, 10)
})

t.test('while Redis is away each instance counts for itself, and says so', async t => {
  const { redis, clock, state, answer } = startModel()
  const limiter = startLimiter(t, { redis, clock: () => clock.now })
  const heard: string[] = []
  limiter.onChange(({ mode }) => heard.push(mode))
  await answer()
  state.isAway = true
  const first = limiter.take('global', 'a', 2, 1000)
  await answer()
  t.match(await first, { allowed: true, remaining: 1 })
  t.match(limiter.status(), { mode: 'degraded', reason: String })
  t.same(heard, ['degraded'])
  const now = limiter.take('global', 'a', 2, 1000)
  t.notOk(now instanceof Promise)
  t.match(limiter.take('global', 'a', 2, 1000), { allowed: false })
})

t.test('the limit that fills the memory makes room, not a smaller one', async t => {
  const windows = createLocalWindows(64)
  const [small, large, other] = ['small', 'large', 'other'].map(name => windows.tableOf(name, 1, 1000))
  if (small === undefined || large === undefined || other === undefined) return t.fail('three tables')
  t.not(windows.tableOf('small', 2, 1000), windows.tableOf('small', 1, 1000), 'of another maximum')
  windows.recall(other, 'o')
  for (let i = 0; i < 3; i++) windows.recall(large, `l${i}`)
  const sizeOf = ({ young, old }: typeof small) => young.size + old.size
  const first = windows.recall(small, 'a')
  t.same([small, large, other].map(sizeOf), [1, 2, 1], 'of four that are kept as they are')
  windows.recall(large, 'l3')
  t.same([small, large, other].map(sizeOf), [1, 2, 1])
  t.equal(small.young.get('a') ?? small.old.get('a'), first)
  t.equal(windows.size(), 4, 'windows in which nothing was counted are not packed')
})

t.test('a window lasts from its first request to its end, and not a millisecond longer', async t => {
  const clock = { now: 5000 }
  const limiter = startLimiter(t, { clock: () => clock.now })
  const at = (now: number) => {
    clock.now = now
    return limiter.take('global', 'a', 1, 1000)
  }
  t.match(at(5000), { allowed: true, limit: 1, remaining: 0, resetMs: 1000 })
  t.match(at(5000), { allowed: false, remaining: 0, resetMs: 1000 })
  t.match(at(5999), { allowed: false, resetMs: 1 })
  t.match(at(6000), { allowed: true, resetMs: 1000 })
})

t.test('windows that have ended are dropped even if nothing asks for them', async t => {
  let sweep: () => void = () => undefined
  const timer = { unref: () => timer }
  t.intercept(globalThis, 'setInterval', {
    value: (act: () => void) => {
      sweep = act
      return timer
    }
  })
  const clock = { now: 5000 }
  const limiter = startLimiter(t, { clock: () => clock.now })
  for (let i = 0; i < 10; i++) limiter.take('global', `b${i}`, 2, 1000)
  sweep()
  t.equal(limiter.status().entries, 10)
  for (let turn = 0; turn < 2; turn++) {
    clock.now += 1000
    sweep()
  }
  t.equal(limiter.status().entries, 0)
  let cleared: unknown
  t.intercept(globalThis, 'clearInterval', { value: (given: unknown) => (cleared = given) })
  await limiter.close()
  t.equal(cleared, timer, 'until it is closed')
})

t.test('without Redis the limiter is in memory, and is so from its start', async t => {
  const before = Date.now()
  const limiter = startLimiter(t, {})
  const status = limiter.status()
  t.match(status, { mode: 'memory', commands: 0, entries: 0, leases: 0 })
  t.ok(status.since >= before && status.since <= Date.now())
  t.doesNotThrow(() => limiter.onChange(() => undefined))
  limiter.take('global', 'a', 2, 1000)
  t.equal(limiter.status().entries, 1)
  const onMachine = createLimiter({ log: silent })
  t.teardown(() => onMachine.close())
  const verdict = onMachine.take('global', 'a', 2, 1000) as Verdict
  t.match(verdict, { allowed: true, limit: 2, remaining: 1 })
  t.ok(verdict.resetMs >= 1000 && verdict.resetMs < 1001, 'by the clock of the machine')
  for (let i = 0; i < 1000; i++) onMachine.take('global', `b${i}`, 2, 1000)
  t.equal(onMachine.status().entries, 1001, 'many are kept')
  const small = startLimiter(t, { maxEntries: 64 })
  for (let i = 0; i < 1000; i++) small.take('global', `b${i}`, 2, 1000)
  t.equal(small.status().entries, 64, 'and no more than it may keep')
})

const startCircuit = (t: Teardown) => {
  const log = recordingLog()
  const probes: { key: string; resolve: (value?: unknown) => void; reject: (error: unknown) => void }[] = []
  const circuit = createCircuit(
    key => new Promise((resolve, reject) => probes.push({ key, resolve, reject })),
    error => `judged ${error}`,
    log
  )
  t.teardown(() => circuit.close())
  const probed = async (count: number) => {
    const until = performance.now() + 20_000
    while (probes.length < count && performance.now() < until) await new Promise(resolve => setImmediate(resolve))
    return probes.length
  }
  return { circuit, log, probes, probed }
}

t.test('the state changes once, is reported once, and a probe that succeeds heals it', async t => {
  const { circuit, log, probes, probed } = startCircuit(t)
  // What the circuit waits with does not keep a process alive; this does.
  const alive = setInterval(() => undefined, 1000)
  t.teardown(() => clearInterval(alive))
  const heard: unknown[] = []
  circuit.onChange(({ up, reason }) => heard.push([up, reason]))
  t.match(circuit.state(), { up: true, reason: undefined })
  t.equal(circuit.isUp(), true)
  const startedAt = performance.now()
  circuit.fail('timeout', 'k1')
  circuit.fail('connection', 'k2')
  t.equal(circuit.isUp(), false)
  t.match(circuit.state(), { up: false, reason: 'timeout' })
  t.same(heard, [[false, 'timeout']])
  t.equal(await probed(1), 1)
  t.ok(performance.now() - startedAt >= 70, 'not at once')
  t.equal(probes[0]?.key, 'k1')
  probes[0]?.reject('no')
  t.equal(await probed(2), 2)
  t.match(circuit.state(), { up: false, reason: 'judged no' })
  t.same(heard, [[false, 'timeout']], 'another reason is no change')
  t.equal(probes[1]?.key, 'k1')
  probes[1]?.resolve()
  await new Promise(resolve => setImmediate(resolve))
  t.match(circuit.state(), { up: true, reason: undefined })
  t.same(heard, [
    [false, 'timeout'],
    [true, undefined]
  ])
  t.same(
    log.lines.map(({ level }) => level),
    ['warn', 'info']
  )
  circuit.fail('timeout', 'k3')
  t.same(heard.length, 3)
  t.equal(await probed(3), 3)
  circuit.close()
  t.equal(circuit.isUp(), false)
  probes[2]?.resolve()
  await new Promise(resolve => setImmediate(resolve))
  t.equal(heard.length, 3, 'closed, it tells nobody')
  circuit.fail('timeout', 'k4')
  t.equal(heard.length, 3)
})

interface Planned {
  readonly act: (key: string) => void
  readonly delayMs: number
  readonly key: string
}

/** A circuit whose timers and clock are the test's; what it logs is kept with its fields. */
const startTimedCircuit = (t: Test) => {
  const planned: Planned[] = []
  const time = { now: 50_000, random: 0.5, cleared: 0 }
  t.intercept(globalThis, 'setTimeout', {
    value: (act: Planned['act'], delayMs: number, key: string) => {
      planned.push({ act, delayMs, key })
      return { unref: () => 'a timer' }
    }
  })
  t.intercept(globalThis, 'clearTimeout', { value: () => void time.cleared++ })
  t.intercept(performance, 'now', { value: () => time.now })
  t.intercept(Date, 'now', { value: () => 1_000_000 + time.now })
  t.intercept(Math, 'random', { value: () => time.random })
  const lines: unknown[] = []
  const keep = (fields: object) => void lines.push(fields)
  const probes: { resolve: () => void; reject: (error: unknown) => void }[] = []
  const circuit = createCircuit(
    () => new Promise<void>((resolve, reject) => probes.push({ resolve, reject })),
    String,
    { info: keep, warn: keep }
  )
  /** The timer fires, and its probe ends. */
  const probe = async (succeeds: boolean) => {
    const { act, key } = planned.at(-1) as Planned
    act(key)
    if (succeeds) probes.at(-1)?.resolve()
    else probes.at(-1)?.reject('no')
    for (let turn = 0; turn < 4; turn++) await Promise.resolve()
  }
  const delays = () => planned.map(({ delayMs }) => delayMs)
  return { circuit, planned, time, lines, probe, delays }
}

t.test(
  'probes come less and less often, each at a moment of its own, and from the start after a quiet while',
  async t => {
    const { circuit, time, lines, probe, delays, planned } = startTimedCircuit(t)
    circuit.fail('timeout', 'k')
    t.same(lines, [{ reason: 'timeout' }])
    for (let n = 0; n < 5; n++) await probe(false)
    t.same(delays(), [100, 200, 400, 800, 1000, 1000])
    t.equal(planned[3]?.key, 'k')
    time.random = 0
    await probe(false)
    time.random = 1
    await probe(false)
    t.same(delays().slice(-2), [750, 1250], 'a quarter less or more')
    time.now += 300
    await probe(true)
    t.same(lines.at(-1), { downMs: 300 })
    t.match(circuit.state(), { up: true, since: 1_050_300 })

    time.random = 0.5
    time.now += 10_000
    circuit.fail('timeout', 'k')
    t.equal(delays().at(-1), 1000, 'soon after, it goes on as before')
    await probe(true)
    time.now += 10_001
    circuit.fail('timeout', 'k')
    t.equal(delays().at(-1), 100)
  }
)

t.test('a circuit that is closed plans no more, and forgets what it planned', async t => {
  const { circuit, planned, probe, time } = startTimedCircuit(t)
  circuit.fail('timeout', 'k')
  circuit.close()
  t.equal(time.cleared, 1)
  await probe(false)
  t.equal(planned.length, 1)
})

t.test('windows of one limit are kept by its name, max and window', async t => {
  const windows = createLocalWindows(100)
  const table = windows.tableOf('a', 1, 1000)
  t.equal(windows.tableOf('a', 1, 1000), table)
  const others = [windows.tableOf('b', 1, 1000), windows.tableOf('a', 2, 1000), windows.tableOf('a', 1, 2000)]
  t.equal(new Set([table, ...others]).size, 4)
  t.equal(windows.tableOf('a', 1, 1000), table)
  t.same(others, [windows.tableOf('b', 1, 1000), windows.tableOf('a', 2, 1000), windows.tableOf('a', 1, 2000)])
  const window = windows.recall(table, 'k')
  t.match(window, createWindow())
  t.equal(table.young.get('k'), window)
  t.not(windows.recall(others[1] as typeof table, 'k'), window)
  t.equal(windows.size(), 2)
})

t.test('windows in which something was admitted are reported as long as they are open', async t => {
  const windows = createLocalWindows(1000)
  const table = windows.tableOf('a', 1, 1000)
  for (const [key, spent, end] of [
    ['none', 0, 500],
    ['some', 1, 500],
    ['over', 1, 100]
  ] as const)
    Object.assign(windows.recall(table, key), { spent, end })
  const open = (now: number) => windows.open(now).map(({ key }) => key)
  t.same(open(99), ['some', 'over'])
  t.same(open(100), ['some'])
  t.equal(windows.open(99)[0]?.table, table)
  windows.sweep(0)
  Object.assign(windows.recall(table, 'young'), { spent: 1, end: 500 })
  t.same(open(100), ['young', 'some'], 'of both generations')
})

t.test('a window with a lease is never swept or evicted; others move on and come back as they were', async t => {
  const windows = createLocalWindows(64)
  const table = windows.tableOf('a', 1, 1000)
  const recall = (key: string) => table.young.get(key) ?? windows.recall(table, key)
  const leased = windows.recall(table, 'leased')
  leased.lease = {} as never
  const values = { end: 900, spent: 2, lent: 3, others: 4, generation: 900 }
  Object.assign(windows.recall(table, 'plain'), values)
  for (let n = 0; n < 20; n++) Object.assign(windows.recall(table, `k${n}`), { end: 900, spent: 1 })
  t.equal(recall('leased'), leased)
  t.match(recall('plain'), values)
  t.ok(windows.size() <= 64)
  windows.sweep(1000)
  windows.sweep(2000)
  windows.sweep(3000)
  t.equal(recall('leased'), leased)
  t.equal(windows.size(), 1)
})

t.test('a packed window that has ended is forgotten, and an empty one is not packed', async t => {
  const packed = createPackedWindows(4)
  const put = (key: string, end: number) => packed.put(1, key, { ...createWindow(), end, spent: 7 })
  t.equal(packed.takeOut(1, 'a', createWindow()), false)
  put('none', 0)
  t.equal(packed.size(), 0)
  put('a', 10)
  put('b', 11)
  packed.sweep(9)
  t.equal(packed.size(), 2)
  packed.sweep(10)
  t.equal(packed.size(), 1)
  const window = createWindow()
  t.equal(packed.takeOut(2, 'b', window), false, 'of another table')
  t.equal(packed.takeOut(1, 'b', window), true)
  t.match(window, { end: 11, spent: 7 })
  t.equal(packed.takeOut(1, 'b', window), false)
  const nowhere = createPackedWindows(0)
  nowhere.put(1, 'a', { ...createWindow(), end: 5 })
  t.equal(nowhere.size(), 0)
})
