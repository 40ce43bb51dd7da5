// Uses each permit of a window at most once, only within its window, and never more than Redis has leased.
import type { LeaseReply, LeaseRequest } from './lease-script.ts'

/**
 * One key's window as this instance knows it. Healthy: `spent <= lent`, and the difference is held. `spent > lent` is a
 * debt: admitted while Redis was unavailable, to be reported before anything else is decided.
 */
export interface PermitWindow {
  /** Local clock, whole ms; nothing of this window counts from then on. Never later than Redis's own end. 0: unknown. */
  end: number
  spent: number
  lent: number
  /** Used by the other instances, as far as known. */
  others: number
  /** Redis's identifier of the window; 0: a local window. */
  generation: number
  /** Present only while the key is busy. */
  lease: Lease | undefined
}

/** State of the exchange with Redis for a busy key. Times by the local clock, ms. */
export interface Lease {
  readonly window: PermitWindow
  readonly key: string
  readonly max: number
  readonly windowMs: number
  readonly waiters: (() => void)[]
  /** The request in progress. */
  flight: Flight | undefined
  /** When Redis began to owe a reply, including lost connections; undefined if it owes none. */
  unansweredSince: number | undefined
  scheduled: boolean
  /** Redis may count more permits as lent than there are, because a command failed. */
  owes: boolean
  /** Permits to hold in reserve; follows the demand. */
  batch: number
  /** At this number of held permits, more are fetched. */
  lowWater: number
  /** Time between two recent requests. */
  gapMs: number
  /** Permits that no instance held, at the last reply. */
  free: number
  touchedAt: number
  fetchedAt: number
  /** All permits are lent, some of them unused elsewhere: refuse until then, and ask again. */
  retryAt: number
  retryDelayMs: number
}

export interface Flight extends LeaseRequest {
  readonly sentAt: number
}

const FIRST_RETRY_MS = 15
const LAST_RETRY_MS = 30
/** A reserve should last about this long. */
const BATCH_MS = 250
/** With requests further apart than this, a reserve would be returned before its use. */
const SLOW_DEMAND_MS = 80
const LARGEST_BATCH = 16_384
/** With fewer free permits than this, reserves are not worth a command of their own. */
const SCARCE = 8

export const createWindow = (): PermitWindow => ({
  end: 0,
  spent: 0,
  lent: 0,
  others: 0,
  generation: 0,
  lease: undefined
})

/** Clears what is over, including permits. `end` is that of a new local window, or 0. */
export const renewWindow = (window: PermitWindow, end: number): void => {
  window.end = end
  window.spent = 0
  window.lent = 0
  window.others = 0
  window.generation = 0
  if (window.lease !== undefined) window.lease.retryAt = 0
}

export const createLease = (window: PermitWindow, key: string, max: number, windowMs: number, now: number): Lease => ({
  window,
  key,
  max,
  windowMs,
  waiters: [],
  flight: undefined,
  unansweredSince: undefined,
  scheduled: false,
  owes: false,
  batch: 0,
  lowWater: 0,
  gapMs: 2 * SLOW_DEMAND_MS,
  free: max,
  touchedAt: now,
  fetchedAt: now,
  retryAt: 0,
  retryDelayMs: FIRST_RETRY_MS
})

/** Whether all permits of the window are known to be used, by this instance or others. */
export const isOver = (window: PermitWindow, max: number): boolean =>
  window.generation !== 0 && window.spent <= window.lent && window.spent + window.others >= max

/** A request for the key has arrived. */
export const touch = (lease: Lease, now: number): void => {
  const gapMs = now - lease.touchedAt
  lease.touchedAt = now
  lease.gapMs += (gapMs - lease.gapMs) * (gapMs < lease.gapMs ? 0.5 : 0.25)
}

/** The reserve follows the demand: it at most doubles, and slow demand has none. */
export const adaptBatch = (lease: Lease): void => {
  const wanted = lease.gapMs < SLOW_DEMAND_MS ? Math.ceil(BATCH_MS / Math.max(0.01, lease.gapMs)) : 0
  lease.batch = Math.min(wanted, Math.max(2, lease.batch * 2), LARGEST_BATCH, Math.ceil(lease.max / 4))
}

/** Whether to fetch more before the reserve is used up. */
export const runsLow = ({ window, free, lowWater }: Lease): boolean =>
  free >= SCARCE && window.lent - window.spent < lowWater

/** The request to send now; with `giveBack` the held permits are gone at once, whatever happens to the request. */
export const composeRequest = (lease: Lease, now: number, giveBack: boolean, extra: number): Flight => {
  const { window, waiters } = lease
  if (now >= window.end) renewWindow(window, 0)
  if (giveBack && window.lent > window.spent) window.lent = window.spent
  return {
    generation: window.generation,
    spent: window.spent,
    keep: Math.max(0, window.lent - window.spent),
    waiting: waiters.length,
    extra,
    leftMs: window.generation === 0 && window.spent > 0 ? Math.max(1, Math.floor(window.end - now)) : 0,
    sentAt: now
  }
}

/**
 * Accepts a reply from Redis. The end of the window is counted from the moment of sending, minus the millisecond by which
 * Redis's clock was rounded, so it is before Redis's end whatever the latency. Returns false if that end has already
 * passed: the permits are void.
 */
export const applyReply = (lease: Lease, flight: Flight, reply: LeaseReply, now: number): boolean => {
  const { window } = lease
  const end = Math.floor(flight.sentAt + reply.remainingMs - 1)
  if (end <= now) {
    if (window.generation === flight.generation) renewWindow(window, 0)
    return false
  }
  window.spent = reply.spent + spentMeanwhile(window, flight, reply)
  window.lent = reply.lent
  window.others = reply.others
  window.generation = reply.generation
  window.end = end
  lease.free = reply.free
  lease.lowWater = Math.min(lease.batch, Math.max(0, window.lent - window.spent - lease.waiters.length)) >> 1
  const starved = window.lent <= window.spent + lease.waiters.length && reply.free === 0 && reply.held > 0
  lease.retryAt = starved ? now + lease.retryDelayMs : 0
  lease.retryDelayMs = starved ? Math.min(lease.retryDelayMs * 2, LAST_RETRY_MS) : FIRST_RETRY_MS
  return true
}

const spentMeanwhile = (window: PermitWindow, flight: Flight, reply: LeaseReply): number => {
  if (window.generation !== flight.generation) return window.spent
  // The old window had ended by Redis's clock, so what was used of its permits since then belongs to it.
  if (flight.generation !== 0 && flight.generation <= reply.nowMs) return 0
  return Math.max(0, window.spent - flight.spent)
}
