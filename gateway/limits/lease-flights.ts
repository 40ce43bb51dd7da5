// Sends the lease script to Redis, one request per key at a time, and detects overdue replies.

import type { RedisStore } from '../redis/redis.ts'
import { task } from '../values/contain.ts'
import { LEASE_SCRIPT, leaseArguments, probeKey, readLeaseReply } from './lease-script.ts'
import { mayAskAgain } from './lease-steps.ts'
import { applyReply, composeRequest, type Flight, type Lease } from './leases.ts'

interface LeaseFlights {
  /** Settles when the request was answered, failed or was given up; never rejects. */
  send(lease: Lease, giveBack: boolean, extra: number): Promise<void>
  /** Asks whether the slot of a key is writable; rejects if not, or not in time. */
  probe(key: string): Promise<unknown>
  /** EVALSHA and EVAL sent so far. */
  commands(): number
}

export interface LeaseFlightParts {
  readonly redis: RedisStore
  readonly clock: () => number
  /** Unique per process run. */
  readonly instance: string
  /** How long Redis may take to answer a command before it counts as unavailable. */
  readonly timeoutMs: number
  /** Milliseconds for which this process has been stalled so far. */
  readonly pausedMs: () => number
  /** A reply was accepted; `counts` is false if its window had already ended. */
  readonly onLanded: (lease: Lease, counts: boolean) => void
  /** The connection broke, and there is time left for another attempt. */
  readonly onBroken: (lease: Lease) => void
  /** `error` is undefined if the reply is overdue. */
  readonly onAway: (lease: Lease, error: unknown) => void
}

/** A later reply is ignored; the next command reports all counts again. */
const LOST_MS = 500
/** Stalls of this process at least this long are not blamed on Redis. */
const PAUSE_MS = 10
const NOTHING = { generation: 0, spent: 0, keep: 0, waiting: 0, extra: 0, leftMs: 0 }

export const createLeaseFlights = (parts: LeaseFlightParts): LeaseFlights => {
  const { redis, clock, instance, timeoutMs } = parts
  let sequence = 0
  let commands = 0

  const run = (key: string, args: (string | number)[], limitMs: number) => {
    commands++
    return redis.evalScript(LEASE_SCRIPT, [key], args, limitMs).then(readLeaseReply)
  }

  const fail = (lease: Lease, flight: Flight, error: unknown) => {
    if (lease.flight !== flight) return
    lease.flight = undefined
    lease.owes = true
    if (mayAskAgain(lease, error, clock(), timeoutMs)) parts.onBroken(lease)
    else parts.onAway(lease, error)
  }

  /** Data waiting in the socket is read first: the poll phase comes before setImmediate. */
  const watch = (lease: Lease, flight: Flight, ms: number, mayExtend: boolean): NodeJS.Timeout => {
    const pausedBefore = parts.pausedMs()
    const look = () => {
      if (lease.flight !== flight) return
      const pausedMs = parts.pausedMs() - pausedBefore
      if (mayExtend && pausedMs >= PAUSE_MS) watch(lease, flight, Math.min(pausedMs, timeoutMs), false)
      else parts.onAway(lease, undefined)
    }
    return setTimeout(() => setImmediate(task(look)), ms)
  }

  return {
    send(lease, giveBack, extra) {
      const now = clock()
      const flight = composeRequest(lease, now, giveBack, extra)
      lease.flight = flight
      lease.fetchedAt = now
      lease.unansweredSince ??= now
      const args = leaseArguments(instance, ++sequence, flight, lease.max, lease.windowMs)
      const watcher = watch(lease, flight, Math.max(0, lease.unansweredSince + timeoutMs - now), true)
      return run(lease.key, args, LOST_MS).then(
        reply => {
          clearTimeout(watcher)
          if (lease.flight !== flight) return
          lease.flight = undefined
          lease.unansweredSince = undefined
          lease.owes = false
          parts.onLanded(lease, applyReply(lease, flight, reply, clock()))
        },
        (error: unknown) => {
          clearTimeout(watcher)
          fail(lease, flight, error)
        }
      )
    },
    probe: key => run(probeKey(key), leaseArguments(instance, ++sequence, NOTHING, 1, 1000), timeoutMs),
    commands: () => commands
  }
}
