// Remembers for two minutes, as a keyed hash only, a password that the directory has just refused.
import { boundedMap } from '../../values/bounded-map.ts'
import type { AskRedis } from './shared-permits.ts'

interface WrongPasswords {
  /** @param digest keyed hash of login and password, of fixed length */
  has(digest: string): Promise<boolean>
  add(digest: string): Promise<void>
}

/**
 * For this long, a password that has just become right is still refused. An earlier success with another password would
 * prove nothing about this one, so only time clears it.
 */
const REMEMBERED_MS = 2 * 60_000
const MAX_REMEMBERED = 10_000

/** @param clock monotonic ms */
export const createWrongPasswords = (ask: AskRedis, clock: () => number): WrongPasswords => {
  const known = boundedMap<string, number>(MAX_REMEMBERED)
  const key = (digest: string) => `portaria:login-wrong:{${digest}}`
  return {
    has: async digest => {
      const until = known.get(digest)
      if (until !== undefined && clock() < until) return true
      known.delete(digest)
      return (await ask(redis => redis.get(key(digest))))?.answer === '1'
    },
    add: async digest => {
      known.set(digest, clock() + REMEMBERED_MS)
      await ask(redis => redis.set(key(digest), '1', REMEMBERED_MS))
    }
  }
}
