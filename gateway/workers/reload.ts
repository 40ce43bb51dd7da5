// Swaps the route tables of all workers together: each reads the files, and they swap only if all have read the same.
import { setTimeout as delay } from 'node:timers/promises'
import type { Calls } from '../instances/calls.ts'
import { coalesce } from '../values/coalesce.ts'
import type { Log } from '../values/log.ts'

/** One save is seen by the watcher of each worker. */
const TOGETHER_MS = 50
const PREPARE_TIMEOUT_MS = 10_000
const MAX_ROUNDS = 10
const BETWEEN_ROUNDS_MS = 100
const CATCH_UP_MS = 10_000

type Found = { worker: Calls; checksum: unknown } | undefined

/**
 * Resolves to whether the files have no errors. Reloads never overlap; those requested in the meantime are combined.
 * `isAsked`: someone requested it, and each worker then also logs when nothing has changed.
 * @param catchUpMs delay after a round in which a worker took no part, before all are asked again
 */
export const createReload = (
  workers: () => readonly Calls[],
  log: Pick<Log, 'warn' | 'error'>,
  catchUpMs = CATCH_UP_MS
): ((isAsked?: boolean) => Promise<boolean>) => {
  const prepare = async (worker: Calls): Promise<Found> => {
    try {
      return { worker, checksum: await worker.call('routes.prepare', [], { timeoutMs: PREPARE_TIMEOUT_MS }) }
    } catch (error) {
      // It is gone, or too busy: it still has the previous table, and its watcher has already reported the change.
      log.warn({ err: error }, 'a worker did not take part in a reload')
      return undefined
    }
  }

  let catchUp: NodeJS.Timeout | undefined
  const round = async (isAsked: boolean): Promise<boolean | undefined> => {
    const asked = workers()
    // Workers that start now read the files themselves.
    if (asked.length === 0) return false
    const found = (await Promise.all(asked.map(prepare))).filter(one => one !== undefined)
    clearTimeout(catchUp)
    if (found.length < asked.length) catchUp = setTimeout(() => void reload(), catchUpMs).unref()
    const isAgreed = new Set(found.map(({ checksum }) => checksum)).size === 1
    const settled = await Promise.all(
      found.map(({ worker }) => worker.call('routes.settle', [isAgreed, isAsked]).catch(() => undefined))
    )
    return isAgreed ? settled.every(ok => ok !== false) : undefined
  }

  const run = async (isAsked: boolean): Promise<boolean> => {
    for (let i = 0; i < MAX_ROUNDS; i++) {
      const ok = await round(isAsked)
      if (ok !== undefined) return ok
      await delay(BETWEEN_ROUNDS_MS)
    }
    log.error({}, 'the route files change faster than they can be read; the previous table stays in use')
    return false
  }

  const reload = coalesce(run, TOGETHER_MS)
  return reload
}
