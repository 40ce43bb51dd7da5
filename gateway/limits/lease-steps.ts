// Decides what is due for a lease: returning or confirming permits, serving waiting requests, or waiting for a reply.
import { redisFailure } from '../redis/redis-failure.ts'
import { LEASE_MS } from './lease-script.ts'
import { isOver, type Lease } from './leases.ts'

/** Without a request for so long, permits go back: with a tick and the way to Redis well within 200 ms. */
const IDLE_MS = 130
/** Permits in hand are confirmed this often, before Redis takes them for spent. */
const CONFIRM_MS = LEASE_MS * 0.6

/** What a lease needs that nothing is under way for. */
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

/** How many of those who wait can be judged now, and whether Redis has more permits for the others. */
export const servable = ({ window, waiters, free, max }: Lease): { readonly now: number; readonly more: boolean } => {
  const permits = Math.max(0, window.lent - window.spent)
  const more = waiters.length > permits && free > 0 && !isOver(window, max)
  return { now: more ? permits : waiters.length, more }
}

/**
 * Redis has forgotten us, or we were away from it: nothing in hand is granted, and no answer from before counts, until
 * Redis has confirmed what this instance reports.
 */
export const beginAnew = (lease: Lease): void => {
  const { window } = lease
  lease.flight = undefined
  lease.unansweredSince = undefined
  lease.owes = true
  if (window.lent > window.spent) window.lent = window.spent
}

/** A broken connection is made anew at once, so it is given the same time as a slow answer; an error is an answer. */
export const mayAskAgain = (lease: Lease, error: unknown, now: number, timeoutMs: number): boolean =>
  lease.unansweredSince !== undefined && now - lease.unansweredSince < timeoutMs && redisFailure(error) === 'connection'
