// Leases the permits of a window from Redis: the script that counts for all instances, and what an instance does with its replies.
//
// A key has a lease while it is busy. A request passes if spent < lent, and only then; what is drawn here decides when to ask.
//
//                request                        reply
//   no lease ───────────────▶  ASKING  ──────────────────────▶  HOLDING ──┐ requests spend what was lent
//       ▲                     ▲ ▲  │ │                           │  │  ▲──┘
//       │                     │ │  │ └─ all lent, some unused ─▶ STARVED: requests wait up to 200 ms, asks every 20 ms
//       │   20 ms, up to 100  │ │  │       by other instances    │  │
//       │                  BROKEN◀─┘ connection ended            │  └── reserve low, or 600 ms since the last reply ─▶ ASKING
//       │                     │                                  │
//       └──── all permits used or window ended ◀─ GIVING BACK ◀──┘ no request for 130 ms; 50 ms where permits are scarce
//
//   100 ms without a reply: Redis is away. Requests are counted here (spent may exceed lent: a debt). Once it is back, each
//   window in which something was spent is reported before any permit of it is used, and earlier permits and replies are void.

import { hash } from 'node:crypto'

/** What an instance reports to Redis about one key, and what it requests. Counts are of this instance alone. */
export interface LeaseRequest {
  /** The place of the report in the order of this instance's reports. */
  readonly sequence: number
  /** The first report of those to which no reply has arrived that could be used, this one included. */
  readonly unheard: number
  /** The window that the counts belong to; 0: unknown (a local window, or nothing yet). */
  readonly generation: number
  /** Used in that window so far: absolute, so that a lost reply neither loses nor doubles anything. */
  readonly spent: number
  /** Unused permits that the instance keeps; the rest of what it held is returned. */
  readonly keep: number
  /** Requests that will each use a permit as soon as the reply arrives. */
  readonly waiting: number
  /** Permits wanted in reserve. */
  readonly extra: number
  /** Milliseconds left of a local window in which something was used; 0: none. */
  readonly leftMs: number
}

/** How long unused permits are held for a silent holder; holders report more often than that. */
export const LEASE_MS = 1000

/**
 * KEYS: the window's hash. ARGV: instance, max, windowMs, then the fields of a request in their order. Fields: g generation,
 * e end, t taken (used + unused), o unused, u time until which holders live, and per instance `sequence taken spent first`,
 * where first is its first report in this window. Never grants beyond max: t counts a permit from the moment it leaves.
 *
 * - A command that was overtaken by a later one of its instance (buffered in an old connection) changes nothing.
 * - An instance that does not know the window has used nothing of what it was lent in it if it has not received any reply
 *   since its first report there (the replies were lost). Otherwise it may have used all of that, and it counts as used.
 * - If the caller's window is over by Redis's clock, its counts are void, because they belong to that window.
 * - If the caller's window should still be open but is missing (flush, failover, restart), it continues under its old
 *   generation with what the instances report. A local window (no generation) is added to the open window.
 * - Reserves shrink with the number of free permits (a quarter at most), so the last ones go only to waiting requests.
 * - The end is written with the counts each time, so a lost TTL (PERSIST, restore) is repaired; a clock that is set back
 *   never makes a window longer than windowMs.
 * - DEL is called only if the key exists: Redis checks for memory (OOM) only before a script's first write.
 */
export const LEASE_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, me, max, window = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local seq, unheard, gen, spent = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, waiting, extra, left = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])

local w = redis.pcall('HMGET', key, 'g', 'e', 't', 'o', 'u', me)
local foreign = w.err ~= nil
if foreign then w = {} end
local id, ends, taken, unspent, alive = tonumber(w[1]), tonumber(w[2]), tonumber(w[3]), tonumber(w[4]), tonumber(w[5])
local last, had, used, first = string.match(w[6] or '', '^(%d+) (%d+) (%d+) (%d+)$')
last, had, used, first = tonumber(last) or -1, tonumber(had) or 0, tonumber(used) or 0, tonumber(first) or seq

if gen ~= 0 and gen <= now then gen, spent, keep = 0, 0, 0 end
if not (id and ends and taken and unspent and alive) or ends <= now then
  if foreign or id then redis.call('DEL', key) end
  taken, unspent, alive, last, had, used, first = 0, 0, 0, -1, 0, 0, seq
  ends = now + window
  if gen ~= 0 then ends = math.min(gen, ends) elseif left > 0 then ends = math.min(now + left, ends) end
  id = gen ~= 0 and gen or ends
end
ends = math.min(ends, now + window)

local granted, reserve = 0, 0
if seq > last then
  if gen ~= id then
    keep = 0
    if first < unheard then spent = had + spent end
  end
  taken = taken - had + spent + keep
  unspent = math.max(0, unspent - (had - used)) + keep
  granted = math.max(0, math.min(waiting, max - taken))
  reserve = math.max(0, math.min(extra, math.floor((max - taken - granted) / 4)))
  had, used = spent + keep + granted + reserve, spent + granted
  taken, unspent = taken + granted + reserve, unspent + reserve
  if had > used then alive = now + ${LEASE_MS} end
  redis.call('HSET', key, 'g', id, 'e', ends, 't', taken, 'o', unspent, 'u', alive,
    me, string.format('%d %d %d %d', seq, had, used, first))
  redis.call('PEXPIREAT', key, ends)
end
local held = 0
if now < alive then held = math.max(0, unspent - (had - used)) end
return {id, now, ends - now, used - granted, had, math.max(0, taken - had - held), math.max(0, max - taken), held}
`

/** The key of a window: of fixed length for any input (RL-14), with one hash tag and therefore one slot. */
export const leaseKey = ({ name, max, windowMs }: Omit<Limit, 'windows'>, key: string): string =>
  `rate:{${hash('sha256', `${name}\0${max}\0${windowMs}\0${key}`, 'base64url').slice(0, 22)}}`

export type LeaseSize = Pick<Limit, 'max' | 'windowMs'>

/** The arguments of the script. */
export const leaseArguments = (instance: string, { max, windowMs }: LeaseSize, request: LeaseRequest) => {
  const { sequence, unheard, generation, spent, keep, waiting, extra, leftMs } = request
  return [instance, max, windowMs, sequence, unheard, generation, spent, keep, waiting, extra, leftMs]
}

/** The reply of Redis. */
export interface LeaseReply {
  /** The window's first planned end by Redis's clock, ms since the epoch; identifies the window. */
  readonly generation: number
  /** Redis's clock, ms since the epoch. */
  readonly nowMs: number
  readonly remainingMs: number
  /** Used by this instance in this window, as reported, without the waiting requests. */
  readonly spent: number
  /** Permits that this instance has received in this window, used or not. */
  readonly lent: number
  /** Used by the other instances. */
  readonly others: number
  /** Permits that no instance has. */
  readonly free: number
  /** Permits that other instances hold and may still use or return. */
  readonly held: number
}

/** Throws a TypeError if the reply does not have the form that the script returns. */
export const readLeaseReply = (reply: unknown): LeaseReply => {
  if (!Array.isArray(reply) || reply.length !== 8 || !reply.every(Number.isSafeInteger))
    throw new TypeError('not a reply of the lease script')
  const [generation, nowMs, remainingMs, spent, lent, others, free, held] = reply
  return { generation, nowMs, remainingMs, spent, lent, others, free, held }
}

/** A limit, and the windows of its keys in the order in which they began. */
export interface Limit {
  readonly name: string
  readonly max: number
  readonly windowMs: number
  readonly windows: Map<string, PermitWindow>
}

/**
 * One key's window as this instance knows it. Healthy: `spent <= lent`, and the difference is held. `spent > lent` is a
 * debt: admitted while Redis was unavailable, to be reported before anything else is decided.
 */
export interface PermitWindow {
  readonly limit: Limit
  readonly key: string
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
export type Lease = ReturnType<typeof createLease>

export interface Flight extends LeaseRequest {
  readonly sentAt: number
}

/** A reserve should last about this long. */
const BATCH_MS = 250
/** With requests further apart than this, a reserve would be returned before its use. */
const SLOW_DEMAND_MS = 80
const LARGEST_BATCH = 16_384
/** With fewer free permits than this, reserves are not worth a command of their own. */
const SCARCE = 8
/** After this time without a request, permits are returned: with a tick and the round trip to Redis, well within 200 ms. */
const IDLE_MS = 130
/** Of the last quarter of a window that other instances use, too, a reserve is held no longer than this. */
const LAST_QUARTER_MS = 50
/** Interval at which held permits are confirmed, before Redis counts them as used. */
const CONFIRM_MS = LEASE_MS * 0.6

const UNUSED = { end: 0, spent: 0, lent: 0, others: 0, generation: 0 }

export const createWindow = (limit: Limit, key: string): PermitWindow => ({ ...UNUSED, limit, key, lease: undefined })

/** Clears what is over, including permits. */
export const renewWindow = (window: PermitWindow): void => void Object.assign(window, UNUSED)

export const createLease = (window: PermitWindow, now: number) => ({
  window,
  /** In Redis. */
  key: leaseKey(window.limit, window.key),
  waiters: [] as (() => void)[],
  flight: undefined as Flight | undefined,
  /** The first request without a reply that could be used: its sequence number (0: none), and when Redis began to owe one. */
  unheard: 0,
  unansweredSince: undefined as number | undefined,
  /** Redis may count more permits as lent than there are, because a command failed. */
  owes: false,
  /** All permits are lent, some of them unused by other instances. */
  starved: false,
  /** Permits to hold in reserve, and the number of held permits at which more are fetched. */
  batch: 0,
  lowWater: 0,
  /** Time between two recent requests. */
  gapMs: 2 * SLOW_DEMAND_MS,
  /** Permits that no instance held, at the last reply. */
  free: window.limit.max,
  touchedAt: now,
  fetchedAt: now
})

/** Whether all permits of the window are known to be used, by this instance or others. */
export const isOver = ({ generation, spent, lent, others, limit }: PermitWindow): boolean =>
  generation !== 0 && spent <= lent && spent + others >= limit.max

/** A request for the key has arrived. */
export const touch = (lease: Lease, now: number): void => {
  const gapMs = now - lease.touchedAt
  lease.touchedAt = now
  lease.gapMs += (gapMs - lease.gapMs) * (gapMs < lease.gapMs ? 0.5 : 0.25)
}

/** The reserve follows the demand: it at most doubles, and slow demand has none. */
export const adaptBatch = (lease: Lease): void => {
  const wanted = lease.gapMs < SLOW_DEMAND_MS ? Math.ceil(BATCH_MS / Math.max(0.01, lease.gapMs)) : 0
  lease.batch = Math.min(wanted, Math.max(2, lease.batch * 2), LARGEST_BATCH, Math.ceil(lease.window.limit.max / 4))
}

/** Whether to fetch more before the reserve is used up. */
export const runsLow = ({ window, free, lowWater }: Lease): boolean =>
  free >= SCARCE && window.lent - window.spent < lowWater

/** What is due for a lease while no request is in progress. */
export const stepFor = (lease: Lease, now: number, isUp: boolean) => {
  const { window } = lease
  if (lease.waiters.length > 0) return 'ask'
  const idle = now - lease.touchedAt >= IDLE_MS
  const holds = window.lent > window.spent
  if (now >= window.end || !(holds || lease.owes)) return idle ? 'forget' : 'nothing'
  if (!isUp) return 'nothing'
  const sinceMs = now - lease.fetchedAt
  const isWanted = holds && window.others > 0 && lease.free < window.limit.max / 4
  if (idle || (isWanted && sinceMs >= LAST_QUARTER_MS)) return 'give back'
  // A connection that ended is asked again at once, while Redis has time left to reply.
  return sinceMs >= CONFIRM_MS || lease.unansweredSince !== undefined ? 'confirm' : 'nothing'
}

/** The request to send now; with `giveBack` the held permits are gone at once, whatever happens to the request. */
export const composeRequest = (
  lease: Lease,
  now: number,
  sequence: number,
  giveBack: boolean,
  extra: number
): Flight => {
  const { window, waiters } = lease
  if (now >= window.end) renewWindow(window)
  if (giveBack) dropUnused(window)
  lease.unheard ||= sequence
  lease.unansweredSince ??= now
  return {
    sequence,
    unheard: lease.unheard,
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
 * Redis's clock was rounded, so it is before Redis's end whatever the latency. If that end has already passed, the permits
 * are void.
 */
export const applyReply = (lease: Lease, flight: Flight, reply: LeaseReply, now: number): void => {
  const { window } = lease
  lease.unansweredSince = undefined
  lease.owes = false
  lease.starved = false
  const end = Math.floor(flight.sentAt + reply.remainingMs - 1)
  if (end <= now) {
    if (window.generation === flight.generation) renewWindow(window)
    return
  }
  lease.unheard = 0
  window.spent = reply.spent + spentMeanwhile(window, flight, reply)
  window.lent = reply.lent
  window.others = reply.others
  window.generation = reply.generation
  window.end = end
  lease.free = reply.free
  const rest = window.lent - window.spent - lease.waiters.length
  lease.lowWater = Math.min(lease.batch, Math.max(0, rest)) >> 1
  lease.starved = rest < 0 && reply.free === 0 && reply.held > 0
}

const spentMeanwhile = (window: PermitWindow, flight: Flight, reply: LeaseReply): number => {
  if (window.generation !== flight.generation) return window.spent
  // The old window had ended by Redis's clock, so what was used of its permits since then belongs to it.
  if (flight.generation !== 0 && flight.generation <= reply.nowMs) return 0
  return Math.max(0, window.spent - flight.spent)
}

/**
 * Redis has lost our state, or was unreachable: no held permit is granted, and no earlier reply counts, until Redis has
 * confirmed what this instance reports.
 */
export const beginAnew = (lease: Lease): void => {
  lease.flight = undefined
  lease.unansweredSince = undefined
  lease.owes = true
  dropUnused(lease.window)
}

const dropUnused = (window: PermitWindow): void => {
  window.lent = Math.min(window.lent, window.spent)
}
