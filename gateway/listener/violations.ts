// Counts connections closed because of their PROXY header, and logs them at most once a minute.
import type { Log } from '../values/log.ts'

export type Violations = ReturnType<typeof createViolations>

const QUIET_MS = 60_000

/** @param now milliseconds of a monotonic clock */
export const createViolations = (log: Pick<Log, 'warn'>, now: () => number = () => performance.now()) => {
  let count = 0
  let told = 0
  let quietUntil = Number.NEGATIVE_INFINITY
  return {
    /** A connection was closed for this reason. */
    note(reason: string, peer: string | undefined): void {
      count++
      if (now() < quietUntil) return
      quietUntil = now() + QUIET_MS
      log.warn(
        { fault: reason, peer, connections: count - told },
        'closed connections of a peer in TRUST_PROXY that did not begin with a valid PROXY header'
      )
      told = count
    },
    get count() {
      return count
    }
  }
}
