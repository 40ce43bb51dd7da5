// Reserves a share of the database connections for certain work, so that it cannot delay the rest.
import type { Database } from './database.ts'
import { DatabaseUnavailable } from './database-errors.ts'

/** Shared, because a flood needs many. */
const TOO_MANY = new DatabaseUnavailable(new Error('too much work for this share of the database connections'))

interface Share {
  /** Concurrent pieces of work. */
  readonly connections: number
  /** Pieces of work that may wait; further ones fail at once, which costs less than waiting in vain. */
  readonly mostWaiting: number
  /** How long one waits; by default as long as for a connection of the pool. */
  readonly waitMs?: number
}

export const shareOf = (database: Database, { connections, mostWaiting, waitMs = 2_000 }: Share): Database => {
  const waiting = new Set<() => void>()
  let running = 0

  const turn = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const start = () => {
        clearTimeout(timer)
        waiting.delete(start)
        resolve()
      }
      const timer = setTimeout(() => {
        waiting.delete(start)
        reject(TOO_MANY)
      }, waitMs)
      waiting.add(start)
    })

  const within = async <T>(run: () => Promise<T>): Promise<T> => {
    // Finished work hands its place over, so that new work does not overtake waiting work.
    if (running < connections) running++
    else if (waiting.size < mostWaiting) await turn()
    else throw TOO_MANY
    try {
      return await run()
    } finally {
      const [next] = waiting
      if (next === undefined) running--
      else next()
    }
  }

  return {
    ...database,
    read: work => within(() => database.read(work)),
    write: work => within(() => database.write(work))
  }
}
