// Recognises for two minutes a password that the directory has just refused, by a keyed hash only.
import { boundedMap } from '../../values/bounded-map.ts'
import type { AskRedis } from './shared-permits.ts'

interface WrongPasswords {
  /** @param digest keyed hash of login and password, of fixed length */
  has(digest: string): Promise<boolean>
  add(digest: string): Promise<void>
}

/**
 * So long, a password that has only now become right is still refused. An earlier success with another password would
 * say nothing about this one, so nothing but time makes it forgotten.
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
