// Open streams are checked again whenever something changes, by today's access where a token is stale, and never twice for nothing.
import t, { type Test } from 'tap'
import { createOpenStreams } from '../../gateway/forward/open-streams.ts'
import type { StreamControl, StreamEnd } from '../../gateway/forward/stream.ts'
import type { Identity, User } from '../../gateway/identity.ts'
import { createRevocations } from '../../gateway/tokens/revocations.ts'
import { longestTurn, measureOwnTime, measureWork } from '../support/own-time.ts'
import { person, routeAt, upstreamAt } from '../support/routes.ts'
import { until } from '../support/until.ts'

const START = 1_800_000_000_000

type Access = { user: User; version: number; createdAt?: Date } | undefined

const world = (t: Test, freshAccess: (id: number) => Promise<Access> = async () => undefined, mayRenew = false) => {
  const clock = { now: START, set: 0 }
  const table = { isSwapped: false, looks: 0 }
  const asked: (readonly number[])[] = []
  const unconfirmed = new Set<number>()
  const revocations = createRevocations(() => clock.now)
  const renewals = { asked: [] as (readonly string[])[], until: new Map<string, number>() }
  const streams = createOpenStreams({
    instance: '0a1b2c3d',
    revocations,
    async freshAccess(ids) {
      asked.push(ids)
      const found = new Map<number, NonNullable<Access> & { createdAt: Date }>()
      for (const id of ids) {
        const access = await freshAccess(id)
        if (access !== undefined) found.set(id, { createdAt: new Date(START), ...access })
      }
      return found
    },
    ...(mayRenew && {
      async renewedUntil(ids) {
        renewals.asked.push(ids)
        return renewals.until
      }
    }),
    checkAgain({ route, identity }) {
      const { roles } = route
      const mayPass = roles === undefined || identity?.user.profiles.some(profile => roles.includes(profile)) !== false
      if (!table.isSwapped) return mayPass ? route : undefined
      // About what a search of a table of routes costs.
      for (let i = 0; i < 2000; i++) table.looks = Math.imul(table.looks, 31) + i
      return route.id === 'gone' ? undefined : { ...route, roles: ['Admin'] }
    },
    isUnconfirmed: id => unconfirmed.has(id),
    now: () => clock.now,
    monotonicNow: () => clock.now - clock.set
  })
  t.teardown(() => streams.close())
  revocations.onChange(streams.onRevocationsChanged)
  const identity = (id: number, more: Partial<Identity> = {}): Identity => ({
    user: person({ id }),
    subject: String(id),
    tokenId: `token-${id}`,
    version: 0,
    issuedAt: START / 1000,
    expiresAt: START / 1000 + 60,
    authenticatedAt: START / 1000,
    kind: 'login',
    ...more
  })
  const route = routeAt('/events', upstreamAt(1), { roles: ['Agente'] })
  const open = (who: Identity | undefined, more = {}, control: Partial<StreamControl> = {}) => {
    const ends: (StreamEnd | 'destroyed')[] = []
    const handle = streams.register(
      { kind: 'sse', identity: who, route, path: '/events', hostName: '', requestId: 'r', ip: '192.0.2.1', ...more },
      { end: code => ends.push(code), destroy: () => ends.push('destroyed'), ...control }
    )
    return { ends, handle }
  }
  return { clock, table, asked, unconfirmed, renewals, revocations, streams, identity, open, route }
}

// RV-50
t.test('a stream ends with its token and its lifetime whichever way the clock was set', async t => {
  const hour = 3_600_000
  const setClock = (clock: { now: number; set: number }, byMs: number) => {
    clock.now += byMs
    clock.set += byMs
  }
  const { clock, streams, identity, open } = world(t)
  const lifetime = { maxLifetimeMs: 5000 }
  const long = () => identity(2, { expiresAt: START / 1000 + 10 * 3600 })
  setClock(clock, hour)
  const livedAhead = open(long(), lifetime)
  streams.tick()
  clock.now += 1000
  streams.tick()
  setClock(clock, -hour)
  const [short, lived] = [open(identity(1, { expiresAt: START / 1000 + 5 })), open(long(), lifetime)]
  clock.now += 3999
  streams.tick()
  t.same([short.ends, lived.ends, livedAhead.ends], [[], [], []])
  clock.now += 1
  streams.tick()
  t.same([short.ends, lived.ends, livedAhead.ends], [[4401], [], [1001]])
  clock.now += 1000
  streams.tick()
  t.same(lived.ends, [1001])

  const early = world(t)
  setClock(early.clock, -early.clock.now)
  const begun = early.open(early.identity(1))
  early.streams.tick()
  setClock(early.clock, START)
  const workMs = measureWork()
  early.streams.tick()
  t.ok(workMs() < 500, 'no turn is long for it')
  t.same(begun.ends, [])
  early.clock.now += 60_000
  early.streams.tick()
  t.same(begun.ends, [4401])
})

t.test('a stream of an access token ends when its owner has not been confirmed for too long', async t => {
  const { streams, identity, open, unconfirmed } = world(t)
  const [byToken, byLogin] = [open(identity(1, { kind: 'personal' })), open(identity(1))]
  streams.tick()
  t.same([byToken.ends, byLogin.ends], [[], []])
  unconfirmed.add(1)
  streams.tick()
  t.same([byToken.ends, byLogin.ends], [[4401], []])
})

t.test('a stream of a lost person does not go on with the access of whoever has got the id since', async t => {
  const another = { user: person({ id: 1, username: 'another', profiles: ['Agente'] }), version: 1 }
  const renamed = { ...another, user: { ...another.user, id: 2 }, createdAt: new Date(START - 86_400_000) }
  const { revocations, identity, open } = world(t, async id => (id === 1 ? another : renamed))
  const [lost, kept] = [open(identity(1)), open(identity(2))]
  revocations.learn({ versions: [1, 2].map(userId => ({ userId, version: 1, lowestAccepted: 0 })) })
  await until(() => lost.ends.length > 0)
  t.same([lost.ends, kept.ends], [[4401], []])
})

// RV-57
t.test('fifty thousand streams delay nothing when the table is swapped, they expire, or one login ends', async t => {
  const { streams, table, revocations, identity, open, clock } = world(t, () => new Promise(() => undefined))
  const opened = Array.from({ length: 50_000 }, (_, i) => open(identity(i + 1)))
  const endedCount = () => opened.filter(({ ends }) => ends.length > 0).length
  const threadMs = () => process.threadCpuUsage().user / 1000
  const longestTurnOf = (work: () => void, isDone: () => boolean) =>
    longestTurn(async () => {
      work()
      while (!isDone()) await new Promise(setImmediate)
    })
  const logoutMs: number[] = []
  for (let i = 0; i < 20; i++) {
    const beganMs = threadMs()
    revocations.learn({ tokens: [{ jti: `token-${i + 1}`, expiresAt: START / 1000 + 60 }] })
    await new Promise(setImmediate)
    logoutMs.push(threadMs() - beganMs)
  }
  t.equal(endedCount(), 20)
  t.ok((logoutMs.sort((a, b) => a - b)[10] ?? 0) < 2, 'a logout looks at the streams of its login alone')

  let checked = 0
  table.isSwapped = true
  const last = opened.at(-1)
  open(identity(60_000), {}, { onChange: () => checked++ })
  checked = 0
  t.ok(
    (await longestTurnOf(
      () => streams.onTableSwapped(),
      () => checked > 0
    )) < 0.5,
    'a reload'
  )
  clock.now += 60_000
  t.ok(
    (await longestTurnOf(
      () => streams.tick(),
      () => last?.ends.length === 1
    )) < 0.5,
    'an expiry of all'
  )
  t.equal(endedCount(), 50_000)
})

// RW-65
t.test('thousands of stale people are asked about in a few questions, and keep their streams', async t => {
  const { streams, revocations, identity, open, asked } = world(t, async id => ({ user: person({ id }), version: 1 }))
  const all = Array.from({ length: 2000 }, (_, i) => open(identity(i + 1)))
  const versions = all.map((_, i) => ({ userId: i + 1, version: 1, lowestAccepted: 0 }))
  revocations.learn({ versions })
  await until(() => asked.flat().length === 2000, 'asked')
  await new Promise(resolve => setImmediate(resolve))
  t.ok(asked.length <= 4)
  t.same(
    all.flatMap(({ ends }) => ends),
    []
  )
  t.equal(streams.counts().sse, 2000)
})

// RW-66
t.test('an answer that a later one has overtaken changes nothing', async t => {
  const answers: ((access: Access) => void)[] = []
  const { revocations, identity, open, asked } = world(t, () => new Promise(resolve => answers.push(resolve)))
  const seen: (readonly string[] | undefined)[] = []
  open(identity(1), {}, { onChange: ({ identity: current }) => seen.push(current?.user.profiles) })
  for (const version of [1, 2]) {
    revocations.learn({ versions: [{ userId: 1, version, lowestAccepted: 0 }] })
    await until(() => asked.length === version, 'asked')
  }
  const answer = async (version: number, profiles: string[]) => {
    answers[version - 1]?.({ user: person({ id: 1, profiles }), version })
    await new Promise(resolve => setImmediate(resolve))
  }
  await answer(2, ['Agente'])
  await answer(1, ['Agente', 'Supervisor'])
  t.same(seen, [['Agente']])
})

t.test('what becomes an event stream while the gateway stops is not refused, and ends with the others', async t => {
  const { streams, open } = world(t)
  await streams.drain(0)
  const { ends } = open(undefined)
  await until(() => ends.length > 0)
  t.same(ends, [1012])
  t.throws(() => open(undefined, { kind: 'websocket' }), { code: 'GW_UNAVAILABLE', reason: 'draining' })
})

t.test('access that can’t be known ends a stale stream within a second', async t => {
  const failing = world(t, () => Promise.reject(new Error('database away')))
  const silent = world(t, () => new Promise(() => undefined))
  for (const { open, identity, revocations } of [failing, silent]) {
    const { ends } = open(identity(1))
    const ownTimeMs = measureOwnTime()
    revocations.learn({ versions: [{ userId: 1, version: 1, lowestAccepted: 0 }] })
    await until(() => ends.length > 0, 'ended')
    t.same(ends, [4403])
    t.ok(ownTimeMs() < 1000)
  }
})
