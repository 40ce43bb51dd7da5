// Counts every request in one window per key for all instances, and decides at once or within a few ms whether it may pass.
import { randomBytes } from 'node:crypto'
import type { RedisStore } from '../redis/redis.ts'
import { every } from '../values/contain.ts'
import { type LimiterLog, stateNow } from './circuit.ts'
import { isOver, type PermitWindow, touch } from './leases.ts'
import { createRedisLeases, type RedisLeases } from './redis-leases.ts'
import { createLocalWindows, type LocalWindows } from './windows.ts'

export interface Verdict {
  readonly allowed: boolean
  readonly limit: number
  /** As far as this instance knows; 0 if refused. */
  readonly remaining: number
  /** Time until the window ends; above 0. */
  readonly resetMs: number
}

export interface LimiterStatus {
  /** `memory`: Redis is not configured. `degraded`: it is unavailable, and each instance counts alone. */
  readonly mode: 'memory' | 'redis' | 'degraded'
  /** When this began, ms since the epoch. */
  readonly since: number
  readonly reason?: string
  /** Commands sent to Redis so far. */
  readonly commands: number
  /** Windows kept in memory. */
  readonly entries: number
  /** Windows dropped before their end, because there were too many. */
  readonly forgotten: number
  /** Keys that currently hold permits or wait for Redis. */
  readonly leases: number
}

export interface LimiterParts {
  readonly redis?: RedisStore | undefined
  /** Monotonic ms. */
  readonly clock?: () => number
  readonly log: LimiterLog
  /** Identifies this instance in Redis; made unique per process run. */
  readonly instance?: string
  /** Maximum number of windows; beyond it those that began first are dropped. */
  readonly maxEntries?: number
  /** How long Redis may take to reply before it counts as unavailable. */
  readonly timeoutMs?: number
}

export type Limiter = ReturnType<typeof createLimiter>

/** 22 MB. */
const MAX_ENTRIES = 2 ** 17
/** A command without a reply for this long means that Redis is unavailable; requests then do not wait until it is back. */
const REDIS_TIMEOUT_MS = 100
const SWEEP_MS = 1000
/** For permits that other instances hold: they return them sooner if they do not use them. */
const MAX_STARVED_MS = 200
/** A process that has stood still, or a window too short for a reply to arrive in it. */
const MAX_WAIT_MS = 1000

export const createLimiter = (parts: LimiterParts) => {
  const { redis, log, clock = () => performance.now() } = parts
  const windows = createLocalWindows(parts.maxEntries ?? MAX_ENTRIES)
  const instance = `${parts.instance ?? process.pid}-${randomBytes(6).toString('base64url')}`
  const timeoutMs = parts.timeoutMs ?? REDIS_TIMEOUT_MS
  const leases = redis && createRedisLeases({ redis, clock, log, instance, timeoutMs, openWindows: windows.open })
  const started = stateNow()
  const stop = every(SWEEP_MS, () => windows.sweep(clock()))
  const take: Take = leases === undefined ? takeInMemory(windows, clock) : takeLeased(windows, leases, clock)

  const status = (): LimiterStatus => {
    const { up, since, reason } = leases?.circuit.state() ?? started
    const mode = leases === undefined ? 'memory' : up ? 'redis' : 'degraded'
    const kept = { entries: windows.size(), forgotten: windows.forgotten(), leases: leases?.leases() ?? 0 }
    return { mode, since, ...(reason === undefined ? {} : { reason }), commands: leases?.commands() ?? 0, ...kept }
  }

  return {
    take,
    status,
    /** Returns unused permits. Afterwards `take` counts locally. */
    async close() {
      stop()
      await leases?.close()
    }
  }
}

/**
 * Counts one request. Returns a promise only if permits must be fetched; it never rejects, and settles as soon as Redis
 * has replied or counts as unavailable.
 * @param name of the limit, e.g. `global` or a route's id
 * @param key what it counts, e.g. an IP address
 */
type Take = (name: string, key: string, max: number, windowMs: number) => Verdict | Promise<Verdict>

const takeInMemory =
  (windows: LocalWindows, clock: () => number): Take =>
  (name, key, max, windowMs) => {
    const now = clock()
    return takeLocally(windows.find(windows.limitOf(name, max, windowMs), key, now), now)
  }

/** Also while Redis is unavailable: in addition to what the others are known to have used, this instance admits up to max. */
const takeLocally = (window: PermitWindow, now: number): Verdict => {
  if (window.end === 0) window.end = Math.ceil(now + window.limit.windowMs)
  const allowed = window.spent + window.others < window.limit.max
  if (allowed) window.spent++
  return verdict(window, allowed, now)
}

const takeLeased = (windows: LocalWindows, leases: RedisLeases, clock: () => number): Take => {
  const { circuit } = leases

  const refuses = (window: PermitWindow): boolean => {
    if (isOver(window)) return true
    const { lease, generation, spent, others, limit } = window
    // No more can be granted than is not known to be used, so requests beyond that number need not wait.
    return lease !== undefined && generation !== 0 && lease.waiters.length >= limit.max - spent - others
  }

  /** Undefined: Redis must be asked. */
  const decide = (window: PermitWindow, now: number): Verdict | undefined => {
    if (window.limit.max <= 0 || !circuit.isUp()) return takeLocally(window, now)
    if (window.lent > window.spent) {
      window.spent++
      if (window.lease !== undefined) leases.spent(window.lease)
      return verdict(window, true, now)
    }
    return refuses(window) ? verdict(window, false, now) : undefined
  }

  const ask = (asked: PermitWindow, since: number): Promise<Verdict> =>
    new Promise(resolve => {
      const wait = (window: PermitWindow, now: number) => leases.wait(window, now, look)
      const look = () => {
        const now = clock()
        const window = windows.find(asked.limit, asked.key, now)
        const decided = decide(window, now)
        const isStarved = window.lease?.starved === true
        if (decided !== undefined) resolve(decided)
        else if (now - since < (isStarved ? MAX_STARVED_MS : MAX_WAIT_MS)) wait(window, now)
        // Permits that others hold are theirs; any other request that has waited for so long is counted as if Redis were away.
        else resolve(isStarved ? verdict(window, false, now) : takeLocally(window, now))
      }
      wait(asked, since)
    })

  return (name, key, max, windowMs) => {
    const now = clock()
    const window = windows.find(windows.limitOf(name, max, windowMs), key, now)
    if (window.lease !== undefined) touch(window.lease, now)
    return decide(window, now) ?? ask(window, now)
  }
}

const verdict = ({ limit, spent, others, end }: PermitWindow, allowed: boolean, now: number): Verdict => ({
  allowed,
  limit: limit.max,
  remaining: allowed ? Math.max(0, limit.max - spent - others) : 0,
  // The end is a whole millisecond, which may be later than the window is long.
  resetMs: Math.min(limit.windowMs, Math.max(1, end - now))
})
