// Verifies the audit log in the background at intervals, so that a changed entry is noticed.

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { AuditLog } from '../store/audit-log.ts'
import { task } from '../values/contain.ts'

export interface AuditState {
  readonly state: 'unknown' | 'ok' | 'broken'
  readonly entries: number
  /** Number of the first entry that differs from what was written; undefined if none does. */
  readonly firstBroken: number | undefined
  /** Time of the check; undefined before the first one. */
  readonly checkedAt: Date | undefined
}

interface AuditWatchOptions {
  /** Time between the end of one check and the next; milliseconds. */
  readonly everyMs?: number
  /** Pause between two pages of entries, because a long log must not be read at the expense of requests. */
  readonly pauseMs?: number
}

const EVERY_MS = 10 * 60 * 1000
const PAUSE_MS = 20

export const createAuditWatch = (
  audit: Pick<AuditLog, 'verify'>,
  log: Pick<Logger, 'error' | 'warn'>,
  { everyMs = EVERY_MS, pauseMs = PAUSE_MS }: AuditWatchOptions = {}
) => {
  let state: AuditState = { state: 'unknown', entries: 0, firstBroken: undefined, checkedAt: undefined }
  const closing = new AbortController()
  const { signal } = closing
  const pause = () => delay(pauseMs, undefined, { signal, ref: false })

  const check = async (): Promise<void> => {
    try {
      const { ok, entries, firstBroken } = await audit.verify(pause)
      state = { state: ok ? 'ok' : 'broken', entries, firstBroken, checkedAt: new Date() }
      if (!ok)
        log.error(
          { entries, firstBroken, reason: 'audit-broken' },
          'the audit log is broken: an entry does not match the hash chain'
        )
    } catch (error) {
      // The previous result stays; its time shows how old it is.
      if (!signal.aborted) log.warn({ err: error, reason: 'audit-unreadable' }, 'the audit log could not be checked')
    }
  }
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await check()
      // Jitter, so that instances that were started together do not read together.
      await delay(everyMs * (0.9 + Math.random() * 0.2), undefined, { signal, ref: false }).catch(() => undefined)
    }
  }
  task(watch)()

  return {
    /** The result of the last check. */
    last: (): AuditState => state,
    /** Aborts a check in progress. */
    close: () => closing.abort()
  }
}
