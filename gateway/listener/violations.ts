// Counts connections closed because of their PROXY header, and logs them at most once a minute.
import type { Log } from '../values/log.ts'

export interface Violations {
  /** A connection was closed for this reason. */
  note(reason: string, peer: string | undefined): void
  readonly count: number
}

const QUIET_MS = 60_000

/** @param now milliseconds of a monotonic clock */
export const createViolations = (log: Pick<Log, 'warn'>, now: () => number = () => performance.now()): Violations => {
  let count = 0
  let told = 0
  let quietUntil = Number.NEGATIVE_INFINITY
  return {
    note(reason, peer) {
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
