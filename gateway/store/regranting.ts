// Brings everyone's granted access up to date with the route files in use, in batches, until it is done.

import { PROFILES } from '../identity.ts'
import { namesIn } from '../routes/grants.ts'
import type { RouteTable } from '../routes/route.ts'
import { task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import type { Database } from './database.ts'
import { createNames, regrantBatch } from './granted-access.ts'

interface RegrantingParts {
  database: Database
  table: () => Pick<RouteTable, 'grants' | 'profiles'>
  log: Log
}

const MAX_PAUSE_MS = 30_000

export const createRegranting = ({ database, table, log }: RegrantingParts) => {
  let queue: Promise<void> = Promise.resolve()
  let retry: NodeJS.Timeout | undefined
  let failures = 0
  let isClosed = false

  const bringUpToDate = async (): Promise<void> => {
    const { grants, profiles } = table()
    await createNames(database, namesIn(grants.list, 'areas'), profiles.slice(PROFILES.length))
    let people = 0
    // A table that was swapped in meanwhile has requested its own run.
    for (let after = 0; !isClosed && table().grants === grants; ) {
      const batch = await regrantBatch(database, grants, after)
      if (batch.people === 0 && after === 0) break
      people += batch.people
      // Starts over until nothing is left, because other instances grant too, and people log in meanwhile.
      after = batch.people === 0 ? 0 : batch.last
    }
    if (people > 0) log.info({ people }, 'recalculated access from the groups last seen')
  }
  const attempt = async (): Promise<void> => {
    clearTimeout(retry)
    if (isClosed) return
    try {
      await bringUpToDate()
      failures = 0
    } catch (error) {
      const pauseMs = Math.min(500 * 2 ** failures++, MAX_PAUSE_MS)
      log.warn({ err: error, pauseMs }, 'the changed grants could not be applied to everyone yet; trying again')
      retry = setTimeout(task(apply), pauseMs)
      retry.unref()
    }
  }
  const apply = (): Promise<void> => {
    queue = queue.then(attempt)
    return queue
  }
  return {
    /** Processes everyone whose granted access may have changed. Resolves when it is done, or was attempted. */
    apply,
    /** Resolves when everything requested so far is done, or was attempted. */
    settled: () => queue,
    /** Waits for the batch in progress. */
    async close() {
      isClosed = true
      clearTimeout(retry)
      await queue
    }
  }
}
