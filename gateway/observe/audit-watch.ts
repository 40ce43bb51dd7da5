// Whether the audit log is whole was found out not long ago, without anybody having to wait for it.
import type { Logger } from 'pino'
import type { AuditLog } from '../store/audit-log.ts'

export interface AuditState {
  readonly state: 'unknown' | 'ok' | 'broken'
  readonly entries: number
  /** Number of the first entry that is not what was written; undefined when all are. */
  readonly firstBroken: number | undefined
  /** When it was found; undefined before the first check. */
  readonly checkedAt: Date | undefined
}

interface AuditWatch {
  /** What the last check found. */
  last(): AuditState
  /** The same, and has the chain read again in the background when that was long ago. */
  ask(): AuditState
}

/** The whole chain is read: not for every look at a console. */
const CHECK_EVERY_MS = 10 * 60 * 1000

export const createAuditWatch = (
  audit: Pick<AuditLog, 'verify'>,
  log: Logger,
  now: () => number = () => performance.now()
): AuditWatch => {
  let state: AuditState = { state: 'unknown', entries: 0, firstBroken: undefined, checkedAt: undefined }
  let dueAt = Number.NEGATIVE_INFINITY
  let isChecking = false

  const check = async () => {
    try {
      const { ok, entries, firstBroken } = await audit.verify()
      state = { state: ok ? 'ok' : 'broken', entries, firstBroken, checkedAt: new Date() }
      dueAt = now() + CHECK_EVERY_MS
      if (!ok) log.error({ entries, firstBroken, reason: 'audit-broken' }, 'the audit log is not what was written')
    } catch (error) {
      log.warn({ err: error, reason: 'audit-unreadable' }, 'the audit log could not be checked')
    } finally {
      isChecking = false
    }
  }

  return {
    last: () => state,
    ask() {
      if (!isChecking && now() >= dueAt) {
        isChecking = true
        void check()
      }
      return state
    }
  }
}
