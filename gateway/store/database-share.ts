// Reserves a share of the database connections for certain work, so that it cannot delay the rest.
import { createTurns } from '../values/turns.ts'
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
  const inTurn = createTurns(connections, mostWaiting, () => TOO_MANY, waitMs)
  return {
    ...database,
    read: work => inTurn('', () => database.read(work)),
    write: work => inTurn('', () => database.write(work))
  }
}
