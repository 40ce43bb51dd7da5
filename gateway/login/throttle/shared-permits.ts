// Uses Redis while it responds; otherwise this instance continues with its own data.

import type { RedisStore } from '../../redis/redis.ts'
import { redisFailure } from '../../redis/redis-failure.ts'
import type { PermitStore } from '../../store/login-permits.ts'
import { boundedMap } from '../../values/bounded-map.ts'

export interface SharedLog {
  warn(fields: object, message: string): void
  info(fields: object, message: string): void
}

/** Runs `ask` against Redis; undefined if there is none, it is unavailable, or it failed less than a second ago. */
export type AskRedis = <T>(ask: (redis: RedisStore) => Promise<T>) => Promise<{ readonly answer: T } | undefined>

const PAUSE_MS = 1000
const REDIS_TIMEOUT_MS = 250

/** @param clock monotonic ms */
export const createAskRedis = (redis: RedisStore | undefined, clock: () => number, log: SharedLog): AskRedis => {
  let askAgainAt = Number.NEGATIVE_INFINITY
  let isAway = false

  const fail = (error: unknown): undefined => {
    askAgainAt = clock() + PAUSE_MS
    if (!isAway)
      log.warn(
        { reason: redisFailure(error) },
        'login throttle: Redis is unavailable; this instance counts clients on its own'
      )
    isAway = true
  }

  return async ask => {
    if (redis === undefined || clock() < askAgainAt) return undefined
    try {
      const answer = await ask(redis)
      if (isAway) log.info({}, 'login throttle: counting clients in Redis again')
      isAway = false
      return { answer }
    } catch (error) {
      return fail(error)
    }
  }
}

const READ = `
local time = redis.call('TIME')
return {redis.call('GET', KEYS[1]), time[1] * 1000 + math.floor(time[2] / 1000)}
`
const SWAP = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
`
const MAX_ENTRIES = 100_000

/** The most recently used permits in memory. `now`: ms since the epoch. */
const createMemoryPermits = (
  now: () => number
): PermitStore & { keep(key: string, text: string | undefined): void } => {
  const texts = boundedMap<string, string>(MAX_ENTRIES)
  const keep = (key: string, text: string | undefined) => {
    if (text === undefined) texts.delete(key)
    else texts.set(key, text)
  }
  return {
    keep,
    read: async key => ({ text: texts.get(key), now: now() }),
    swap: async (key, before, after) => {
      if (texts.get(key) !== before) return false
      keep(key, after)
      return true
    }
  }
}

/**
 * Permits in Redis. Their last known state is kept in memory, so that an instance that loses Redis continues from there
 * instead of starting from nothing.
 */
export const createSharedPermits = (ask: AskRedis, now: () => number): PermitStore => {
  const local = createMemoryPermits(now)
  return {
    read: async key => {
      const shared = await ask(redis => redis.evalScript(READ, [redisKey(key)], [], REDIS_TIMEOUT_MS).then(readAnswer))
      if (shared === undefined) return local.read(key)
      local.keep(key, shared.answer.text)
      return shared.answer
    },
    swap: async (key, before, after, ttlMs) => {
      const words = [before ?? '', after ?? '', ttlMs]
      const shared = await ask(redis => redis.evalScript(SWAP, [redisKey(key)], words, REDIS_TIMEOUT_MS))
      if (shared === undefined) return local.swap(key, before, after, ttlMs)
      if (shared.answer !== 1) return false
      local.keep(key, after)
      return true
    }
  }
}

/** One key per script, so any slot of a cluster will do. */
const redisKey = (key: string): string => `portaria:login:{${key}}`

const readAnswer = (answer: unknown): { text: string | undefined; now: number } => {
  const [text, now] = Array.isArray(answer) ? answer : []
  if (typeof now !== 'number' || !(text === null || typeof text === 'string')) throw new TypeError('not the answer')
  return { text: text ?? undefined, now }
}
