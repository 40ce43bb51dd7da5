// Asks Redis for permits before they are needed and returns them soon after, with few commands per busy key.
import type { RedisStore } from '../redis/redis.ts'
import { endsConnection, type RedisFault, RedisTimeout } from '../redis/redis-failure.ts'
import { task } from '../values/contain.ts'
import { createCircuit, type LimiterLog } from './circuit.ts'
import {
  adaptBatch,
  applyReply,
  beginAnew,
  composeRequest,
  createLease,
  type Flight,
  LEASE_SCRIPT,
  type Lease,
  type LeaseRequest,
  type LeaseSize,
  leaseArguments,
  leaseKey,
  type PermitWindow,
  readLeaseReply,
  runsLow,
  stepFor
} from './leases.ts'
import type { LocalWindows } from './windows.ts'

export type RedisLeases = ReturnType<typeof createRedisLeases>

interface RedisLeaseParts {
  readonly redis: RedisStore
  readonly clock: () => number
  /** Unique per process run. */
  readonly instance: string
  /** How long Redis may take to reply before it counts as unavailable; a connection that ended has the same time. */
  readonly timeoutMs: number
  readonly log: LimiterLog
  /** Windows in which something was admitted. */
  readonly openWindows: LocalWindows['open']
}

/** How long the first connection may take before Redis counts as unavailable, unless a request finds out earlier. */
const CONNECT_MS = 1000
const TICK_MS = 20
/** A later reply is ignored; the next command reports all counts again. */
const LOST_MS = 500
/** Concurrent reports: enough to use the connection, few enough for requests to pass between them. */
const REPORTS_AT_ONCE = 256
const PROBED = { max: 1, windowMs: 1000 }
const NOTHING = { unheard: 0, generation: 0, spent: 0, keep: 0, waiting: 0, extra: 0, leftMs: 0 }

export const createRedisLeases = (parts: RedisLeaseParts) => {
  const { redis, clock, instance, timeoutMs } = parts
  const busy = new Set<Lease>()
  let ticker: NodeJS.Timeout | undefined
  let sequence = 0
  let commands = 0

  const run = (key: string, size: LeaseSize, request: LeaseRequest, limitMs: number) => {
    commands++
    return redis.evalScript(LEASE_SCRIPT, [key], leaseArguments(instance, size, request), limitMs).then(readLeaseReply)
  }

  /** By a key in the same slot as the window's: whether that slot is writable. */
  const probe = (key: string) => run(`${key}:probe`, PROBED, { sequence: ++sequence, ...NOTHING }, timeoutMs)
  /** After an outage, everything known to be used is reported, because Redis may have lost it or never received it. */
  const reportAll = async () => {
    for (const lease of busy) beginAnew(lease)
    const open = parts.openWindows(clock())
    for (let from = 0; from < open.length; from += REPORTS_AT_ONCE)
      await report(open.slice(from, from + REPORTS_AT_ONCE))
  }
  const circuit = createCircuit(probe, redis.failure, parts.log, reportAll)

  const away = (lease: Lease, fault: RedisFault) => {
    circuit.fail(fault, lease.key)
    for (const waiting of busy) serve(waiting)
  }

  /** Settles when the request was answered, failed or was given up; never rejects. */
  const send = async (lease: Lease, giveBack = false, extra = 0): Promise<void> => {
    const now = clock()
    const flight = composeRequest(lease, now, ++sequence, giveBack, extra)
    lease.flight = flight
    lease.fetchedAt = now
    const watcher = watch(lease, flight, Math.max(0, (lease.unansweredSince ?? now) + timeoutMs - now))
    const reply = await run(lease.key, lease.window.limit, flight, LOST_MS).catch(
      error => void fail(lease, flight, error)
    )
    clearTimeout(watcher)
    if (reply === undefined || lease.flight !== flight) return
    lease.flight = undefined
    applyReply(lease, flight, reply, clock())
    serve(lease)
  }

  /** A connection that ended is made anew at once, so it has the time of a slow reply; the next tick asks again. */
  const fail = (lease: Lease, flight: Flight, error: unknown) => {
    if (lease.flight !== flight) return
    lease.flight = undefined
    lease.owes = true
    const fault = redis.failure(error)
    const isLate = clock() - (lease.unansweredSince ?? 0) >= timeoutMs
    if (isLate || !endsConnection(fault.reason)) away(lease, fault)
  }

  /** Data waiting in the socket is read first: the poll phase comes before setImmediate. */
  const watch = (lease: Lease, flight: Flight, ms: number): NodeJS.Timeout => {
    const look = () => {
      if (lease.flight === flight) away(lease, redis.failure(new RedisTimeout(timeoutMs)))
    }
    return setTimeout(() => setImmediate(task(look)), ms)
  }

  /** Those that cannot be decided yet wait again. */
  const serve = (lease: Lease) => {
    for (const decide of lease.waiters.splice(0)) task(decide)()
  }

  const scheduled = new Set<Lease>()
  const fetchScheduled = () => {
    const leases = [...scheduled]
    scheduled.clear()
    for (const lease of leases) task(fetchMore)(lease)
  }

  /** One command per key for all requests of one turn of the event loop, at its end, so that all commands share a write. */
  const schedule = (lease: Lease) => {
    if (lease.flight !== undefined) return
    if (scheduled.size === 0) setImmediate(fetchScheduled)
    scheduled.add(lease)
  }

  const fetchMore = (lease: Lease) => {
    if (!circuit.isUp()) serve(lease)
    else if (lease.flight === undefined) {
      adaptBatch(lease)
      return send(lease, false, lease.batch)
    }
  }

  const leaseOf = (window: PermitWindow, now: number): Lease => {
    if (window.lease !== undefined) return window.lease
    window.lease = createLease(window, now)
    busy.add(window.lease)
    ticker ??= setInterval(task(tick), TICK_MS).unref()
    return window.lease
  }

  const tick = () => {
    const now = clock()
    for (const lease of busy) if (lease.flight === undefined && !scheduled.has(lease)) task(tend)(lease, now)
    if (busy.size > 0) return
    clearInterval(ticker)
    ticker = undefined
  }

  const tend = (lease: Lease, now: number) => {
    const step = stepFor(lease, now, circuit.isUp())
    if (step === 'ask') return fetchMore(lease)
    if (step === 'give back' || step === 'confirm') return send(lease, step === 'give back')
    if (step === 'forget') {
      busy.delete(lease)
      lease.window.lease = undefined
    }
  }

  const report = async (open: readonly PermitWindow[]) => {
    const now = clock()
    const leases = open.filter(({ end }) => now < end).map(window => leaseOf(window, now))
    const unsaid = leases.filter(lease => circuit.isUp() && lease.flight === undefined)
    await Promise.all(unsaid.map(lease => send(lease, true)))
  }

  const anyKey = leaseKey({ name: '', ...PROBED }, instance)
  redis
    .ready(CONNECT_MS)
    .then(() => probe(anyKey))
    .catch((error: unknown) => circuit.fail(redis.failure(error), anyKey))

  return {
    circuit,
    /** Calls back once the window can be decided, or should be looked at again because it still cannot. */
    wait(window: PermitWindow, now: number, decide: () => void) {
      const lease = leaseOf(window, now)
      lease.waiters.push(decide)
      if (!lease.starved) schedule(lease)
    },
    /** A permit of a leased window was used; fetches more in time. */
    spent(lease: Lease) {
      if (lease.flight === undefined && runsLow(lease)) schedule(lease)
    },
    /** EVALSHA and EVAL sent so far. */
    commands: () => commands,
    /** Keys that are currently busy. */
    leases: () => busy.size,
    /** Returns the held permits. */
    async close() {
      clearInterval(ticker)
      const now = clock()
      const isUp = circuit.isUp()
      circuit.close()
      const holding = [...busy].filter(({ window }) => now < window.end && window.lent > window.spent)
      if (isUp) await Promise.all(holding.map(lease => send(lease, true)))
      for (const lease of busy) serve(lease)
    }
  }
}
