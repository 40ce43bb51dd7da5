// Fetches permits from Redis before they are needed and returns them soon after, with few commands per busy key.

import { redisFailure } from '../redis/redis-failure.ts'
import { task } from '../values/contain.ts'
import { type Circuit, createCircuit, type LimiterLog } from './circuit.ts'
import { createLeaseFlights, type LeaseFlightParts } from './lease-flights.ts'
import { leaseKey } from './lease-script.ts'
import { beginAnew, servable, stepFor } from './lease-steps.ts'
import { adaptBatch, createLease, type Lease, type PermitWindow, runsLow } from './leases.ts'
import { createOwnPauses } from './own-pauses.ts'
import type { OpenWindow, WindowTable } from './windows.ts'

export interface RedisLeases {
  readonly circuit: Circuit
  /** Calls back once the window can be decided: permits are held, or it is known to be full, or Redis is unavailable. */
  wait(window: PermitWindow, table: WindowTable, key: string, now: number, decide: () => void): void
  /** A permit of a leased window was used; fetches more in time. */
  spent(lease: Lease): void
  /** EVALSHA and EVAL sent so far. */
  commands(): number
  /** Keys that are currently busy. */
  leases(): number
  /** Returns the held permits. */
  close(): Promise<void>
}

interface RedisLeaseParts extends Pick<LeaseFlightParts, 'redis' | 'clock' | 'instance' | 'timeoutMs'> {
  readonly log: LimiterLog
  /** Windows in which something was admitted. */
  readonly openWindows: (now: number) => readonly OpenWindow[]
}

/** How long the first connection may take before Redis counts as unavailable, unless a request finds out earlier. */
const CONNECT_MS = 1000
const TICK_MS = 20
/** Time between two attempts on a connection that is being re-established. */
const ASK_AGAIN_MS = 10
/** Concurrent reports: enough to use the connection, few enough for requests to pass between them. */
const REPORTS_AT_ONCE = 256

export const createRedisLeases = (parts: RedisLeaseParts): RedisLeases => {
  const { redis, clock } = parts
  const busy = new Set<Lease>()
  let ticker: NodeJS.Timeout | undefined
  const pauses = createOwnPauses(TICK_MS)

  const flights = createLeaseFlights({
    ...parts,
    pausedMs: () => pauses.total(clock()),
    onLanded: (lease, counts) => (counts ? serve(lease) : lease.waiters.length > 0 && schedule(lease)),
    onBroken: lease => {
      lease.scheduled = true
      setTimeout(() => enqueue(lease), ASK_AGAIN_MS)
    },
    onAway: (lease, error) => {
      circuit.fail(error === undefined ? 'timeout' : redisFailure(error), lease.key)
      for (const waiting of busy) drain(waiting)
    }
  })
  const circuit = createCircuit(flights.probe, redisFailure, parts.log)
  const anyKey = leaseKey('', parts.instance, 1, 1000)
  redis
    .ready(CONNECT_MS)
    .then(() => flights.probe(anyKey))
    .catch((error: unknown) => circuit.fail(redisFailure(error), anyKey))

  const serve = (lease: Lease) => {
    const { now, more } = servable(lease)
    for (const decide of lease.waiters.splice(0, now)) task(decide)()
    if (more) schedule(lease)
  }

  /** One command per key for all requests that arrive in the same turn of the event loop. */
  const schedule = (lease: Lease) => {
    if (lease.scheduled || lease.flight !== undefined) return
    lease.scheduled = true
    enqueue(lease)
  }

  const fetchMore = (lease: Lease) => {
    lease.scheduled = false
    if (!circuit.isUp()) drain(lease)
    else if (lease.flight === undefined) {
      adaptBatch(lease)
      return flights.send(lease, false, lease.batch)
    }
  }

  const enqueue = afterTurn(fetchMore)

  const leaseOf = ({ window, table, key }: OpenWindow, now: number): Lease => {
    if (window.lease !== undefined) return window.lease
    const { name, max, windowMs } = table
    const lease = createLease(window, leaseKey(name, key, max, windowMs), max, windowMs, now)
    window.lease = lease
    busy.add(lease)
    if (ticker === undefined) {
      ticker = setInterval(task(tick), TICK_MS).unref()
      pauses.begin(clock())
    }
    return lease
  }

  const tick = () => {
    const now = clock()
    pauses.tick(now)
    for (const lease of busy) if (lease.flight === undefined && !lease.scheduled) task(tend)(lease, now)
    if (busy.size > 0) return
    clearInterval(ticker)
    ticker = undefined
  }

  const tend = (lease: Lease, now: number) => {
    const step = stepFor(lease, now, circuit.isUp())
    if (step === 'give back') return flights.send(lease, true, 0)
    if (step === 'confirm') return flights.send(lease, false, 0)
    if (step === 'forget') {
      busy.delete(lease)
      lease.window.lease = undefined
    }
  }

  const report = async (open: readonly OpenWindow[]) => {
    const now = clock()
    const leases = open.filter(({ window }) => now < window.end).map(each => leaseOf(each, now))
    const unsaid = leases.filter(lease => circuit.isUp() && lease.flight === undefined)
    await Promise.all(unsaid.map(lease => flights.send(lease, true, 0)))
  }

  // After an outage, everything known to be used is reported, because Redis may have lost it or never received it.
  circuit.onChange(({ up }) => {
    if (!up) return
    for (const lease of busy) beginAnew(lease)
    task(inBatches)(parts.openWindows(clock()), REPORTS_AT_ONCE, report)
  })

  return {
    circuit,
    wait(window, table, key, now, decide) {
      const lease = leaseOf({ window, table, key }, now)
      lease.waiters.push(decide)
      schedule(lease)
    },
    spent(lease) {
      if (lease.flight === undefined && runsLow(lease)) schedule(lease)
    },
    commands: flights.commands,
    leases: () => busy.size,
    async close() {
      clearInterval(ticker)
      const now = clock()
      const isUp = circuit.isUp()
      circuit.close()
      const holding = [...busy].filter(({ window }) => now < window.end && window.lent > window.spent)
      if (isUp) await Promise.all(holding.map(lease => flights.send(lease, true, 0)))
      for (const lease of busy) drain(lease)
    }
  }
}

const drain = (lease: Lease) => {
  for (const decide of lease.waiters.splice(0)) task(decide)()
}

/** Processes everything queued in one turn of the event loop, at its end. */
const afterTurn = <T>(act: (item: T) => void): ((item: T) => void) => {
  let waiting: T[] = []
  const flush = () => {
    const items = waiting
    waiting = []
    for (const item of items) task(act)(item)
  }
  return item => {
    if (waiting.push(item) === 1) setImmediate(flush)
  }
}

const inBatches = async <T>(all: readonly T[], size: number, act: (batch: readonly T[]) => Promise<void>) => {
  for (let from = 0; from < all.length; from += size) await act(all.slice(from, from + size))
}
