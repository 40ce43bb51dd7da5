// Permits come from Redis before they are needed and go back soon after they are not, a handful of commands per busy key.

import type { RedisStore } from '../redis/redis.ts'
import { redisFailure } from '../redis/redis-failure.ts'
import { type Circuit, createCircuit, type LimiterLog } from './circuit.ts'
import {
  LEASE_MS,
  LEASE_SCRIPT,
  type LeaseReply,
  leaseArguments,
  leaseKey,
  probeKey,
  readLeaseReply
} from './lease-script.ts'
import {
  adaptBatch,
  applyReply,
  composeRequest,
  createLease,
  type Flight,
  isOver,
  type Lease,
  type PermitWindow,
  runsLow
} from './leases.ts'
import type { WindowTable } from './windows.ts'

export interface LeaseExchange {
  readonly circuit: Circuit
  /** Calls back once the window can be judged: permits in hand, or known to be over, or Redis away. Within a few ms. */
  wait(window: PermitWindow, table: WindowTable, key: string, now: number, decide: () => void): void
  /** A permit of a leased window was spent; fetches more in time. */
  spent(lease: Lease): void
  /** EVALSHA and EVAL sent so far. */
  commands(): number
  /** Keys busy just now. */
  leases(): number
  /** Gives back what is in hand. */
  close(): Promise<void>
}

interface ExchangeParts {
  readonly redis: RedisStore
  readonly clock: () => number
  readonly log: LimiterLog
  /** Unique to this process's life. */
  readonly instance: string
  /** How long Redis may take. */
  readonly timeoutMs: number
}

/** How long the first connection may take before Redis counts as away, when no request finds out earlier. */
const CONNECT_MS = 1000
const TICK_MS = 20
/** Without a request for so long, permits go back: with a tick and the way to Redis well within 200 ms. */
const IDLE_MS = 130
/** Late replies amid others mean a busy machine; no reply at all for so long means that Redis is away. */
const SILENCE_MS = 100
/** A reply later than this is not waited for; the next command tells all counts anew. */
const LOST_MS = 500
const OVERTAKE_MS = 200
/** Permits in hand are confirmed this often, before Redis takes them for spent. */
const CONFIRM_MS = LEASE_MS * 0.6

/** A late command may be overtaken after a while: the script ignores the earlier of two. */
export const isUnderWay = (flight: Flight | undefined, now: number): boolean =>
  flight !== undefined && !(flight.late && now - flight.sentAt > OVERTAKE_MS)

export const createLeaseExchange = (parts: ExchangeParts): LeaseExchange => {
  const { redis, clock, instance, timeoutMs } = parts
  const busy = new Set<Lease>()
  let scheduled: Lease[] = []
  let ticker: NodeJS.Timeout | undefined
  let sequence = 0
  /** When the first command after the latest reply was sent. */
  let silentSince: number | undefined
  let commands = 0

  const run = (key: string, args: (string | number)[], limitMs: number) => {
    commands++
    return redis.evalScript(LEASE_SCRIPT, [key], args, limitMs).then(readLeaseReply)
  }
  const nothing = { generation: 0, spent: 0, keep: 0, waiting: 0, extra: 0, leftMs: 0 }
  const probe = (key: string) => run(probeKey(key), leaseArguments(instance, ++sequence, nothing, 1, 1000), timeoutMs)
  const circuit = createCircuit(probe, redisFailure, parts.log)
  const anyKey = leaseKey('', instance, 1, 1000)
  redis
    .ready(CONNECT_MS)
    .then(() => probe(anyKey))
    .catch((error: unknown) => circuit.fail(redisFailure(error), anyKey))

  const send = (lease: Lease, now: number, giveBack: boolean, extra: number): Promise<void> => {
    const flight = composeRequest(lease, now, giveBack, extra)
    lease.flight = flight
    lease.fetchedAt = now
    silentSince ??= performance.now()
    const args = leaseArguments(instance, ++sequence, flight, lease.max, lease.windowMs)
    // A reply that already lies in the socket is no late one: the poll phase comes before setImmediate.
    const timer = setTimeout(() => setImmediate(expire, lease, flight), timeoutMs)
    return run(lease.key, args, LOST_MS).then(
      reply => {
        clearTimeout(timer)
        land(lease, flight, reply)
      },
      (error: unknown) => {
        clearTimeout(timer)
        fail(lease, flight, error)
      }
    )
  }

  const land = (lease: Lease, flight: Flight, reply: LeaseReply) => {
    silentSince = undefined
    if (lease.flight !== flight) return
    lease.flight = undefined
    lease.owes = false
    if (applyReply(lease, flight, reply, clock())) serve(lease)
    else if (lease.waiters.length > 0) schedule(lease)
  }

  const expire = (lease: Lease, flight: Flight) => {
    if (lease.flight !== flight) return
    flight.late = true
    drain(lease)
    judge(lease, flight)
  }

  const judge = (lease: Lease, flight: Flight) => {
    const silentMs = silentSince === undefined ? 0 : performance.now() - silentSince
    if (silentMs >= SILENCE_MS) leave('timeout', lease)
    else if (lease.flight === flight) setTimeout(judge, SILENCE_MS - silentMs, lease, flight).unref()
  }

  const fail = (lease: Lease, flight: Flight, error: unknown) => {
    if (lease.flight === flight) {
      lease.flight = undefined
      lease.owes = true
    }
    leave(redisFailure(error), lease)
  }

  const leave = (reason: string, lease: Lease) => {
    circuit.fail(reason, lease.key)
    for (const waiting of busy) drain(waiting)
  }

  /** Those for whom there is a permit, and then, unless there are more to be had, all others. */
  const serve = (lease: Lease) => {
    const { window, waiters } = lease
    for (const decide of waiters.splice(0, Math.max(0, window.lent - window.spent))) decide()
    if (waiters.length === 0) return
    if (lease.free > 0 && !isOver(window, lease.max)) schedule(lease)
    else drain(lease)
  }

  const drain = (lease: Lease) => {
    for (const decide of lease.waiters.splice(0)) decide()
  }

  /** One command per key for all that arrives in the same turn of the event loop. */
  const schedule = (lease: Lease) => {
    if (lease.scheduled || isUnderWay(lease.flight, clock())) return
    lease.scheduled = true
    if (scheduled.push(lease) === 1) setImmediate(flush)
  }

  const flush = () => {
    const leases = scheduled
    const now = clock()
    scheduled = []
    for (const lease of leases) {
      lease.scheduled = false
      if (!circuit.isUp()) drain(lease)
      else if (!isUnderWay(lease.flight, now)) {
        adaptBatch(lease)
        send(lease, now, false, lease.batch)
      }
    }
  }

  const leaseOf = (window: PermitWindow, table: WindowTable, key: string, now: number): Lease => {
    if (window.lease !== undefined) return window.lease
    const { name, max, windowMs } = table
    const lease = createLease(window, leaseKey(name, key, max, windowMs), max, windowMs, now)
    window.lease = lease
    busy.add(lease)
    ticker ??= setInterval(tick, TICK_MS).unref()
    return lease
  }

  const tick = () => {
    const now = clock()
    for (const lease of busy) if (lease.flight === undefined && !lease.scheduled) tend(lease, now)
    if (busy.size > 0) return
    clearInterval(ticker)
    ticker = undefined
  }

  const tend = (lease: Lease, now: number) => {
    const { window } = lease
    const idle = now - lease.touchedAt >= IDLE_MS
    const inHand = now < window.end && window.lent > window.spent
    if ((inHand || lease.owes) && now < window.end) {
      if (!circuit.isUp()) return
      if (idle) send(lease, now, true, 0)
      else if (now - lease.fetchedAt >= CONFIRM_MS) send(lease, now, false, 0)
    } else if (idle && now >= lease.retryAt) {
      busy.delete(lease)
      window.lease = undefined
    }
  }

  return {
    circuit,
    wait(window, table, key, now, decide) {
      const lease = leaseOf(window, table, key, now)
      lease.waiters.push(decide)
      schedule(lease)
    },
    spent(lease) {
      if (lease.flight === undefined && runsLow(lease)) schedule(lease)
    },
    commands: () => commands,
    leases: () => busy.size,
    async close() {
      clearInterval(ticker)
      const now = clock()
      const isUp = circuit.isUp()
      circuit.close()
      const holding = [...busy].filter(({ window }) => now < window.end && window.lent > window.spent)
      if (isUp) await Promise.all(holding.map(lease => send(lease, now, true, 0)))
      for (const lease of busy) drain(lease)
    }
  }
}
