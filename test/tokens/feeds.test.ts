// What a process hears and reads about ended tokens and about keys: at once, in time, and again after a failure.
import { mock } from 'node:test'
import { setImmediate as setTurn } from 'node:timers'
import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startAssertionFeed } from '../../gateway/tokens/assertions.ts'
import { startRevocationFeed } from '../../gateway/tokens/revocation-feed.ts'
import { type AccessChange, type Changed, createRevocations } from '../../gateway/tokens/revocations.ts'
import { shiftClocks } from '../support/clocks.ts'

type FeedOptions = Parameters<typeof startRevocationFeed>[0]

const NOW_S = 1_700_000_000
const OWNER = 7
const HOUR_MS = 60 * 60 * 1000
const PURGE_MS = 10 * 60 * 1000

const settle = async () => {
  for (let turn = 0; turn < 10; turn++) await setImmediate()
}

const createLogLines = () => {
  const lines: string[] = []
  const note = (fields: unknown, message?: string) =>
    void lines.push(typeof fields === 'string' ? fields : `${(fields as { reason?: string }).reason}: ${message}`)
  return { lines, log: { info: note, warn: note, debug: note, error: note } as never }
}

const pass = async (milliseconds: number) => {
  mock.timers.tick(milliseconds)
  await settle()
}

const READ = {
  tokens: [] as { jti: string; expiresAt: number }[],
  nowS: NOW_S,
  at: NOW_S * 1000,
  isComplete: false,
  mayLag: false
}

/** A feed on a database that reads what the test says, `first` and later, and counts how often it is asked. */
const startFeed = async (t: Test, options: Partial<FeedOptions> = {}, first: Partial<typeof READ> = {}) => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const revocations = createRevocations(() => NOW_S * 1000)
  const told: Changed[] = []
  revocations.onChange(changed => void told.push(changed))
  const hooks = { onRead: () => {}, onRestore: () => {} }
  const state = { reads: 0, purges: 0, isAway: false, ...hooks, ...READ, ...first }
  const asked: unknown[] = []
  const { lines, log } = createLogLines()
  let on: Parameters<FeedOptions['source']['listen']>[0] | undefined
  const read = async () => {
    state.reads++
    state.onRead()
    if (state.isAway) throw new Error('away')
    const { tokens, at, nowS, mayLag, isComplete: complete } = state
    return { tokens, versions: [], cursor: `after ${state.reads}`, at, nowS, complete, mayLag }
  }
  const restored: unknown[] = []
  const feed = await startRevocationFeed({
    source: {
      loadRevocations: read,
      changesSince: read,
      readLiveTokens: async (cursor, _learn, ageMs) => void asked.push([cursor, ageMs]),
      async restore(lost) {
        restored.push(lost)
        state.onRestore()
      },
      async purgeExpired() {
        state.purges++
        if (state.isAway) throw new Error('away')
      },
      listen(listener) {
        on = listener
        return { close: async () => undefined }
      }
    },
    revocations,
    personalTokens: { isOwner: (id: number) => id === OWNER, learn() {}, retain() {}, purge() {} } as never,
    log,
    now: () => state.at,
    clock: () => 0,
    ...options
  })
  const hear = async (change: AccessChange) => {
    on?.onChange(change)
    await settle()
  }
  /** How often the database is read in this time. */
  const readsIn = async (milliseconds: number) => {
    const before = state.reads
    for (let passed = 0; passed < milliseconds; passed += 10) await pass(10)
    return state.reads - before
  }
  return { feed, revocations, told, state, asked, restored, lines, hear, readsIn, on: () => on }
}

t.test('what is heard counts at once; it is read up on only where it is not everything', async t => {
  const { feed, revocations, told, state, hear } = await startFeed(t)
  t.equal(feed.isListening(), true)
  await hear({ kind: 'token', jti: 'x', expiresAt: NOW_S + 60 })
  t.equal(revocations.isRevoked('x'), true)
  await hear({ kind: 'token', jti: 'x', expiresAt: NOW_S + 60 })
  await hear({ kind: 'person', userId: 3, version: 2, lowestAccepted: 1 })
  t.same([told, state.reads], [[['x'], [3]], 1])
  await hear({ kind: 'person', userId: OWNER, version: 2, lowestAccepted: 1 })
  t.same([told.length, state.reads], [3, 2], 'access tokens carry the access of their owner')
  await hear({ kind: 'many' })
  t.same([told.length, state.reads], [3, 3], 'which is nothing about anyone')
  await feed.close()
})

t.test('requests go on while hundreds of thousands of changes are learned', async t => {
  const { feed, revocations, state } = await startFeed(t)
  state.tokens = Array.from({ length: 200_000 }, (_, n) => ({ jti: `${n}`, expiresAt: NOW_S + 60 }))
  const sizes: number[] = []
  revocations.onChange(() => {
    if (sizes.length === 0) void setImmediate().then(() => sizes.push(revocations.size()))
  })
  await feed.catchUp()
  t.ok(Number(sizes[0]) < state.tokens.length)
  t.equal(revocations.size(), state.tokens.length)
  await feed.close()
})

t.test(
  'requests go on while hundreds of thousands of changes are compared with those of a restored database',
  async t => {
    const { feed, revocations, state, hear } = await startFeed(t)
    let turns = 0
    let isOver = false
    const count = () => {
      turns++
      if (!isOver) setTurn(count)
    }
    const at: number[] = []
    state.tokens = Array.from({ length: 200_000 }, (_, n) => ({ jti: `${n}`, expiresAt: NOW_S + 60 }))
    await feed.catchUp()
    await hear({ kind: 'token', jti: 'lost', expiresAt: NOW_S + 60 })
    state.isComplete = true
    state.onRead = () => {
      at.push(turns)
      setTurn(count)
    }
    state.onRestore = () => void at.push(turns)
    await feed.catchUp()
    isOver = true
    const [read = 0, restored = 0] = at
    t.ok(restored - read > 1, 'while it is compared')
    t.ok(turns - restored > 1, 'while it is learned')
    t.equal(revocations.isRevoked('lost'), true)
    await feed.close()
  }
)

t.test('changes are read every two seconds, twice a second while none is heard, and not after the end', async t => {
  for (const [mostStalenessMs, everyMs] of [
    [undefined, 2000],
    [60_000, 2000],
    [400, 100],
    [40, 50]
  ] as const)
    await t.test(`at most ${mostStalenessMs} ms old`, async t => {
      const { feed, state, readsIn, on } = await startFeed(t, { mostStalenessMs })
      t.equal(await readsIn(4000), 4000 / everyMs)
      on()?.onLost()
      t.equal(feed.isListening(), false)
      t.equal(await readsIn(4000), 4000 / Math.min(500, everyMs))
      const reads = state.reads
      for (let attempt = 0; attempt < 20; attempt++) {
        on()?.onLost()
        await readsIn(200)
      }
      t.equal(state.reads - reads, 4000 / Math.min(500, everyMs), 'also while it is tried again, and lost again')
      const before = state.reads
      on()?.onRestored()
      await settle()
      t.same([feed.isListening(), state.reads], [true, before + 1], 'something may have been missed')
      t.equal(await readsIn(4000), 4000 / everyMs)
      await feed.close()
      on()?.onLost()
      await feed.catchUp()
      t.equal(await readsIn(4000), 0)
    })
})

t.test('each read says where it continues and how old the last one is', async t => {
  const { feed, state, asked, restored, lines, readsIn } = await startFeed(t)
  state.at += 2500
  await readsIn(2000)
  state.isComplete = true
  await readsIn(2000)
  t.same(asked.slice(1), [
    ['after 1', 2500],
    [undefined, 0]
  ])
  t.same([restored, lines], [[], []], 'nothing was lost')
  await feed.close()
})

t.test('a database that cannot be read is reported once, and once that it can be again', async t => {
  const { feed, state, lines, readsIn } = await startFeed(t)
  const failed = 'revocations-unreadable: revocations cannot be read; the known ones stay in force'
  await readsIn(2000)
  t.same(lines, [])
  for (const _ of [1, 2]) {
    state.isAway = true
    await readsIn(6000)
    state.isAway = false
    await readsIn(6000)
  }
  t.same(lines, [failed, 'revocations can be read again', failed, 'revocations can be read again'])
  await feed.close()
})

t.test('what has expired is deleted every ten minutes, here and in the database', async t => {
  const { feed, revocations, state, lines, hear } = await startFeed(t)
  await hear({ kind: 'token', jti: 'over', expiresAt: NOW_S })
  await hear({ kind: 'token', jti: 'live', expiresAt: NOW_S + 1 })
  await pass(PURGE_MS - 1)
  t.equal(state.purges, 0)
  state.isAway = true
  await pass(1)
  t.same([state.purges, revocations.isRevoked('over'), revocations.isRevoked('live')], [1, false, true])
  t.ok(lines.includes('undefined: expired revocations could not be deleted'))
  await feed.close()
  await pass(PURGE_MS)
  t.equal(state.purges, 1)
})

t.test('a database that is away makes revocations too old, whatever the clock is set to, and only then', async t => {
  for (const mostStalenessMs of [400, 1000, 60_000])
    await t.test(`at most ${mostStalenessMs} ms old`, async t => {
      let clock = 0
      const { feed, state } = await startFeed(t, { mostStalenessMs, clock: () => clock })
      const oldestIn = async (milliseconds: number) => {
        let oldest = 0
        for (let passed = 0; passed < milliseconds; passed += 50) {
          state.at += 50
          clock += 50
          oldest = Math.max(oldest, feed.staleness())
          await pass(50)
        }
        return oldest
      }
      t.ok((await oldestIn(3000)) < mostStalenessMs)
      state.at += HOUR_MS
      t.ok(feed.staleness() > mostStalenessMs, 'the machine was suspended')
      await oldestIn(3000)
      t.ok(feed.staleness() < mostStalenessMs)
      state.mayLag = true
      await oldestIn(2 * mostStalenessMs)
      t.ok(feed.staleness() > mostStalenessMs, 'only a standby answers')
      state.mayLag = false
      await oldestIn(3000)
      t.ok(feed.staleness() < mostStalenessMs)
      state.isAway = true
      state.at -= HOUR_MS
      await oldestIn(2 * mostStalenessMs)
      t.ok(feed.staleness() > mostStalenessMs, 'the clock is set back while the database is away')
      await feed.close()
    })
})

t.test('a token that was ended stays ended until it is over by the clock of the database and by our own', async t => {
  for (const [ownS, databaseS, isRevoked] of [
    [-20, 10, true],
    [10, -20, true],
    [10, 10, false]
  ] as const)
    await t.test(`ours ${ownS} s, that of the database ${databaseS} s after its end`, async t => {
      const times = { nowS: NOW_S + databaseS, at: (NOW_S + ownS) * 1000 }
      const first = { tokens: [{ jti: 'x', expiresAt: NOW_S }], isComplete: true, ...times }
      const { feed, state, revocations } = await startFeed(t, { pollMs: PURGE_MS }, first)
      state.isAway = true
      await pass(PURGE_MS)
      t.equal(revocations.isRevoked('x'), isRevoked)
      await feed.close()
    })
})

t.test('the time of assertions is read anew as soon as a suspended machine resumes', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const clocks = shiftClocks(t)
  const learned: number[] = []
  const state = { isAway: true }
  const feed = await startAssertionFeed({
    assertions: { learn: (_rows, nowS) => void learned.push(nowS) },
    async read(isStart) {
      if (state.isAway && !isStart) throw new Error('away')
      return { rows: [], nowS: Date.now() / 1000 }
    },
    log: createLogLines().log
  })
  t.teardown(feed.close)
  await pass(3000)
  t.equal(learned.length, 1)
  clocks.wallMs = 600_000
  await pass(1000)
  state.isAway = false
  await pass(1000)
  await pass(5000)
  t.equal(learned.length, 2)
  t.ok((learned[1] ?? 0) - (learned[0] ?? 0) >= 600)
})

t.test('the keys of assertions are read every minute, and a failure is reported once', async t => {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { lines, log } = createLogLines()
  const state = { isAway: false, reads: [] as boolean[], learned: 0 }
  const feed = await startAssertionFeed({
    assertions: { learn: () => void state.learned++ },
    async read(isStart) {
      state.reads.push(isStart)
      if (state.isAway) throw new Error('away')
      return { rows: [], nowS: NOW_S }
    },
    log
  })
  const minutes = async (count: number) => {
    for (let n = 0; n < count; n++) await pass(60_000)
  }
  await pass(59_999)
  t.same(state.reads, [true])
  await pass(1)
  t.same([state.reads, state.learned], [[true, false], 2], 'only a start replaces keys that no secret opens')
  const failed = 'signing-keys-unreadable: the assertion keys cannot be read; the known ones stay in use'
  for (const _ of [1, 2]) {
    state.isAway = true
    await minutes(2)
    state.isAway = false
    await minutes(2)
  }
  t.same(lines, [failed, 'the assertion keys can be read again', failed, 'the assertion keys can be read again'])
  t.equal(state.learned, 6)
  feed.close()
  await minutes(1)
  t.equal(state.reads.length, 10)
})
