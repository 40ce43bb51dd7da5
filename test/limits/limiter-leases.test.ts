// Whatever the order of lease, spend, expiry and loss, no window ever admits more than max. RL-03, RL-09, RL-10, RL-14, RL-16
import t from 'tap'
import {
  applyReply,
  composeRequest,
  createLease,
  createWindow,
  type Flight,
  isOver,
  LEASE_SCRIPT,
  type Lease,
  type LeaseReply,
  leaseArguments,
  leaseKey,
  readLeaseReply,
  renewWindow
} from '../../gateway/limits/leases.ts'
import { createLeaseModel } from '../support/lease-model.ts'
import { openStore } from '../support/limiters.ts'
import { startRedis } from '../support/redis.ts'
import { fc } from '../support/worlds.ts'

const WINDOW_MS = 200
/** Far beyond the real clock, so that Redis itself never expires a key of the compared script. */
const FUTURE_MS = Date.now() + 365 * 86_400_000

interface Instance {
  readonly name: string
  readonly lease: Lease
  wanted: number
}

/** On its way: to Redis, or back. */
interface Message {
  readonly instance: Instance
  readonly flight: Flight
  readonly reply?: LeaseReply
}

/** Instances, one key, a Redis and the lines between, each step chosen by the test. Nothing is admitted without a permit. */
const createWorld = (max: number, instances: number) => {
  const model = createLeaseModel()
  const admittedAt: number[] = []
  const messages: Message[] = []
  let now = FUTURE_MS
  let sequence = 0
  const limit = { name: 'global', max, windowMs: WINDOW_MS, windows: new Map() }
  const all: Instance[] = Array.from({ length: instances }, (_, index) => ({
    name: `i${index}`,
    lease: createLease(createWindow(limit, 'k'), now),
    wanted: 0
  }))

  const spend = (instance: Instance) => {
    const { window } = instance.lease
    if (now >= window.end) renewWindow(window)
    while (instance.wanted > 0 && window.lent > window.spent) {
      window.spent++
      instance.wanted--
      admittedAt.push(now)
    }
    if (isOver(window)) instance.wanted = 0
  }

  const send = (instance: Instance, extra: number, giveBack: boolean) => {
    const { lease } = instance
    if (lease.flight !== undefined) return
    lease.waiters.length = 0
    for (let index = 0; index < instance.wanted; index++) lease.waiters.push(() => {})
    const flight = composeRequest(lease, now, ++sequence, giveBack, extra)
    lease.flight = flight
    messages.push({ instance, flight })
  }

  const deliver = (message: Message) => {
    const { instance, flight, reply } = message
    if (reply === undefined) {
      const answer = model.run(now, instance.name, max, WINDOW_MS, flight)
      messages.push({ ...message, reply: answer })
      return
    }
    if (instance.lease.flight !== flight) return
    instance.lease.flight = undefined
    applyReply(instance.lease, flight, reply, now)
    spend(instance)
  }

  const admittedIn = () => model.opened.map(({ from, end }) => admittedAt.filter(at => from <= at && at < end).length)

  return {
    all,
    messages,
    model,
    admittedIn,
    pass: (ms: number) => {
      now += ms
    },
    request: (instance: Instance, count: number) => {
      instance.wanted = Math.min(instance.wanted + count, 2 * max)
      spend(instance)
    },
    send,
    /** The oldest message, or any other, arrives; or never does. */
    arrive: (index: number, lost: boolean) => {
      const [message] = messages.splice(index % Math.max(1, messages.length), 1)
      if (message !== undefined && !lost) deliver(message)
    },
    /** The instance waits no longer for its command, which may still arrive. */
    giveUp: (instance: Instance) => {
      instance.lease.flight = undefined
    }
  }
}

type World = ReturnType<typeof createWorld>
const step = fc.oneof(
  fc.record({ kind: fc.constant('request' as const), who: fc.nat(2), count: fc.integer({ min: 1, max: 6 }) }),
  fc.record({ kind: fc.constant('send' as const), who: fc.nat(2), count: fc.nat(8), giveBack: fc.boolean() }),
  fc.record({ kind: fc.constant('arrive' as const), which: fc.nat(5) }),
  fc.record({ kind: fc.constant('arrive' as const), which: fc.constant(0) }),
  fc.record({ kind: fc.constant('lose' as const), which: fc.nat(5) }),
  fc.record({ kind: fc.constant('giveUp' as const), who: fc.nat(2) }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.oneof(fc.nat(5), fc.nat(WINDOW_MS)) })
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

const perform = (world: World, action: Step) => {
  const instance = 'who' in action ? world.all[action.who] : undefined
  if (action.kind === 'pass') world.pass(action.ms)
  if (action.kind === 'arrive' || action.kind === 'lose') world.arrive(action.which, action.kind === 'lose')
  if (instance === undefined) return
  if (action.kind === 'request') world.request(instance, action.count)
  if (action.kind === 'send') world.send(instance, action.count, action.giveBack)
  if (action.kind === 'giveUp') world.giveUp(instance)
}

t.test('no order of leases, expiries, delays, losses and overtaking admits more than max', async t => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.array(step, { minLength: 60, maxLength: 160, size: 'max' }),
      (max, steps) => {
        const world = createWorld(max, 3)
        for (const action of steps) perform(world, action)
        return world.admittedIn().every(count => count <= max)
      }
    ),
    { numRuns: 3000 }
  )
  t.pass('3000 histories')
})

t.test('while every instance has demand, every permit of the window is spent', async t => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 60 }), fc.array(fc.nat(2), { minLength: 1, maxLength: 40 }), (max, order) => {
      const world = createWorld(max, 3)
      for (let round = 0; round < 4 * max + 20; round++) {
        const instance = world.all[order[round % order.length] ?? 0]
        for (const each of [instance, world.all[round % 3]]) {
          if (each === undefined) continue
          world.request(each, 1 + (round % 3))
          world.send(each, 8, false)
        }
        while (world.messages.length > 0) world.arrive(0, false)
      }
      return world.admittedIn()[0] === max
    }),
    { numRuns: 500 }
  )
  t.pass('500 histories')
})

// RV-43
t.test('whatever is lost on the way, every permit of the window is spent in the end, and none twice', async t => {
  const lossy = step.filter(({ kind }) => kind !== 'pass')
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(lossy, { maxLength: 80, size: 'max' }), (max, steps) => {
      const world = createWorld(max, 3)
      world.request(world.all[0] as Instance, 1)
      for (const action of steps) perform(world, action)
      while (world.messages.length > 0) world.arrive(0, true)
      for (let round = 0; round < 4 * max + 20; round++) {
        for (const each of world.all) {
          world.giveUp(each)
          world.request(each, 1)
          world.send(each, 0, false)
          while (world.messages.length > 0) world.arrive(0, false)
        }
      }
      return world.admittedIn()[0] === max
    }),
    { numRuns: 500 }
  )
  t.pass('500 histories')
})

t.test('the Lua script and its model answer alike, whatever they are asked', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  const script = LEASE_SCRIPT.replace("redis.call('TIME')", '{ARGV[12], ARGV[13]}')
  t.not(script, LEASE_SCRIPT)
  const small = fc.nat(12)
  const call = fc.record({
    who: fc.constantFrom('a-1', 'b-2', 'c-3'),
    passMs: fc.oneof(fc.nat(10), fc.nat(WINDOW_MS)),
    generation: fc.constantFrom('none', 'current', 'current', 'current', 'previous', 'lost'),
    sequence: fc.oneof({ weight: 9, arbitrary: fc.constant(1) }, { weight: 1, arbitrary: fc.constant(-3) }),
    unheard: fc.nat(30),
    spent: small,
    keep: small,
    waiting: small,
    extra: small,
    leftMs: fc.constantFrom(0, 0, 50, 900),
    flush: fc.oneof({ weight: 15, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) })
  })
  let history = 0
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 30 }),
      fc.array(call, { maxLength: 25, size: 'max' }),
      async (max, calls) => {
        const model = createLeaseModel()
        const key = leaseKey({ name: 'global', max, windowMs: WINDOW_MS }, `history ${history++}`)
        let now = FUTURE_MS
        let current = 0
        let previous = 0
        let sequence = 10
        for (const { who, passMs, flush, ...told } of calls) {
          now += passMs
          sequence += 1
          if (flush) {
            model.flush()
            await store.evalScript(`return redis.call('DEL', KEYS[1])`, [key], [], 5000)
          }
          const generation = { none: 0, current, previous, lost: now + 77 }[told.generation] ?? 0
          const number = sequence + Math.min(0, told.sequence)
          const request = { ...told, generation, sequence: number, unheard: Math.max(1, number - told.unheard) }
          const expected = model.run(now, who, max, WINDOW_MS, request)
          const time = [Math.floor(now / 1000), (now % 1000) * 1000]
          const args = [...leaseArguments(who, { max, windowMs: WINDOW_MS }, request), ...time]
          const actual = readLeaseReply(await store.evalScript(script, [key], args, 60_000))
          if (JSON.stringify(actual) !== JSON.stringify(expected))
            throw new Error(`${JSON.stringify(request)}: ${JSON.stringify(actual)} is not ${JSON.stringify(expected)}`)
          if (expected.generation !== current) [previous, current] = [current, expected.generation]
        }
      }
    ),
    { numRuns: 300 }
  )
  t.pass('300 histories')
})

t.test('a key that lost its expiry, or is something else altogether, is put right by the next command', async t => {
  const redis = await startRedis(t)
  const store = await openStore(t, redis.url)
  const size = { max: 10, windowMs: 5000 }
  const key = leaseKey({ name: 'global', ...size }, 'a')
  const request = { generation: 0, spent: 0, keep: 0, waiting: 1, extra: 0, leftMs: 0 }
  let sequence = 0
  const ask = async () =>
    readLeaseReply(
      await store.evalScript(
        LEASE_SCRIPT,
        [key],
        leaseArguments('i-1', size, { ...request, sequence: ++sequence, unheard: sequence }),
        1000
      )
    )
  await ask()
  await redis.command('persist', `portaria:${key}`)
  t.match(await ask(), { lent: 2 })
  t.ok(Number(await redis.command('pttl', `portaria:${key}`)) > 0)

  await redis.command('set', `portaria:${key}`, 'a string')
  t.match(await ask(), { lent: 1 })
  await redis.command('hset', `portaria:${key}`, 't', 'nonsense')
  t.match(await ask(), { lent: 1 })
})

t.test('keys are of fixed length, in one slot each, and never meet, whatever they are made from', async t => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string({ maxLength: 10_000 }), (name, key, other) => {
      const limit = { name, max: 5, windowMs: 1000 }
      const made = leaseKey(limit, key)
      return /^rate:\{[\w-]{22}\}$/.test(made) && (made === leaseKey(limit, other)) === (key === other)
    })
  )
  const at = (name: string, max: number, windowMs: number) => ({ name, max, windowMs })
  t.equal(new Set([at('a', 1, 1), at('a', 1, 2), at('a', 2, 1)].map(limit => leaseKey(limit, 'b'))).size, 3)
  t.not(leaseKey(at('a}{', 1, 1), 'b'), leaseKey(at('a', 1, 1), '}{b'))
})
