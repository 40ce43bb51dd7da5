// Without Redis the limit holds in bounded memory: ended windows leave by themselves, at the bound the oldest leave first.
// RL-11, RL-16
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { createLimiter, type Verdict } from '../../gateway/limits/limiter.ts'
import { createLocalWindows } from '../../gateway/limits/windows.ts'
import { silent } from '../support/limiters.ts'

const startClock = () => {
  let now = 1000
  const pass = (ms: number) => {
    now += ms
  }
  return { clock: () => now, pass }
}

const atOnce = (verdict: Verdict | Promise<Verdict>): Verdict => {
  if (verdict instanceof Promise) throw new Error('had to wait')
  return verdict
}

t.test('a window opens with its first request, admits max, and closes after its time', async t => {
  const { clock, pass } = startClock()
  const limiter = createLimiter({ clock, log: silent })
  t.teardown(() => limiter.close())
  const take = () => atOnce(limiter.take('global', '192.0.2.1', 2, 60_000))

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

t.test('a limit of none refuses everything', async t => {
  const limiter = createLimiter({ log: silent })
  t.teardown(() => limiter.close())

  t.match(atOnce(limiter.take('global', 'a', 0, 1000)), { allowed: false, remaining: 0 })
})

t.test('at the bound the oldest keys leave first, and those asked for stay', async t => {
  const { clock } = startClock()
  const limiter = createLimiter({ clock, log: silent, maxEntries: 100 })
  t.teardown(() => limiter.close())
  const take = (key: number) => atOnce(limiter.take('global', `k${key}`, 1, 60_000)).allowed
  for (let key = 0; key < 100; key++) take(key)
  t.ok(take(100), 'a new key takes the place of the oldest')
  t.equal(limiter.status().entries, 100)
  t.notOk(take(1), 'k1 is still known, and young again')
  for (let key = 101; key < 150; key++) take(key)

  t.notOk(take(1))
  t.notOk(take(149))
  t.notOk(take(60))
  t.ok(take(2), 'k2 had left')
  t.ok(limiter.status().entries <= 100)
})

t.test('a limit with many keys does not push out those of another', async t => {
  const { clock } = startClock()
  const limiter = createLimiter({ clock, log: silent, maxEntries: 100 })
  t.teardown(() => limiter.close())
  limiter.take('GET /rare', 'somebody', 1, 60_000)
  for (let key = 0; key < 1000; key++) limiter.take('global', `k${key}`, 1, 60_000)

  t.notOk(atOnce(limiter.take('GET /rare', 'somebody', 1, 60_000)).allowed)
  t.equal(limiter.status().entries, 100)
})

t.test('windows that have ended leave by themselves, those still open stay', async t => {
  const windows = createLocalWindows(1000)
  windows.sweep(0)
  const open = (key: string, now: number) => {
    const window = windows.recall(windows.tableOf('global', 5, 1000), key)
    window.end = now + 1000
    return window
  }
  open('first', 0)
  windows.sweep(10)
  const second = open('second', 900)
  windows.sweep(1010)
  t.equal(windows.size(), 1)
  t.equal(windows.recall(windows.tableOf('global', 5, 1000), 'second'), second)
  windows.sweep(2010)
  windows.sweep(3010)

  t.equal(windows.size(), 0)
})

const MEASURE = `
  import { createLimiter } from './gateway/limits/limiter.ts'
  const quiet = { info() {}, warn() {} }
  const away = () => Promise.reject(new Error('Connection is closed.'))
  const redis = process.argv[1] === 'degraded' ? { evalScript: away, ready: away } : undefined
  const limiter = createLimiter({ log: quiet, redis })
  await limiter.take('global', 'first', 300, 600000)
  gc()
  const before = process.memoryUsage().rss
  const rounds = []
  let mistaken = 0
  for (let round = 0; round < 3; round++) {
    for (let n = 0; n < 1000000; n++) {
      const key = [round + 1, n >> 16, (n >> 8) & 255, n & 255].join('.')
      if (limiter.take('global', key, 300, 600000).remaining !== 299) mistaken++
    }
    gc()
    rounds.push(Math.round((process.memoryUsage().rss - before) / 1e6))
  }
  console.log(JSON.stringify({ rounds, mistaken, entries: limiter.status().entries, mode: limiter.status().mode }))
  process.exit()
`

for (const mode of ['memory', 'degraded'])
  t.test(`a million distinct addresses take at most 150 MB, and further millions no more (${mode})`, async t => {
    // V8's young generation is not the limiter's: kept small, it does not blur what is measured.
    const words = ['--expose-gc', '--max-semi-space-size=4', '--input-type=module', '--eval', MEASURE, mode]
    const { stdout } = await promisify(execFile)(process.execPath, words)
    const { rounds, mistaken, entries, mode: actual } = JSON.parse(stdout)

    t.equal(actual, mode)
    t.equal(entries, 2 ** 20)
    t.equal(mistaken, 0, 'none is taken for another')
    t.ok(rounds[0] <= 150, `${rounds[0]} MB after the first million`)
    t.ok(rounds[2] <= 150, `${rounds.join(', ')} MB after each further million`)
  })
