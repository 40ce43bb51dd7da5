// Counts connections closed because of their PROXY header, and logs them at most once a minute.
import type { Log } from '../values/log.ts'
import { seldom } from '../values/throttled-log.ts'

export type Violations = ReturnType<typeof createViolations>

export const createViolations = (log: Pick<Log, 'warn'>) => {
  let count = 0
  const say = seldom((connections, reason: string, peer: string | undefined) =>
    log.warn(
      { fault: reason, peer, connections },
      'closed connections of a peer in TRUST_PROXY that did not begin with a valid PROXY header'
    )
  )
  return {
    /** A connection was closed for this reason. */
    note(reason: string, peer: string | undefined): void {
      count++
      say(reason, peer)
    },
    get count() {
      return count
    }
  }
}
