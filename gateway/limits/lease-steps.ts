// Decides what is due for a lease: returning or confirming permits, serving waiting requests, or waiting for a reply.
import { redisFailure } from '../redis/redis-failure.ts'
import { LEASE_MS } from './lease-script.ts'
import { isOver, type Lease } from './leases.ts'

/** After this time without a request, permits are returned: with a tick and the round trip to Redis, well within 200 ms. */
const IDLE_MS = 130
/** Interval at which held permits are confirmed, before Redis counts them as used. */
const CONFIRM_MS = LEASE_MS * 0.6

/** The parts of a lease that exist while no request is in progress. */
type Step = 'give back' | 'confirm' | 'forget' | 'nothing'

export const stepFor = (lease: Lease, now: number, isUp: boolean): Step => {
  const { window } = lease
  const idle = now - lease.touchedAt >= IDLE_MS
  const inHand = now < window.end && window.lent > window.spent
  if ((inHand || lease.owes) && now < window.end) {
    if (!isUp) return 'nothing'
    if (idle) return 'give back'
    return now - lease.fetchedAt >= CONFIRM_MS ? 'confirm' : 'nothing'
  }
  return idle && now >= lease.retryAt ? 'forget' : 'nothing'
}

/** How many waiting requests can be decided now, and whether Redis has more permits for the others. */
export const servable = ({ window, waiters, free, max }: Lease): { readonly now: number; readonly more: boolean } => {
  const permits = Math.max(0, window.lent - window.spent)
  const more = waiters.length > permits && free > 0 && !isOver(window, max)
  return { now: more ? permits : waiters.length, more }
}

/**
 * Redis has lost our state, or was unreachable: no held permit is granted, and no earlier reply counts, until Redis has
 * confirmed what this instance reports.
 */
export const beginAnew = (lease: Lease): void => {
  const { window } = lease
  lease.flight = undefined
  lease.unansweredSince = undefined
  lease.owes = true
  if (window.lent > window.spent) window.lent = window.spent
}

/** A broken connection is re-established at once, so it gets the same time as a slow reply; an error is a reply. */
export const mayAskAgain = (lease: Lease, error: unknown, now: number, timeoutMs: number): boolean =>
  lease.unansweredSince !== undefined && now - lease.unansweredSince < timeoutMs && redisFailure(error) === 'connection'
