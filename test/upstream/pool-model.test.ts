// Whatever happens to the targets of upstreams, in whatever order: limits hold, waiting is fair, and nothing of what has gone stays.
import { mock } from 'node:test'
import t from 'tap'
import { endpointOf, type Target, type Upstream } from '../../gateway/routes/upstream.ts'
import type { Client, UpstreamConnection } from '../../gateway/upstream/connection.ts'
import { EXHAUSTED, type UpstreamFault } from '../../gateway/upstream/faults.ts'
import type { Dialling, TargetPool } from '../../gateway/upstream/pool.ts'
import type { Waiter } from '../../gateway/upstream/upstream-pool.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { HEALTH_CHECK, inUse, targetAt, upstreamAt } from '../support/routes.ts'
import { fc } from '../support/worlds.ts'

const STEP_MS = 50
const DOWN = 'an upstream target is down'

type Events = Parameters<Dialling['connect']>[2]

interface FakeConnection {
  target: Target
  openedAt: number
  deadline: number
  idleSince: number
  isBound: boolean
  client: Client | undefined
  /** Whose request it carried last. */
  lastClient: Client | undefined
  destroyed: boolean
  isBusy: boolean
  events: Events
  destroy(): void
  expire(): void
}

interface Waiting {
  upstream: Upstream
  enteredAt: number
  stop: () => void
}

/** A table, and what its upstreams are named and made of. */
const upstreams = fc.record({
  name: fc.constantFrom('a', 'b'),
  targets: fc.uniqueArray(fc.record({ port: fc.integer({ min: 1, max: 3 }), backup: fc.boolean() }), {
    minLength: 1,
    selector: ({ port }) => port
  }),
  maxConnections: fc.constantFrom(undefined, 1, 2, 3),
  queue: fc.constantFrom(undefined, { max: 0, timeoutMs: 500 }, { max: 2, timeoutMs: 500 }),
  errors: fc.constantFrom(0, 1, 2, 5),
  isChecked: fc.boolean()
})
type UpstreamChoice = typeof upstreams extends fc.Arbitrary<infer T> ? T : never

const upstreamOf = (choice: UpstreamChoice): Upstream => ({
  ...upstreamAt(),
  name: choice.name,
  targets: choice.targets.map(({ port, backup }) => ({ ...targetAt(port), ...(backup ? { backup } : {}) })),
  maxConnections: choice.maxConnections,
  queue: choice.maxConnections === undefined ? undefined : choice.queue,
  outlier: { errors: choice.errors, restMs: 1000 },
  healthCheck: choice.isChecked ? { ...HEALTH_CHECK, intervalMs: 200, rise: 2 } : undefined
})

const nth = fc.nat({ max: 7 })
const FAULTS: readonly (readonly [UpstreamFault, boolean])[] = [
  ['unreachable', true],
  ['timeout', true],
  ['timeout', false],
  ['reset', true],
  ['reset', false],
  ['bad-response', false],
  [EXHAUSTED, true]
]
const commands = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('request' as const), nth }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('answer' as const),
      nth,
      status: fc.constantFrom(200, 503),
      ends: fc.constantFrom('free', 'bound', 'unasked', 'close'),
      isFollowed: fc.boolean()
    })
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fault' as const), nth, fault: fc.constantFrom(...FAULTS) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('idleClosed' as const), nth }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('stopWaiting' as const), nth }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('enterSocket' as const), nth }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leaveSocket' as const), nth }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('probed' as const),
      nth,
      failure: fc.constantFrom(undefined, undefined, 'check-status', EXHAUSTED)
    })
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('pass' as const), ms: fc.constantFrom(50, 600, 3000, 11_000) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('reload' as const),
      table: fc.uniqueArray(upstreams, { maxLength: 2, selector: ({ name }) => name })
    })
  }
)
type Command = typeof commands extends fc.Arbitrary<infer T> ? T : never

/** Callbacks are contained: what they throw is noted here. */
const broken: string[] = []

const assert = (holds: boolean, what: string) => {
  if (!holds) broken.push(what)
}

const createWorld = () => {
  let clock = 0
  let table: readonly Upstream[] = []
  const connections = new Set<FakeConnection>()
  const probes = new Set<(failure: string | undefined) => void>()
  const waiting: Waiting[] = []
  const sockets: { pool: TargetPool; leave(): void }[] = []
  const sizes = new WeakMap<TargetPool, number>()

  const dialling = {
    connect(_upstream: Upstream, target: Target, events: Events) {
      const connection: FakeConnection = {
        target,
        events,
        openedAt: clock,
        deadline: Number.POSITIVE_INFINITY,
        idleSince: 0,
        isBound: false,
        client: undefined,
        lastClient: undefined,
        destroyed: false,
        isBusy: true,
        destroy() {
          if (connection.destroyed) return
          connection.destroyed = true
          connections.delete(connection)
          events.onClosed(connection as unknown as UpstreamConnection)
        },
        expire: () => connection.destroy()
      }
      connections.add(connection)
      return connection as unknown as UpstreamConnection
    },
    probe: (upstream: Upstream) => (done: (failure: string | undefined) => void) => {
      assert(table.includes(upstream), `${upstream.name} is checked, and is not in the table`)
      probes.add(done)
      return () => void probes.delete(done)
    }
  } as Dialling
  const log = (fields: object, message: string) => {
    const { upstream, target, reason } = fields as { upstream: string; target: string; reason: string }
    // About a connection, which may be older than the table.
    if (message.includes('that no request asked for')) return
    const known = all.status().find(({ name }) => name === upstream)?.targets ?? []
    assert(
      known.some(({ url }) => url === target),
      `${message}: ${upstream} ${target} is not in the table`
    )
    if (message !== DOWN || !/^status-|^timeout$|^reset$|^bad-response$/.test(reason)) return
    assert(table.find(({ name }) => name === upstream)?.outlier.errors !== 0, 'errors: 0, and a target was rested')
    const others = known.filter(({ url }) => url !== target)
    assert(
      others.some(({ state }) => state !== 'down'),
      'the last target in service was rested'
    )
  }
  const all = createUpstreams({ now: () => clock, log: { info: log, warn: log }, dialling })

  const pick = <T>(from: Iterable<T>, index: number): T | undefined => {
    const list = [...from]
    return list.length === 0 ? undefined : list[index % list.length]
  }
  const busy = () => [...connections].filter(({ isBusy }) => isBusy)
  const clients: readonly Client[] = [{ isOpen: true }, { isOpen: true }, { isOpen: false }]
  /** When a target last sent what no request asked for, by what its connections have in common. */
  const unaskedAt = new WeakMap<Events, number>()
  const use = (connection: FakeConnection, client: Client | undefined) => {
    const { lastClient, isBound, idleSince, events } = connection
    assert(!connection.destroyed, 'a closed connection was given out')
    if (lastClient !== undefined && lastClient !== client) {
      assert(!isBound, 'a bound connection was given to another client')
      assert(clock - idleSince >= 50, 'a connection was given to another client at once')
      assert(clock - (unaskedAt.get(events) ?? -60_000) >= 60_000, 'a connection of a suspicious target was shared')
    }
    connection.lastClient = client
    connection.isBusy = true
  }

  const request = (upstream: Upstream, client: Client | undefined) => {
    const pool = all.poolOf(upstream)
    const connection = pool.acquire({ client }) as FakeConnection | undefined
    const before = waiting.filter(one => one.upstream === upstream).length
    assert(connection === undefined || before === 0, 'a request overtook those that wait')
    if (connection !== undefined) return use(connection, client)
    const leave = () => waiting.splice(waiting.indexOf(entry), 1)
    const waiter: Waiter = {
      onConnection(given) {
        assert(waiting.find(one => one.upstream === upstream) === entry, 'not the first that waits was served')
        leave()
        use(given as unknown as FakeConnection, client)
      },
      onRefused(error) {
        assert(waiting.includes(entry), 'refused, but not waiting')
        const waitedMs = clock - entry.enteredAt
        const isTime =
          waitedMs >= (upstream.queue?.timeoutMs ?? 0) && waitedMs < (upstream.queue?.timeoutMs ?? 0) + STEP_MS
        assert(error.reason === 'upstream-queue-timeout' && isTime, `${error.reason} after ${waitedMs} ms`)
        leave()
      },
      onThrown: error => assert(false, String(error))
    }
    const outcome = pool.wait(waiter, { client })
    const entry: Waiting = { upstream, enteredAt: clock, stop: () => undefined }
    if (typeof outcome === 'function') {
      assert(before < (upstream.queue?.max ?? 0), 'more wait than may')
      entry.stop = () => {
        outcome()
        leave()
      }
      waiting.push(entry)
    } else {
      const expected = upstream.queue === undefined ? 'upstream-connections-exhausted' : 'upstream-queue-full'
      assert(outcome.reason === expected && before >= (upstream.queue?.max ?? 0), `${outcome.reason}, ${before} wait`)
    }
  }

  const end = (connection: FakeConnection | undefined, status: number, ends: string) => {
    if (connection === undefined) return
    const { events } = connection
    const self = connection as unknown as UpstreamConnection
    events.onAnswer?.(self, status)
    connection.isBusy = false
    connection.idleSince = clock
    if (ends === 'bound') connection.isBound = true
    if (ends === 'unasked') {
      unaskedAt.set(events, clock)
      events.onUnasked?.()
    }
    if (ends === 'close' || ends === 'unasked') connection.destroy()
    else events.onFree(self)
  }

  const reload = (next: readonly Upstream[]) => {
    const placeOf = (upstream: Upstream, pool: TargetPool) => `${upstream.name} ${endpointOf(pool.target)}`
    const poolsOf = () =>
      new Map(
        table.flatMap(one =>
          all
            .poolOf(one)
            .members()
            .map(pool => [placeOf(one, pool), pool] as const)
        )
      )
    const before = poolsOf()
    const states = new Map([...before].map(([place, pool]) => [place, pool.status().state]))
    table = next
    all.retain(inUse(...next))
    for (const [place, pool] of poolsOf()) {
      assert(!before.has(place) || before.get(place) === pool, `${place} was not kept`)
      assert(!states.has(place) || states.get(place) === pool.status().state, `${place} changed its state`)
    }
  }

  const run = (command: Command) => {
    if (command.do === 'pass') return pass(command.ms)
    if (command.do === 'reload') return reload(command.table.map(upstreamOf))
    const upstream = pick(table, command.nth)
    switch (command.do) {
      case 'request':
        return upstream && request(upstream, clients[command.nth % 4])
      case 'answer':
        end(pick(busy(), command.nth), command.status, command.ends)
        return command.isFollowed && upstream && request(upstream, clients[command.nth % 4])
      case 'fault': {
        const connection = pick(busy(), command.nth)
        const states = JSON.stringify(all.status().map(({ targets }) => targets.map(({ state }) => state)))
        connection?.destroy()
        connection?.events.onFault?.(...command.fault)
        const now = JSON.stringify(all.status().map(({ targets }) => targets.map(({ state }) => state)))
        return assert(command.fault[0] !== EXHAUSTED || states === now, 'missing descriptors changed a target')
      }
      case 'idleClosed':
        return pick(
          [...connections].filter(({ isBusy }) => !isBusy),
          command.nth
        )?.destroy()
      case 'stopWaiting':
        return pick(waiting, command.nth)?.stop()
      case 'enterSocket': {
        const pool = upstream && pick(all.poolOf(upstream).members(), command.nth)
        const dialled = pool?.dial() as FakeConnection | undefined
        if (pool === undefined || dialled === undefined) return
        connections.delete(dialled)
        const once = (_: string, leave: () => void) => void sockets.push({ pool, leave })
        return dialled.events.onSwitched?.(dialled as unknown as UpstreamConnection, { once } as never)
      }
      case 'leaveSocket':
        return sockets.splice(command.nth % (sockets.length || 1), 1)[0]?.leave()
      case 'probed': {
        const done = pick(probes, command.nth)
        if (done !== undefined) probes.delete(done)
        return done?.(command.failure)
      }
    }
  }
  const pass = (ms: number) => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      clock += STEP_MS
      mock.timers.tick(STEP_MS)
    }
  }

  const check = () => {
    for (const upstream of table) {
      const pool = all.poolOf(upstream)
      const most = upstream.maxConnections ?? Number.POSITIVE_INFINITY
      const usable: number[] = []
      for (const member of pool.members()) {
        const held = sockets.filter(socket => socket.pool === member).length
        const size = member.connections() + held
        // A reload may have lowered the limit below what is in use.
        assert(size <= most || size <= (sizes.get(member) ?? 0), `${size} connections, ${most} allowed`)
        sizes.set(member, size)
        if (!member.health.isOut && member.target.backup !== true) usable.push(member.busy() + held)
      }
      const waits = waiting.some(one => one.upstream === upstream)
      assert(!waits || usable.every(used => used >= most), 'a request waits although a target has room')
    }
    for (const { isBusy, target } of connections)
      assert(isBusy || isListed(target), 'an idle connection to a removed target')
  }
  const isListed = (target: Target) =>
    table.some(one => one.targets.some(listed => endpointOf(listed) === endpointOf(target)))

  const close = () => {
    reload([])
    pass(1000)
    assert(waiting.length === 0 || busy().length > 0, 'requests wait for nothing')
    for (let left = busy(); left.length > 0; left = busy()) {
      end(left[0], 200, 'free')
      pass(STEP_MS)
    }
    assert(waiting.length === 0, 'a request still waits')
    pass(200)
    assert(connections.size === 0 && all.connections() === 0, `${connections.size} connections are left`)
    assert(probes.size === 0, 'a check is left')
    all.close()
  }
  return { run, check, close, reload }
}

// RV-06: nothing of an upstream that has left the files is checked or logged. RV-12: a reload changes no state of a target that stays.
t.test('limits, turns, rests and ends of targets hold in every order of events', async t => {
  const { random } = Math
  t.teardown(() => {
    Math.random = random
    mock.timers.reset()
  })
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(upstreams, { minLength: 1, maxLength: 2, selector: ({ name }) => name }),
      fc.array(commands, { minLength: 1, maxLength: 60 }),
      async (table, steps) => {
        mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
        Math.random = () => 0.5
        try {
          const world = createWorld()
          world.reload(table.map(upstreamOf))
          for (const step of steps) {
            world.run(step)
            // Those that wait are served at the end of a callback.
            await Promise.resolve()
            world.check()
            if (broken.length > 0) break
          }
          if (broken.length === 0) world.close()
          if (broken.length > 0) throw new Error(broken.splice(0).join(', '))
        } finally {
          mock.timers.reset()
          Math.random = random
        }
      }
    ),
    { numRuns: 1000 }
  )
})

t.test('requests of one client address leave three quarters of the connections to a target to others', t => {
  const dialling = {
    connect(_upstream: Upstream, target: Target, events: Events) {
      const connection = { target, events, isBound: false, openedAt: 0, deadline: 1, idleSince: 0, destroy }
      function destroy() {
        events.onClosed(connection as unknown as UpstreamConnection)
      }
      return connection as unknown as UpstreamConnection
    }
  } as Dialling
  const upstreams = createUpstreams({ now: () => 0, dialling })
  t.teardown(upstreams.close)
  const upstream = upstreamAt(9)
  upstreams.retain(inUse(upstream))
  const pool = upstreams.poolOf(upstream)
  const ask = (clientKey: string) =>
    pool.acquire({ clientKey }) as (UpstreamConnection & { events: Events }) | undefined
  const first = Array.from({ length: 2048 }, () => ask('192.0.2.1'))
  t.notOk(first.includes(undefined), 'it may hold a quarter')
  t.equal(ask('192.0.2.1'), undefined)
  t.ok(ask('192.0.2.2'), 'another address is served')

  const [free, stream, closed, switched] = first
  const socket = { once: () => undefined } as never
  const ends: Record<string, () => void> = {
    'one that is idle': () => free?.events.onFree(free),
    'one that has become a stream': () => stream?.events.onStream?.(stream),
    'one that has been closed': () => closed?.destroy(),
    'one with another protocol': () => switched?.events.onSwitched?.(switched, socket)
  }
  for (const [what, end] of Object.entries(ends)) {
    end()
    t.ok(ask('192.0.2.1'), `${what} does not count`)
    t.equal(ask('192.0.2.1'), undefined, `${what} counted once`)
  }
  stream?.destroy()
  t.equal(ask('192.0.2.1'), undefined, 'the end of a stream gives no place back')
  t.end()
})
