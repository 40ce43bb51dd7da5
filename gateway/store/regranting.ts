// Puts the grants of the route files into force, and works out everyone's access from them in the background.
import { PROFILES } from '../identity.ts'
import type { RouteTable } from '../routes/route.ts'
import { every, task } from '../values/contain.ts'
import type { Log } from '../values/log.ts'
import type { Database } from './database.ts'
import { regrantBatch } from './granted-access.ts'
import { checkGrants, type GrantsProgress, type LoadedGrants, loadGrants, REPORT_MS } from './grants-in-force.ts'

/**
 * `regranting`: some people still have what earlier grants gave. `older`: another instance has newer route files, and people
 * get what those grant. `degraded`: the database does not take the grants; they are tried again.
 */
export type GrantsState = (typeof GRANTS_STATES)[number]

export const GRANTS_STATES = ['ok', 'regranting', 'older', 'degraded'] as const

interface RegrantingParts {
  readonly database: Database
  readonly table: () => Pick<RouteTable, 'grants' | 'profiles' | 'changedAt'>
  readonly log: Log
  readonly now?: () => number
}

const MAX_PAUSE_MS = 30_000

export const createRegranting = ({ database, table, log, now = Date.now }: RegrantingParts) => {
  let queue: Promise<void> = Promise.resolve()
  let loading: Promise<void> = queue
  let loaded: LoadedGrants | undefined
  let state: GrantsState = 'regranting'
  let isOlder = false
  let people = 0
  let waiting = 0
  let failures = 0
  let retry: NodeJS.Timeout | undefined
  let isClosed = false

  const note = ({ isInForce, isDone, generation }: GrantsProgress) => {
    state = isInForce ? (isDone ? 'ok' : 'regranting') : 'older'
    if (isOlder !== isInForce) return
    isOlder = !isInForce
    if (isOlder) {
      log.warn(
        { reason: 'grants-older', generation },
        'another instance has newer route files with other grants, which stay in force; give all instances the same files'
      )
    } else log.info({ generation }, 'the grants of these route files are in force now')
  }
  const finishPass = async (mine: LoadedGrants, progress: GrantsProgress): Promise<void> => {
    note(progress)
    if (!progress.isInForce || progress.isDone) return
    const before = people
    // A table that was swapped in meanwhile has its own turn.
    while (!isClosed && loaded === mine) {
      const batch = await regrantBatch(database, mine.grants.checksum)
      if (batch === undefined) break
      people += batch
    }
    if (people > before) log.info({ people: people - before }, 'recalculated access from the groups last seen')
    if (loaded === mine) note(await checkGrants(database, mine))
  }
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    if (isClosed) return
    clearTimeout(retry)
    try {
      await work()
      failures = 0
    } catch (error) {
      const pauseMs = Math.min(500 * 2 ** failures++, MAX_PAUSE_MS)
      log.warn({ err: error, pauseMs }, 'the changed grants could not be applied to everyone yet; trying again')
      state = 'degraded'
      retry = setTimeout(task(enqueue), pauseMs, work).unref()
    }
  }
  const enqueue = (work: () => Promise<void>): Promise<void> => {
    waiting++
    queue = queue.then(() => attempt(work)).finally(() => waiting--)
    return queue
  }
  const check = async (): Promise<void> => {
    const mine = loaded
    if (mine === undefined) return
    const progress = await checkGrants(database, mine)
    await finishPass(mine, progress.isDue ? await loadGrants(database, mine, true) : progress)
  }
  // A pass reports by itself that this instance is there. What is to be tried again includes the check, and more.
  const stop = every(REPORT_MS, () => (waiting + failures === 0 ? enqueue(check) : undefined))

  return {
    /** Takes the grants of the table in use. Resolves when everyone's access has been worked out, or that was attempted. */
    load(): Promise<void> {
      const { grants, profiles, changedAt } = table()
      const isChange = loaded !== undefined && loaded.grants.checksum !== grants.checksum
      // Files that were moved here, or restored, keep an older time: loading them changed them. No file is newer than the clock.
      const fileMs = Math.min(changedAt.getTime(), now())
      const changedMs = isChange ? now() : Math.max(loaded?.changedAt.getTime() ?? 0, fileMs)
      const mine = { grants, profiles: profiles.slice(PROFILES.length), changedAt: new Date(changedMs) }
      loaded = mine
      state = 'regranting'
      const { promise, resolve } = Promise.withResolvers<void>()
      loading = promise
      return enqueue(async () => {
        if (loaded !== mine) return
        const progress = await loadGrants(database, mine).finally(resolve)
        await finishPass(mine, progress)
      }).finally(resolve)
    },
    /** Resolves when the grants loaded last are in force or known to be older, or that was attempted. */
    loaded: () => loading,
    state: () => state,
    /** People whose access this process has worked out again since it started. */
    people: () => people,
    /** Waits for the batch in progress. */
    async close() {
      isClosed = true
      stop()
      clearTimeout(retry)
      await queue
    }
  }
}
