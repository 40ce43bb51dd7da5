// Counts every request in one window per key for all instances, and decides at once or within a few ms whether it may pass.
import { randomBytes } from 'node:crypto'
import type { RedisStore } from '../redis/redis.ts'
import { every } from '../values/contain.ts'
import { type LimiterLog, stateNow } from './circuit.ts'
import { isOver, type PermitWindow, touch } from './leases.ts'
import { createRedisLeases, type RedisLeases } from './redis-leases.ts'
import { createLocalWindows, type LocalWindows, type OpenWindow, type WindowTable } from './windows.ts'

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

/** 17 MB. */
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
  const openWindows = windows.open
  const shared = redis && createRedisLeases({ redis, clock, log, instance, timeoutMs, openWindows })
  const started = stateNow()
  const stop = every(SWEEP_MS, () => windows.sweep(clock()))
  const take: Take = shared === undefined ? takeInMemory(windows, clock) : takeLeased(windows, shared, clock)

  const status = (): LimiterStatus => {
    const { up, since, reason } = shared?.circuit.state() ?? started
    const mode = shared === undefined ? 'memory' : up ? 'redis' : 'degraded'
    const kept = { entries: windows.size(), forgotten: windows.forgotten(), leases: shared?.leases() ?? 0 }
    return { mode, since, ...(reason === undefined ? {} : { reason }), commands: shared?.commands() ?? 0, ...kept }
  }

  return {
    take,
    status,
    /** Returns unused permits. Afterwards `take` counts locally. */
    async close() {
      stop()
      await shared?.close()
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
    const table = windows.tableOf(name, max, windowMs)
    return takeLocally(windows.find(table, key, now), max, windowMs, now)
  }

/** Also while Redis is unavailable: in addition to what the others are known to have used, this instance admits up to max. */
const takeLocally = (window: PermitWindow, max: number, windowMs: number, now: number): Verdict => {
  if (window.end === 0) window.end = Math.ceil(now + windowMs)
  const allowed = window.spent + window.others < max
  if (allowed) window.spent++
  return verdict(window, max, windowMs, allowed, now)
}

const takeLeased = (windows: LocalWindows, shared: RedisLeases, clock: () => number): Take => {
  const { circuit } = shared

  const refuses = (window: PermitWindow, max: number): boolean => {
    if (isOver(window, max)) return true
    const { lease, generation, spent, others } = window
    // No more can be granted than is not known to be used, so requests beyond that number need not wait.
    return lease !== undefined && generation !== 0 && lease.waiters.length >= max - spent - others
  }

  /** Undefined: Redis must be asked. */
  const decide = ({ max, windowMs }: WindowTable, window: PermitWindow, now: number): Verdict | undefined => {
    if (max <= 0 || !circuit.isUp()) return takeLocally(window, max, windowMs, now)
    if (window.lent > window.spent) {
      window.spent++
      if (window.lease !== undefined) shared.spent(window.lease)
      return verdict(window, max, windowMs, true, now)
    }
    return refuses(window, max) ? verdict(window, max, windowMs, false, now) : undefined
  }

  /** Permits that others hold are theirs; any other request that has waited for so long is counted as if Redis were away. */
  const settleLate = ({ max, windowMs }: WindowTable, window: PermitWindow, now: number): Verdict =>
    window.lease?.starved === true
      ? verdict(window, max, windowMs, false, now)
      : takeLocally(window, max, windowMs, now)

  const ask = (table: WindowTable, key: string, since: number): Promise<Verdict> =>
    new Promise(resolve => {
      const wait = (open: OpenWindow, now: number) =>
        shared.wait(open, now, () => {
          const later = clock()
          const window = windows.find(table, key, later)
          const decided = decide(table, window, later)
          const mostMs = window.lease?.starved === true ? MAX_STARVED_MS : MAX_WAIT_MS
          if (decided !== undefined) resolve(decided)
          else if (later - since >= mostMs) resolve(settleLate(table, window, later))
          else wait({ window, table, key }, later)
        })
      wait({ window: windows.find(table, key, since), table, key }, since)
    })

  return (name, key, max, windowMs) => {
    const now = clock()
    const table = windows.tableOf(name, max, windowMs)
    const window = windows.find(table, key, now)
    if (window.lease !== undefined) touch(window.lease, now)
    return decide(table, window, now) ?? ask(table, key, now)
  }
}

const verdict = (window: PermitWindow, max: number, windowMs: number, allowed: boolean, now: number): Verdict => ({
  allowed,
  limit: max,
  remaining: allowed ? Math.max(0, max - window.spent - window.others) : 0,
  // The end is a whole millisecond, which may be later than the window is long.
  resetMs: Math.min(windowMs, Math.max(1, window.end - now))
})
