// Lets one caller do work that several need at the same time, and gives the others its result.
import { NoPermit } from './turnstile.ts'

interface Leader {
  /** Whether the work had a result; waits until `deadline` by `performance.now()`. @throws {NoPermit} */
  accepted(deadline: number): Promise<boolean>
}

interface Leaders {
  /** The caller that currently works on `key`. */
  of(key: string): Leader | undefined
  /** Runs `work` on behalf of all who ask for `key` in the meantime; undefined and errors are no result. */
  lead<T>(key: string, work: () => Promise<T | undefined>): Promise<T | undefined>
}

const RETRY_MS = 1000

export const createLeaders = (): Leaders => {
  const leaders = new Map<string, Promise<boolean>>()
  return {
    of: key => {
      const leader = leaders.get(key)
      return leader && { accepted: deadline => before(deadline, leader) }
    },
    lead: async (key, work) => {
      const { promise, resolve } = Promise.withResolvers<boolean>()
      leaders.set(key, promise)
      let isAccepted = false
      try {
        const result = await work()
        isAccepted = result !== undefined
        return result
      } finally {
        leaders.delete(key)
        resolve(isAccepted)
      }
    }
  }
}

const before = async (deadline: number, leader: Promise<boolean>): Promise<boolean> => {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new NoPermit(RETRY_MS)), Math.max(0, deadline - performance.now()))
  try {
    return await Promise.race([leader, late])
  } finally {
    clearTimeout(timer)
  }
}
