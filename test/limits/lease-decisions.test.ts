// Checks what an instance decides about the permits that Redis has lent it: how many to ask for, and when to give them back.
import t from 'tap'
import {
  adaptBatch,
  applyReply,
  composeRequest,
  createLease,
  createWindow,
  isOver,
  type Lease,
  type PermitWindow,
  readLeaseReply,
  runsLow,
  stepFor,
  touch
} from '../../gateway/limits/leases.ts'

const windowOf = (parts: Partial<PermitWindow>, max = 100): PermitWindow => ({
  ...createWindow({ name: 'global', max, windowMs: 1000, windows: new Map() }, 'key'),
  ...parts
})

const leaseOf = (window: Partial<PermitWindow> = {}, parts: Partial<Lease> = {}, max?: number): Lease => ({
  ...createLease(windowOf(window, max), 0),
  ...parts
})

const waiters = (count: number) => Array.from({ length: count }, () => () => undefined)

t.test('a window is over once all of its permits are known to be used', async t => {
  for (const [spent, lent, others, generation, expected] of [
    [10, 10, 0, 5, true],
    [4, 4, 6, 5, true],
    [4, 5, 6, 5, true],
    [11, 11, 0, 5, true],
    [4, 4, 5, 5, false],
    // A debt, and a window of this instance alone, must be reported first.
    [10, 9, 0, 5, false],
    [10, 10, 0, 0, false]
  ] as const)
    t.equal(isOver(windowOf({ spent, lent, others, generation }, 10)), expected, `${spent} ${lent} ${others}`)
})

t.test('faster demand counts for a half, slower demand for a quarter', async t => {
  const lease = leaseOf({}, { touchedAt: 100, gapMs: 160 })
  const gaps = [120, 320, 320].map(now => {
    touch(lease, now)
    return lease.gapMs
  })
  t.same(gaps, [90, 90 + (200 - 90) / 4, 117.5 / 2])
})

t.test('a reserve lasts 250 ms, at most doubles, and is at most a quarter of the limit', async t => {
  for (const [gapMs, batch, max, expected] of [
    [80, 3, 100, 0],
    [79, 0, 100, 2],
    [79, 3, 100, 4],
    [10, 3, 100, 6],
    [10, 20, 100, 25],
    [0.001, 90, 100, 25],
    [0, 20_000, 1e6, 16_384],
    [0.02, 1e6, 1e6, 12_500]
  ] as const) {
    const lease = leaseOf({}, { gapMs, batch }, max)
    adaptBatch(lease)
    t.equal(lease.batch, expected, `${gapMs} ms, ${batch} of ${max}`)
  }
})

t.test('more is fetched below the low water mark, unless permits are scarce', async t => {
  const low = (lent: number, free: number) => runsLow(leaseOf({ lent, spent: 10 }, { free, lowWater: 3 }))
  t.same([low(12, 8), low(13, 8), low(12, 7)], [true, false, false])
})

t.test('held permits are confirmed, given back when idle, and the lease is forgotten at last', async t => {
  const held = { end: 5000, spent: 1, lent: 4 }
  const used = { end: 5000, spent: 4, lent: 4 }
  const rows: [Partial<PermitWindow>, Partial<Lease>, number, ReturnType<typeof stepFor>][] = [
    [held, { touchedAt: 0 }, 129, 'nothing'],
    [held, { touchedAt: 0 }, 130, 'give back'],
    [held, { touchedAt: 600, fetchedAt: 0 }, 599, 'nothing'],
    [held, { touchedAt: 600, fetchedAt: 0 }, 600, 'confirm'],
    [held, { touchedAt: 900, fetchedAt: 300 }, 899, 'nothing'],
    [held, { touchedAt: 0, unansweredSince: 0 }, 20, 'confirm'],
    [held, { waiters: waiters(1) }, 5, 'ask'],
    [used, {}, 129, 'nothing'],
    [used, {}, 130, 'forget'],
    [used, { owes: true }, 130, 'give back'],
    [{ ...used, others: 1 }, { owes: true, free: 1, touchedAt: 99 }, 100, 'nothing'],
    [{ ...held, end: 130 }, {}, 130, 'forget'],
    [{ ...held, end: 130 }, { touchedAt: 1 }, 130, 'nothing'],
    [{ ...used, end: 130 }, { owes: true }, 130, 'forget'],
    // Another instance may need one of the last quarter of the permits.
    [{ ...held, others: 1 }, { touchedAt: 100, fetchedAt: 50, free: 24 }, 100, 'give back'],
    [{ ...held, others: 1 }, { touchedAt: 100, fetchedAt: 50, free: 25 }, 100, 'nothing'],
    [{ ...held, others: 1 }, { touchedAt: 100, fetchedAt: 51, free: 24 }, 100, 'nothing'],
    [{ ...held, others: 0 }, { touchedAt: 100, fetchedAt: 50, free: 24 }, 100, 'nothing']
  ]
  for (const [window, parts, now, expected] of rows)
    t.equal(
      stepFor(leaseOf(window, parts), now, true),
      expected,
      `${JSON.stringify({ ...window, ...parts })} at ${now}`
    )
  t.equal(stepFor(leaseOf(held), 130, false), 'nothing', 'Redis is away')
})

t.test('a local window is reported with the time that it has left, one that is over is not', async t => {
  const compose = (end: number, spent: number, now: number, generation = 0) =>
    composeRequest(leaseOf({ end, spent, generation }), now, 1, false, 0)
  const left = [compose(500, 1, 100.5), compose(500, 0, 100), compose(500, 1, 499.5), compose(500, 1, 100, 500)]
  t.same(
    left.map(({ leftMs }) => leftMs),
    [399, 0, 1, 0]
  )
  t.match(compose(500, 5, 500, 500), { generation: 0, spent: 0, leftMs: 0 })
})

const REPLY = { generation: 900, nowMs: 100, remainingMs: 400, spent: 3, lent: 3, others: 20, free: 0, held: 1 }
const SENT = {
  sequence: 1,
  unheard: 1,
  generation: 900,
  spent: 3,
  keep: 0,
  waiting: 0,
  extra: 0,
  leftMs: 0,
  sentAt: 100
}

t.test('a reply counts from the moment its request was sent, and not at all once that window is over', async t => {
  const apply = (window: Partial<PermitWindow>, now: number, generation = 900) => {
    const lease = leaseOf({ end: 450, spent: 5, lent: 8, ...window })
    applyReply(lease, { ...SENT, generation }, REPLY, now)
    return lease.window
  }
  t.match(apply({ generation: 900 }, 498), { end: 499, spent: 5, lent: 3, others: 20, generation: 900 })
  t.match(apply({ generation: 900 }, 499), { end: 0, spent: 0, lent: 0 })
  t.match(apply({ generation: 901 }, 499), { end: 450, spent: 5 }, 'another window stays')
  t.match(apply({ generation: 900, spent: 2 }, 120), { spent: 3 }, 'never less than Redis knows')
  t.match(apply({ generation: 0, spent: 4 }, 120), { spent: 7 }, 'a window begun since is added whole')
  t.match(apply({ generation: 100 }, 120, 100), { spent: 3 }, 'what was used after its end belongs to the old window')
  t.match(apply({ generation: 101 }, 120, 101), { spent: 5 })
})

t.test('requests name the first one without a reply, and since when', async t => {
  const lease = leaseOf({ end: 500 })
  t.same(
    [7, 8].map(at => composeRequest(lease, at, at, false, 0).unheard),
    [7, 7]
  )
  t.equal(lease.unansweredSince, 7)
})

t.test('only what the script returns is read', async t => {
  t.match(readLeaseReply([1, 2, 3, 4, 5, 6, 7, 8]), { generation: 1, held: 8 })
  for (const wrong of [undefined, 'x', [], [1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, '8'], { length: 8 }])
    t.throws(() => readLeaseReply(wrong), TypeError)
})

t.test('a lease is starved where requests wait and other instances hold unused permits', async t => {
  const applied = (parts: Partial<typeof REPLY>, waiting: number, batch = 0) => {
    const lease = leaseOf({ generation: 900, spent: 3 }, { waiters: waiters(waiting), batch })
    applyReply(lease, SENT, { ...REPLY, ...parts }, 120)
    return lease
  }
  const isStarved = (parts: Partial<typeof REPLY>, waiting: number) => applied(parts, waiting).starved
  t.same([isStarved({}, 1), isStarved({ lent: 4 }, 2)], [true, true])
  const enough = [isStarved({}, 0), isStarved({ lent: 4 }, 1), isStarved({ held: 0 }, 1), isStarved({ free: 1 }, 1)]
  t.same(enough, [false, false, false, false])
  const lowWater = [applied({ lent: 13 }, 0, 8), applied({ lent: 7 }, 0, 8), applied({ lent: 13 }, 6, 8)]
  t.same(
    lowWater.map(lease => lease.lowWater),
    [4, 2, 2]
  )
})
