// Without Redis the limit holds in bounded memory: ended windows leave by themselves, above the bound the oldest are forgotten.
// RL-11, RL-16
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createLimiter, type Verdict } from '../../gateway/limits/limiter.ts'
import { createLocalWindows } from '../../gateway/limits/windows.ts'
import { silent } from '../support/limiters.ts'

const atOnce = (verdict: Verdict | Promise<Verdict>): Verdict => {
  if (verdict instanceof Promise) throw new Error('had to wait')
  return verdict
}

/** A limiter without Redis; `take` asks for a permit of one limit. */
const startLimiter = (t: Pick<Test, 'teardown'>, max: number, maxEntries?: number) => {
  let now = 1000
  const limiter = createLimiter({ clock: () => now, log: silent, ...(maxEntries && { maxEntries }) })
  t.teardown(() => limiter.close())
  const pass = (ms: number) => {
    now += ms
  }
  return { limiter, pass, take: (key: string) => atOnce(limiter.take('global', key, max, 60_000)) }
}

t.test('a window opens with its first request, admits max, and closes after its time', async t => {
  const { limiter, pass, take: takeFrom } = startLimiter(t, 2)
  const take = () => takeFrom('192.0.2.1')

  t.same(take(), { allowed: true, limit: 2, remaining: 1, resetMs: 60_000 })
  pass(59_000)
  t.same(take(), { allowed: true, limit: 2, remaining: 0, resetMs: 1000 })
  t.same(take(), { allowed: false, limit: 2, remaining: 0, resetMs: 1000 })
  pass(999)
  t.same(take(), { allowed: false, limit: 2, remaining: 0, resetMs: 1 })
  pass(1)
  t.same(take(), { allowed: true, limit: 2, remaining: 1, resetMs: 60_000 })
  t.match(limiter.status(), { mode: 'memory', commands: 0 })
})

// RV-45
t.test('a window never claims to last longer than it does', async t => {
  const limiter = createLimiter({ clock: () => 1234.5, log: silent })
  t.teardown(() => limiter.close())
  t.same(atOnce(limiter.take('global', 'a', 2, 60_000)), { allowed: true, limit: 2, remaining: 1, resetMs: 60_000 })
})

t.test('above the bound the windows that began first are forgotten, and counted', async t => {
  const { limiter, pass, take: takeFrom } = startLimiter(t, 1, 128)
  const take = (key: number) => takeFrom(`k${key}`).allowed
  for (let key = 0; key < 128; key++) take(key)
  for (let key = 0; key < 128; key++) t.notOk(take(key))
  t.match(limiter.status(), { entries: 128, forgotten: 0 })
  t.ok(take(128), 'a new key takes the place of the oldest')
  t.match(limiter.status(), { entries: 127, forgotten: 2 })
  t.notOk(take(2))
  t.ok(take(0))
  pass(60_000)
  for (let key = 200; key < 400; key++) take(key)
  t.ok(limiter.status().entries <= 128)
  t.equal(limiter.status().forgotten, 2 + (200 - 128), 'windows that have ended are not forgotten')
})

// RV-42
t.test('a window is not forgotten before it ends, however many others begin in the meantime', async t => {
  let sweep = () => {}
  const timer = { unref: () => timer }
  t.intercept(globalThis, 'setInterval', {
    value: (act: () => void) => {
      sweep = act
      return timer
    }
  })
  const { limiter, pass, take: takeFrom } = startLimiter(t, 10)
  const take = (key: string) => takeFrom(key).allowed
  for (let n = 0; n < 66_000; n++) {
    take(`2001:db8:0:${n.toString(16)}::/64`)
    // Neither the oldest nor the youngest.
    if (n === 1000) for (let times = 0; times < 10; times++) take('one')
  }
  for (let second = 1; second < 60; second++) {
    pass(1000)
    sweep()
    t.notOk(take('one'), `after ${second} s`)
  }
  t.match(limiter.status(), { forgotten: 0 })
  pass(1000)
  t.ok(take('one'))
})

t.test('a limit with many keys does not push out those of another', async t => {
  const { limiter, take } = startLimiter(t, 1, 100)
  limiter.take('GET /rare', 'somebody', 1, 60_000)
  for (let key = 0; key < 1000; key++) take(`k${key}`)

  t.notOk(atOnce(limiter.take('GET /rare', 'somebody', 1, 60_000)).allowed)
  t.ok(limiter.status().entries <= 100)
})

t.test('windows that have ended leave by themselves; those still open, and those in use by a lease, stay', async t => {
  const windows = createLocalWindows(1000)
  const limit = windows.limitOf('global', 5, 1000)
  const open = (key: string, now: number) => Object.assign(windows.find(limit, key, now), { end: now + 1000 })
  open('first', 0)
  const leased = open('leased', 0)
  leased.lease = {} as never
  const second = open('second', 900)
  windows.sweep(999)
  t.equal(windows.size(), 3)
  windows.sweep(1010)
  t.equal(windows.size(), 2)
  t.equal(windows.find(limit, 'second', 1010), second)
  t.equal(windows.find(limit, 'leased', 1010), leased)
  t.match(leased, { end: 0, spent: 0 }, 'renewed')
  leased.lease = undefined
  windows.sweep(1900)
  t.equal(windows.size(), 0)
  t.not(windows.limitOf('global', 5, 1000), limit, 'nor is the limit kept')
})

t.test('a window with a lease is never forgotten', async t => {
  const windows = createLocalWindows(4)
  const limit = windows.limitOf('a', 1, 1000)
  const leased = windows.find(limit, 'leased', 0)
  leased.lease = {} as never
  for (let n = 0; n < 20; n++) Object.assign(windows.find(limit, `k${n}`, 0), { end: 900, spent: 1 })
  t.equal(windows.find(limit, 'leased', 0), leased)
  t.match([windows.size(), windows.forgotten()], [4, 17])
})

t.test('windows are kept by name, max and length of their limit; those in use are known', async t => {
  const windows = createLocalWindows(100)
  const limit = windows.limitOf('a', 1, 1000)
  const others = [windows.limitOf('b', 1, 1000), windows.limitOf('a', 2, 1000), windows.limitOf('a', 1, 2000)]
  t.equal(new Set([limit, ...others]).size, 4)
  t.equal(windows.limitOf('a', 1, 1000), limit)
  t.same(others, [windows.limitOf('b', 1, 1000), windows.limitOf('a', 2, 1000), windows.limitOf('a', 1, 2000)])
  for (const [key, spent, end] of [
    ['none', 0, 500],
    ['some', 1, 500],
    ['over', 1, 100]
  ] as const)
    Object.assign(windows.find(limit, key, 0), { spent, end })
  const open = (now: number) => windows.open(now).map(({ key }) => key)
  t.same(open(99), ['some', 'over'])
  t.same(open(100), ['some'])
  t.equal(windows.open(99)[0]?.limit, limit)
})

const MEASURE = `
  import { createLimiter } from './gateway/limits/limiter.ts'
  const quiet = { info() {}, warn() {} }
  const away = () => Promise.reject(new Error('Connection is closed.'))
  const redis = process.argv[1] === 'degraded' ? { evalScript: away, ready: away, failure: () => ({ reason: 'connection' }) } : undefined
  const limiter = createLimiter({ log: quiet, redis })
  await limiter.take('global', 'first', 300, 600000)
  gc()
  const before = process.memoryUsage().heapUsed
  const rounds = []
  let mistaken = 0
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 300000; n++) {
      const key = [round + 1, n >> 16, (n >> 8) & 255, n & 255].join('.')
      if (limiter.take('global', key, 300, 600000).remaining !== 299) mistaken++
    }
    gc()
    rounds.push(Math.round((process.memoryUsage().heapUsed - before) / 1e6))
  }
  console.log(JSON.stringify({ rounds, mistaken, entries: limiter.status().entries, mode: limiter.status().mode }))
  process.exit()
`

for (const mode of ['memory', 'degraded'])
  t.test(`300,000 distinct addresses take at most 40 MB, and further ones no more (${mode})`, async t => {
    // V8's young generation is not the limiter's: kept small, it does not blur what is measured.
    const words = ['--expose-gc', '--max-semi-space-size=4', '--input-type=module', '--eval', MEASURE, mode]
    const { stdout } = await promisify(execFile)(process.execPath, words)
    const { rounds, mistaken, entries, mode: actual } = JSON.parse(stdout)

    t.equal(actual, mode)
    t.ok(entries > 0.98 * 2 ** 17 && entries <= 2 ** 17, `${entries} windows`)
    t.equal(mistaken, 0, 'none is taken for another')
    t.ok(rounds[0] <= 40, `${rounds[0]} MB at first`)
    t.ok(rounds[2] <= 40, `${rounds.join(', ')} MB after each round`)
  })
