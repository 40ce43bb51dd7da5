// Spends permits of a window at most once, only in their window, and never more than Redis has leased.
import type { LeaseReply, LeaseRequest } from './lease-script.ts'

/**
 * One key's window as this instance knows it. Healthy: `spent <= lent`, the difference is in hand. `spent > lent` is a
 * debt: admitted while Redis was away, to be told before anything else is decided.
 */
export interface PermitWindow {
  /** Local clock, whole ms: from here on nothing of this window counts. Never later than Redis's own end. 0: none known. */
  end: number
  spent: number
  lent: number
  /** Spent by the other instances, as far as known. */
  others: number
  /** Redis's name of the window; 0: a local one. */
  generation: number
  /** Only while the key is busy. */
  lease: Lease | undefined
}

/** What is needed to deal with Redis for a busy key. Times by the local clock, ms. */
export interface Lease {
  readonly window: PermitWindow
  readonly key: string
  readonly max: number
  readonly windowMs: number
  readonly waiters: (() => void)[]
  /** The request under way. */
  flight: Flight | undefined
  /** Since when Redis owes an answer, lost connections included; undefined when it owes none. */
  unansweredSince: number | undefined
  scheduled: boolean
  /** Redis may think that more permits are out than are: a command failed. */
  owes: boolean
  /** Permits to have in reserve, following the demand. */
  batch: number
  /** With so few in hand, the next are fetched. */
  lowWater: number
  /** Between two recent requests. */
  gapMs: number
  /** Permits that no instance had, at the last reply. */
  free: number
  touchedAt: number
  fetchedAt: number
  /** All permits are out, some unspent elsewhere: refuse until then, and ask again. */
  retryAt: number
  retryDelayMs: number
}

export interface Flight extends LeaseRequest {
  readonly sentAt: number
}

const FIRST_RETRY_MS = 15
const LAST_RETRY_MS = 30
/** A reserve should last about so long. */
const BATCH_MS = 250
/** Requests further apart than this would find their reserve given back. */
const SLOW_DEMAND_MS = 80
const LARGEST_BATCH = 16_384
/** With fewer permits free than this, reserves are not worth a command of their own. */
const SCARCE = 8

export const createWindow = (): PermitWindow => ({
  end: 0,
  spent: 0,
  lent: 0,
  others: 0,
  generation: 0,
  lease: undefined
})

/** Forgets what is over, permits included. `end` is that of a new local window, or 0. */
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

/** Whether every permit of the window is known to be spent, by this instance or others. */
export const isOver = (window: PermitWindow, max: number): boolean =>
  window.generation !== 0 && window.spent <= window.lent && window.spent + window.others >= max

/** A request has come for the key. */
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

/** Whether to fetch before the reserve is used up. */
export const runsLow = ({ window, free, lowWater }: Lease): boolean =>
  free >= SCARCE && window.lent - window.spent < lowWater

/** The request to send now; with `giveBack` the permits in hand leave it at once, whatever becomes of the request. */
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
 * Takes over what Redis answered. The window's end is counted from the moment of sending, less the millisecond that Redis's
 * clock was rounded by, so it lies before Redis's end whatever the line did. Returns false when that end has already
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
  // The old window had ended by Redis's clock: what was spent of its permits since belongs to it.
  if (flight.generation !== 0 && flight.generation <= reply.nowMs) return 0
  return Math.max(0, window.spent - flight.spent)
}
