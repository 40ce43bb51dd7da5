// Starts limiter instances that share a Redis, each over its own connection, and counts a flood of clients per window.
import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import { createLimiter, type Limiter, type LimiterParts, type LimiterStatus } from '../../gateway/limits/limiter.ts'
import { openRedis } from '../../gateway/redis/redis.ts'
import { parseRedisUrl, type RedisSettings } from '../../gateway/settings/redis.ts'
import { undisturbed } from './undisturbed.ts'
import { until } from './until.ts'

export const silent = { debug: () => {}, info: () => {}, warn: () => {} }

/** A log that remembers its lines. */
export const recordingLog = () => {
  const lines: { level: 'info' | 'warn'; message: string }[] = []
  const keep = (level: 'info' | 'warn') => (_fields: object, message: string) => void lines.push({ level, message })
  return { lines, debug: () => {}, info: keep('info'), warn: keep('warn') }
}

/** Long enough for a machine that does ten other things. */
const READY_MS = 30_000

interface StoreParts extends Partial<Pick<RedisSettings, 'prefix' | 'certificates'>> {
  log?: Parameters<typeof openRedis>[1]
}

/** As long as the commands of the store itself. */
const COMMAND_MS = 1000

/** Connected, or not when nothing answers in time; closed when the test ends. */
export const openStore = async (t: Pick<Test, 'teardown'>, url: string, readyMs = READY_MS, more: StoreParts = {}) => {
  const settings = parseRedisUrl(url)
  if ('mistake' in settings) throw new Error(settings.mistake)
  const { log = silent, ...own } = more
  const store = openRedis({ ...settings, prefix: 'portaria:', certificates: {}, ...own }, log)
  t.teardown(() => store.close())
  await store.ready(readyMs)
  return {
    ...store,
    get: (key: string) => store.evalScript("return redis.call('GET', KEYS[1])", [key], [], COMMAND_MS),
    set: (key: string, value: string, ttlMs: number) =>
      store.evalScript("return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])", [key], [value, ttlMs], COMMAND_MS)
  }
}

export const startLimiter = async (
  t: Pick<Test, 'teardown'>,
  url: string,
  parts: Partial<LimiterParts> = {},
  readyMs = READY_MS,
  more: StoreParts = {}
): Promise<Limiter> => {
  const limiter = createLimiter({ redis: await openStore(t, url, readyMs, more), log: silent, ...parts })
  t.teardown(() => limiter.close())
  return limiter
}

interface Flood {
  readonly max: number
  readonly windowMs: number
  readonly keys: readonly string[]
  readonly clients: number
  readonly forMs: number
  /** Pause of each client after each answer. */
  readonly pauseMs: number
}

export type FloodResult = Awaited<ReturnType<typeof flood>>

/** Clients go round the instances and the keys, each waiting for its answer as a client of HTTP would. */
export const flood = async (limiters: readonly Limiter[], options: Flood) => {
  const { max, windowMs, keys, clients, forMs, pauseMs } = options
  const before = limiters.reduce((sum, limiter) => sum + limiter.status().commands, 0)
  const windows = new Map<string, Window[]>()
  /** Milliseconds each request waited for the limiter, sorted in the end. */
  const waitsMs: number[] = []
  const stopAt = performance.now() + forMs
  const client = async (index: number) => {
    for (let step = index; performance.now() < stopAt; step++) {
      const key = keys[step % keys.length] ?? ''
      const limiter = limiters[Math.floor(step / keys.length + index) % limiters.length]
      if (limiter === undefined) return
      const start = performance.now()
      const verdict = await limiter.take('global', key, max, windowMs)
      waitsMs.push(performance.now() - start)
      const window = windowAt(windows, key, performance.now() + verdict.resetMs, windowMs)
      window.asked++
      if (verdict.allowed) window.admitted++
      if (pauseMs > 0) await new Promise(resolve => setTimeout(resolve, pauseMs))
      else await turn()
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)))
  const commands = limiters.reduce((sum, limiter) => sum + limiter.status().commands, 0) - before
  /** Per key, in the order of its windows as Redis opened them (told apart by the announced reset). */
  const admitted = new Map([...windows].map(([key, list]) => [key, list.map(window => window.admitted)]))
  /** Those of the windows in which each key was asked for at least twice its limit, whatever else the machine did. */
  const flooded = [...windows.values()].flat().flatMap(({ asked, admitted }) => (asked >= 2 * max ? [admitted] : []))
  return { requests: waitsMs.length, commands, admitted, flooded, waitsMs: waitsMs.sort((a, b) => a - b) }
}

interface Window {
  readonly end: number
  asked: number
  admitted: number
}

const windowAt = (windows: Map<string, Window[]>, key: string, end: number, windowMs: number): Window => {
  const list = windows.get(key) ?? []
  windows.set(key, list)
  const known = list.find(window => Math.abs(window.end - end) < windowMs / 3)
  if (known !== undefined) return known
  const window = { end, asked: 0, admitted: 0 }
  list.push(window)
  return window
}

export const median = (sorted: readonly number[]): number => sorted[sorted.length >> 1] ?? 0

export const modes = (limiters: readonly Limiter[]): LimiterStatus['mode'][] =>
  limiters.map(limiter => limiter.status().mode)

/**
 * The result of a round in which Redis counted all the time. A machine too busy to answer within 100 ms makes Redis count
 * as away, one that stands still makes windows end in the middle of it: then there is another.
 *
 * @param round each attempt needs keys of its own
 */
export const countedInRedis = <T>(
  limiters: readonly Limiter[],
  round: (attempt: number) => Promise<T | undefined>,
  lateMs = 150
): Promise<T> =>
  undisturbed(lateMs, async attempt => {
    await until(() => modes(limiters).every(mode => mode === 'redis'), 'every instance counts in Redis')
    const since = limiters.map(limiter => limiter.status().since)
    const result = await round(attempt)
    return limiters.every((limiter, index) => limiter.status().since === since[index]) ? result : undefined
  })
