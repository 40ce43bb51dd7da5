// Has the audit log checked in the background by one process of the installation, so that a changed entry is noticed.
import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { AuditLog } from '../store/audit-log.ts'
import { task } from '../values/contain.ts'

export interface AuditState {
  readonly state: 'unknown' | 'ok' | 'broken'
  readonly entries: number
  /** Number of the first entry that differs from what was written; undefined if none does. */
  readonly firstBroken: number | undefined
  /** When new entries were last checked, and a part of the others again; undefined before the first time. */
  readonly checkedAt: Date | undefined
}

interface AuditWatchOptions {
  /** Time between the end of one round and the next, in the whole installation; milliseconds. */
  readonly everyMs?: number
  /** How often this process looks whether a round is due; milliseconds. */
  readonly lookMs?: number
  /** Pause between two steps of a round, because a long log must not be read at the expense of requests. */
  readonly pauseMs?: number
  /** What follows a round, in the process that made it. */
  readonly afterRound?: () => Promise<void>
}

const EVERY_MS = 10 * 60 * 1000
const LOOK_MS = 60 * 1000
const PAUSE_MS = 50
const DAY_MS = 24 * 60 * 60 * 1000
/** A log of this length is read completely in every round. */
const LEAST_SWEEP = 2_000

const LOST =
  'the database has failed over, or was restored, and audit entries that this process knew are gone; the log goes on without them. A synchronous standby loses none'

export const createAuditWatch = (
  audit: Pick<AuditLog, 'check' | 'checked'>,
  log: Pick<Logger, 'error' | 'warn' | 'info'>,
  { everyMs = EVERY_MS, lookMs = LOOK_MS, pauseMs = PAUSE_MS, afterRound }: AuditWatchOptions = {}
) => {
  let state: AuditState = { state: 'unknown', entries: 0, firstBroken: undefined, checkedAt: undefined }
  let remembered: { readonly verified: number; readonly hash: string; readonly timeline: string } | undefined
  let hasChecked = false
  const closing = new AbortController()
  const { signal } = closing
  const pause = (ms: number) => delay(ms, undefined, { signal, ref: false })

  /** Takes over what some process has found, and whether it still holds. */
  const look = async () => {
    const { checkpoint, timeline, entries, ageMs, ...seen } = await audit.checked(remembered)
    const hasFailedOver = remembered !== undefined && remembered.timeline !== timeline
    if (hasFailedOver && seen.lost !== undefined)
      log.warn({ entries, firstLost: seen.lost, reason: 'audit-lost' }, LOST)
    const lost = hasFailedOver ? undefined : seen.lost
    if (hasFailedOver) remembered = undefined
    if (checkpoint !== undefined && lost === undefined)
      remembered = { verified: checkpoint.verified, hash: checkpoint.hash, timeline }
    const firstBroken = lost ?? checkpoint?.firstBroken ?? undefined
    if (firstBroken !== undefined && firstBroken !== state.firstBroken)
      log.error(
        { entries, firstBroken, reason: 'audit-broken' },
        'the audit log is broken: an entry does not match the hash chain'
      )
    const { fullAt = null, checkedAt = null } = checkpoint ?? {}
    state = {
      // A process that starts looks for itself at what is new before it repeats what others have found.
      state: firstBroken !== undefined ? 'broken' : fullAt !== null && hasChecked ? 'ok' : state.state,
      entries,
      firstBroken,
      checkedAt: checkedAt === null ? state.checkedAt : new Date(checkedAt)
    }
    return { ageMs, entries, fullAt }
  }
  /** @param sweep how many entries to read again, after those that are new */
  const round = async (sweep: number, leastAgeMs: number): Promise<void> => {
    let left = sweep
    let unkeyed = 0
    try {
      for (;;) {
        const step = await audit.check(left, leastAgeMs)
        if (step === undefined) return
        left = Math.max(0, left - step.swept)
        unkeyed += step.unkeyed
        if (step.isDone) break
        await pause(pauseMs)
      }
    } finally {
      // However the round ends: no other one reads these entries as new.
      if (unkeyed > 0)
        log.warn(
          { unkeyed, reason: 'audit-unkeyed' },
          'audit entries were written without the key: by a gateway of the previous release or with another JWT_SECRET, or by somebody with access to the database'
        )
    }
    await afterRound?.()
  }
  const turn = async (): Promise<void> => {
    try {
      const before = await look()
      const isDue = before.ageMs >= everyMs
      if (!isDue && hasChecked) return
      // The rounds of a day read everything. A process that starts looks at what is new.
      const share = Math.max(LEAST_SWEEP, Math.ceil((before.entries * everyMs) / DAY_MS))
      await (isDue ? round(share, everyMs) : round(0, 0))
      hasChecked = true
      const { entries, fullAt } = await look()
      // A log that is kept elsewhere then knows the chain too, whatever becomes of the database.
      if (fullAt !== null && fullAt !== before.fullAt)
        log.info({ entries, hash: remembered?.hash }, 'every entry of the audit log has been checked')
    } catch (error) {
      // The previous result stays; its time shows how old it is.
      if (!signal.aborted) log.warn({ err: error, reason: 'audit-unreadable' }, 'the audit log could not be checked')
    }
  }
  const watch = async (): Promise<void> => {
    while (!signal.aborted) {
      await turn()
      // Jitter, so that instances that were started together do not look together.
      await pause(lookMs * (0.9 + Math.random() * 0.2)).catch(() => undefined)
    }
  }
  task(watch)()

  return {
    last: (): AuditState => state,
    close: () => closing.abort()
  }
}
