// Counts a window for all instances in one atomic Redis script: who holds how many permits, and how many have been used.
import { hash } from 'node:crypto'

/** What an instance reports to Redis about one key, and what it requests. Counts are of this instance alone. */
export interface LeaseRequest {
  /** The window that the counts belong to; 0: unknown (a local window, or nothing yet). */
  readonly generation: number
  /** Total used in that window so far: absolute, so that a lost reply neither loses nor doubles anything. */
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

/** How long unused permits are held for a silent holder; holders report more often than that. */
export const LEASE_MS = 1000

/**
 * KEYS: the window's hash. ARGV: instance, sequence number, then generation, spent, keep, waiting, extra, max, windowMs,
 * leftMs. Fields: g generation, e end, t taken (used + unused), o unused, u time until which holders live, and per
 * instance `seq taken spent`. Never grants beyond max: t counts a permit from the moment it leaves.
 *
 * - A command that was overtaken by a later one of its instance (buffered in an old connection) changes nothing.
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
local key, me = KEYS[1], ARGV[1]
local seq, gen, spent, keep = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local waiting, extra, max = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local window, left = tonumber(ARGV[9]), tonumber(ARGV[10])

local w = redis.pcall('HMGET', key, 'g', 'e', 't', 'o', 'u', me)
local foreign = w.err ~= nil
if foreign then w = {} end
local id, ends, taken, unspent, alive = tonumber(w[1]), tonumber(w[2]), tonumber(w[3]), tonumber(w[4]), tonumber(w[5])
local last, had, used = string.match(w[6] or '', '^(%d+) (%d+) (%d+)$')
last, had, used = tonumber(last) or -1, tonumber(had) or 0, tonumber(used) or 0

if gen ~= 0 and gen <= now then gen, spent, keep = 0, 0, 0 end
if not (id and ends and taken and unspent and alive) or ends <= now then
  if foreign or id then redis.call('DEL', key) end
  taken, unspent, alive, last, had, used = 0, 0, 0, -1, 0, 0
  ends = now + window
  if gen ~= 0 then ends = math.min(gen, ends) elseif left > 0 then ends = math.min(now + left, ends) end
  id = gen ~= 0 and gen or ends
end
ends = math.min(ends, now + window)

local granted, reserve = 0, 0
if seq > last then
  if gen ~= id then spent, keep = had + spent, 0 end
  taken = taken - had + spent + keep
  unspent = math.max(0, unspent - (had - used)) + keep
  granted = math.max(0, math.min(waiting, max - taken))
  reserve = math.max(0, math.min(extra, math.floor((max - taken - granted) / 4)))
  had, used = spent + keep + granted + reserve, spent + granted
  taken, unspent = taken + granted + reserve, unspent + reserve
  if had > used then alive = now + ${LEASE_MS} end
  redis.call('HSET', key, 'g', id, 'e', ends, 't', taken, 'o', unspent, 'u', alive,
    me, string.format('%d %d %d', seq, had, used))
  redis.call('PEXPIREAT', key, ends)
end
local held = 0
if now < alive then held = math.max(0, unspent - (had - used)) end
return {id, now, ends - now, used - granted, had, math.max(0, taken - had - held), math.max(0, max - taken), held}
`

/** The key of a window: of fixed length for any input (RL-14), with one hash tag and therefore one slot. */
export const leaseKey = (name: string, key: string, max: number, windowMs: number): string =>
  `portaria:rate:{${hash('sha256', `${name}\0${max}\0${windowMs}\0${key}`, 'base64url').slice(0, 22)}}`

/** A key in the same slot as a window's, for checking whether that slot is writable. */
export const probeKey = (windowKey: string): string => `${windowKey}:probe`

export const leaseArguments = (
  instance: string,
  sequence: number,
  request: LeaseRequest,
  max: number,
  windowMs: number
): (string | number)[] => {
  const { generation, spent, keep, waiting, extra, leftMs } = request
  return [instance, sequence, generation, spent, keep, waiting, extra, max, windowMs, leftMs]
}

/** Throws a TypeError if the reply does not have the form that the script returns. */
export const readLeaseReply = (answer: unknown): LeaseReply => {
  if (!Array.isArray(answer) || answer.length !== 8 || !answer.every(Number.isSafeInteger))
    throw new TypeError('not an answer of the lease script')
  const [generation, nowMs, remainingMs, spent, lent, others, free, held] = answer
  return { generation, nowMs, remainingMs, spent, lent, others, free, held }
}
