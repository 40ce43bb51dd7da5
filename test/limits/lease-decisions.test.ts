// What an instance tells Redis about a key, what it takes over from the answer, and when it speaks up again.
import t from 'tap'
import {
  adaptBatch,
  applyReply,
  beginAnew,
  composeRequest,
  createLease,
  createWindow,
  type Flight,
  isOver,
  LEASE_MS,
  type Lease,
  leaseArguments,
  leaseKey,
  type PermitWindow,
  probeKey,
  readLeaseReply,
  renewWindow,
  runsLow,
  stepFor,
  touch
} from '../../gateway/limits/leases.ts'

const windowOf = (parts: Partial<PermitWindow> = {}): PermitWindow => ({ ...createWindow(), ...parts })
const leaseOf = (window: Partial<PermitWindow> = {}, parts: Partial<Lease> = {}): Lease => {
  const lease = { ...createLease(windowOf(window), 'key', 100, 1000, 0), ...parts }
  lease.window.lease = lease
  return lease
}
const wait = (count: number) => Array.from({ length: count }, () => () => undefined)

t.test('a lease begins with nothing in hand and all permits thought free', async t => {
  const window = createWindow()
  t.same(window, { end: 0, spent: 0, lent: 0, others: 0, generation: 0, lease: undefined })
  t.same(createLease(window, 'k', 12, 1000, 77), {
    window,
    key: 'k',
    max: 12,
    windowMs: 1000,
    waiters: [],
    flight: undefined,
    unheard: 0,
    unansweredSince: undefined,
    scheduled: false,
    owes: false,
    starved: false,
    batch: 0,
    lowWater: 0,
    gapMs: 160,
    free: 12,
    touchedAt: 77,
    fetchedAt: 77
  })
  const lease = leaseOf({ end: 9, spent: 3, lent: 4, others: 2, generation: 9 })
  renewWindow(lease.window, 60)
  t.match(lease.window, { end: 60, spent: 0, lent: 0, others: 0, generation: 0 })
  t.doesNotThrow(() => renewWindow(createWindow(), 0))
})

t.test('a window is over when every permit is known to be spent', async t => {
  for (const [spent, lent, others, generation, expected] of [
    [10, 10, 0, 5, true],
    [4, 4, 6, 5, true],
    [4, 5, 6, 5, true],
    [4, 4, 5, 5, false],
    [10, 9, 0, 5, false],
    [10, 10, 0, 0, false],
    [11, 11, 0, 5, true]
  ] as const) {
    t.equal(
      isOver(windowOf({ spent, lent, others, generation }), 10),
      expected,
      `${spent} ${lent} ${others} ${generation}`
    )
  }
})

t.test('the reserve follows the demand', async t => {
  const lease = leaseOf({}, { touchedAt: 100, gapMs: 160 })
  touch(lease, 120)
  t.match(lease, { touchedAt: 120, gapMs: 90 }, 'faster demand counts for a half')
  touch(lease, 320)
  t.equal(lease.gapMs, 90 + (200 - 90) / 4, 'slower demand for a quarter')
  touch(lease, 320)
  t.equal(lease.gapMs, 117.5 / 2)

  const batch = (parts: Partial<Lease>) => {
    const adapted = leaseOf({}, parts)
    adaptBatch(adapted)
    return adapted.batch
  }
  t.equal(batch({ gapMs: 80 }), 0)
  t.equal(batch({ gapMs: 79, batch: 0 }), 2)
  t.equal(batch({ gapMs: 79, batch: 3 }), 4, 'what 250 ms would need')
  t.equal(batch({ gapMs: 10, batch: 3 }), 6, 'at most double')
  t.equal(batch({ gapMs: 10, batch: 20 }), 25)
  t.equal(batch({ gapMs: 0.001, batch: 90 }), 25, 'at most a quarter of the limit')
  t.equal(batch({ gapMs: 0, batch: 1e6, max: 1e6 }), 16_384)
  t.equal(batch({ gapMs: 0, batch: 1e6, max: 50_001 }), 12_501)
  t.equal(batch({ gapMs: 0.001, batch: 20_000, max: 1e6 }), 16_384)

  const low = (lent: number, free: number, lowWater = 3) => runsLow(leaseOf({ lent, spent: 10 }, { free, lowWater }))
  t.same([low(12, 8), low(13, 8), low(12, 7), low(12, 9), low(12, 8, 2)], [true, false, false, true, false])
})

t.test('a request says what was spent, what is kept, and who waits', async t => {
  const waiting = leaseOf({ end: 500, spent: 3, lent: 8, generation: 500 }, { waiters: wait(2) })
  t.same(composeRequest(waiting, 100, 12, false, 7), {
    sequence: 12,
    unheard: 12,
    generation: 500,
    spent: 3,
    keep: 5,
    waiting: 2,
    extra: 7,
    leftMs: 0,
    sentAt: 100
  })
  t.match(composeRequest(waiting, 130, 13, true, 0), { sequence: 13, unheard: 12, spent: 3, keep: 0 })
  t.match(waiting, { unheard: 12, unansweredSince: 100 }, 'no reply since then')
  t.equal(waiting.window.lent, 3, 'given back at once')
  t.match(composeRequest(leaseOf({ end: 500, spent: 5, lent: 3, generation: 500 }), 100, 1, true, 0), {
    spent: 5,
    keep: 0
  })
  const debt = leaseOf({ end: 500, spent: 5, lent: 3, generation: 500 })
  composeRequest(debt, 100, 1, true, 0)
  t.equal(debt.window.lent, 3, 'a debt stays one')
  const ended = leaseOf({ end: 500, spent: 5, lent: 9, generation: 500 })
  t.match(composeRequest(ended, 500, 1, false, 0), { generation: 0, spent: 0, keep: 0 })
  t.equal(ended.window.end, 0, 'of no window yet')
  const local = (end: number, spent: number, now: number) =>
    composeRequest(leaseOf({ end, spent, generation: 0 }), now, 1, false, 0).leftMs
  t.same([local(500, 1, 100.5), local(500, 0, 100), local(500, 1, 499.5), local(500, 1, 500)], [399, 0, 1, 0])
})

const REPLY = { generation: 900, nowMs: 100, remainingMs: 400, spent: 3, lent: 10, others: 20, free: 60, held: 0 }
const flightOf = (parts: Partial<Flight> = {}): Flight => ({
  sequence: 1,
  unheard: 1,
  generation: 900,
  spent: 3,
  keep: 0,
  waiting: 0,
  extra: 0,
  leftMs: 0,
  sentAt: 100,
  ...parts
})

t.test('an answer is taken over from the moment its question was sent, with what was spent since', async t => {
  const asked = { unheard: 3, unansweredSince: 70, owes: true, starved: true }
  const lease = leaseOf({ end: 450, spent: 5, lent: 8, generation: 900 }, { batch: 8, ...asked })
  applyReply(lease, flightOf({ sentAt: 100.7 }), REPLY, 120)
  t.match(lease.window, { end: 499, spent: 5, lent: 10, others: 20, generation: 900 })
  t.match(lease, { free: 60, lowWater: 2, unheard: 0, unansweredSince: undefined, owes: false, starved: false })

  const begun = leaseOf({ generation: 0 })
  applyReply(begun, flightOf({ generation: 0 }), REPLY, 120)
  t.equal(begun.window.generation, 900, 'the window is the one that Redis began')

  const spentAfter = (window: Partial<PermitWindow>, flight: Partial<Flight>, reply = REPLY) => {
    const each = leaseOf(window)
    applyReply(each, flightOf(flight), reply, 120)
    return each.window.spent
  }
  t.equal(spentAfter({ spent: 2, generation: 900 }, {}), 3, 'never less than Redis knows')
  t.equal(spentAfter({ spent: 4, generation: 0 }, { generation: 900 }), 7, 'a window begun since is all to be told')
  t.equal(spentAfter({ spent: 5, generation: 50 }, { generation: 50 }), 3, 'of a window that was over')
  t.equal(spentAfter({ spent: 5, generation: 100 }, { generation: 100 }), 3)
  t.equal(spentAfter({ spent: 5, generation: 101 }, { generation: 101 }), 5)
  t.equal(spentAfter({ spent: 5, generation: 0 }, { generation: 0 }), 5, 'a local window is added')
})

t.test('an answer whose window has passed is void', async t => {
  const late = leaseOf({ end: 450, spent: 5, lent: 8, generation: 900 })
  applyReply(late, flightOf(), REPLY, 498)
  t.match(late.window, { end: 499, spent: 5 })
  applyReply(late, flightOf(), REPLY, 499)
  t.match(late.window, { end: 0, spent: 0, lent: 0 })
  const other = leaseOf({ end: 450, spent: 5, lent: 8, generation: 901 })
  applyReply(other, flightOf(), REPLY, 499)
  t.match(other.window, { end: 450, spent: 5 }, 'another window is not touched')
})

t.test('an instance that finds all permits lent, some of them unused by others, is starved', async t => {
  const isStarved = (reply: Partial<typeof REPLY>, waiting: number) => {
    const lease = leaseOf({ generation: 900, spent: 3 }, { waiters: wait(waiting) })
    applyReply(lease, flightOf(), { ...REPLY, ...reply }, 120)
    return lease.starved
  }
  const out = { lent: 3, free: 0, held: 1 }
  t.equal(isStarved(out, 1), true)
  t.equal(isStarved(out, 0), false, 'no request waits')
  t.equal(isStarved({ ...out, lent: 4 }, 1), false, 'there is a permit for each')
  t.equal(isStarved({ ...out, lent: 4 }, 2), true)
  t.equal(isStarved({ ...out, held: 0 }, 1), false, 'the others have used theirs')
  t.equal(isStarved({ ...out, free: 1 }, 1), false, 'there are more')

  const lowWater = (lent: number, batch: number, waiting = 0) => {
    const lease = leaseOf({ generation: 900, spent: 3 }, { batch, waiters: wait(waiting) })
    applyReply(lease, flightOf(), { ...REPLY, lent }, 120)
    return lease.lowWater
  }
  t.same([lowWater(13, 8), lowWater(7, 8), lowWater(13, 8, 6), lowWater(4, 8, 6)], [4, 2, 2, 0])
})

t.test('permits in hand are confirmed, given back when idle, and the lease is forgotten at last', async t => {
  const step = (window: Partial<PermitWindow>, parts: Partial<Lease>, now: number, isUp = true) =>
    stepFor(leaseOf(window, parts), now, isUp)
  const held = { end: 5000, spent: 1, lent: 4 }
  t.equal(step(held, { touchedAt: 0, fetchedAt: 0 }, 129), 'nothing')
  t.equal(step(held, { touchedAt: 0, fetchedAt: 0 }, 130), 'give back')
  t.equal(step(held, { touchedAt: 600, fetchedAt: 0 }, 599), 'nothing')
  t.equal(step(held, { touchedAt: 600, fetchedAt: 0 }, 600), 'confirm')
  t.equal(step(held, { touchedAt: 0, fetchedAt: 0 }, 130, false), 'nothing', 'Redis is away')
  t.equal(step(held, { touchedAt: 0, waiters: wait(1) }, 5), 'ask', 'requests wait')
  const scarce = (free: number, fetchedAt: number, others = 1) =>
    step({ ...held, others }, { touchedAt: 100, fetchedAt, free }, 100)
  t.equal(scarce(24, 50), 'give back', 'another instance may need the last quarter')
  t.same([scarce(25, 50), scarce(24, 51), scarce(24, 50, 0)], ['nothing', 'nothing', 'nothing'])
  const spent = { end: 5000, spent: 4, lent: 4 }
  t.equal(step(spent, { touchedAt: 0 }, 130), 'forget')
  t.equal(step(spent, { touchedAt: 0 }, 129), 'nothing')
  t.equal(step(spent, { touchedAt: 0, owes: true }, 130), 'give back')
  t.equal(step({ ...spent, others: 1 }, { touchedAt: 99, owes: true, free: 1, fetchedAt: 0 }, 100), 'nothing')
  t.equal(step({ ...held, end: 130 }, { touchedAt: 0 }, 130), 'forget', 'its window is over')
  t.equal(step({ ...spent, end: 130 }, { touchedAt: 0, owes: true }, 130), 'forget')
  t.equal(step({ ...held, end: 130 }, { touchedAt: 1 }, 130), 'nothing')
  t.equal(step(held, { touchedAt: 900, fetchedAt: 300 }, 899), 'nothing')
  t.equal(step(held, { touchedAt: 900, fetchedAt: 300 }, 900), 'confirm')
  t.equal(LEASE_MS, 1000)
})

t.test('after a break nothing in hand is granted, and nothing from before counts', async t => {
  const lease = leaseOf({ end: 500, spent: 2, lent: 9 }, { flight: flightOf(), unheard: 3, unansweredSince: 5 })
  beginAnew(lease)
  t.match(lease, { flight: undefined, unheard: 3, unansweredSince: undefined, owes: true })
  t.match(lease.window, { spent: 2, lent: 2 })
  const debt = leaseOf({ spent: 9, lent: 2 })
  beginAnew(debt)
  t.equal(debt.window.lent, 2)
})

t.test('a window has a key of fixed length, and an answer that is none is not believed', async t => {
  t.match(leaseKey('global', 'x', 1, 2), /^rate:\{[A-Za-z0-9_-]{22}\}$/)
  const windows: readonly Parameters<typeof leaseKey>[] = [
    ['global', 'x', 1, 2],
    ['globalx', '', 1, 2],
    ['global', 'y', 1, 2],
    ['global', 'x', 2, 2],
    ['global', 'x', 1, 3]
  ]
  t.equal(new Set(windows.map(each => leaseKey(...each))).size, windows.length)
  t.equal(leaseKey('global', 'x', 1, 2), leaseKey('global', 'x', 1, 2))
  t.equal(probeKey('k'), 'k:probe')
  const request = { sequence: 1, unheard: 2, generation: 3, spent: 4, keep: 5, waiting: 6, extra: 7, leftMs: 8 }
  t.same(leaseArguments('me', 100, 1000, request), ['me', 100, 1000, 1, 2, 3, 4, 5, 6, 7, 8])
  t.same(readLeaseReply([1, 2, 3, 4, 5, 6, 7, 8]), {
    generation: 1,
    nowMs: 2,
    remainingMs: 3,
    spent: 4,
    lent: 5,
    others: 6,
    free: 7,
    held: 8
  })
  for (const answer of [
    undefined,
    'x',
    [],
    [1, 2, 3, 4, 5, 6, 7],
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
    [1, 2, 3, 4, 5, 6, 7, '8'],
    [0.5, 2, 3, 4, 5, 6, 7, 8],
    { length: 8 }
  ])
    t.throws(() => readLeaseReply(answer), TypeError, JSON.stringify(answer))
})
