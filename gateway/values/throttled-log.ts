// Logs a frequent event at most once a minute.
import { boundedMap } from './bounded-map.ts'

const QUIET_MS = 60_000
const MAX_TOPICS = 10_000

/**
 * @param say gets the number of times since it was last said
 * @param now milliseconds of a monotonic clock
 */
export const seldom = <Details extends unknown[]>(
  say: (count: number, ...details: Details) => void,
  now: () => number = () => performance.now()
): ((...details: Details) => void) => {
  let loggedAt = Number.NEGATIVE_INFINITY
  let count = 0
  return (...details) => {
    count++
    if (now() - loggedAt < QUIET_MS) return
    loggedAt = now()
    say(count, ...details)
    count = 0
  }
}

/** Whether a topic of many is due to be reported; calling this counts as reporting. */
export const createReports = (): ((topic: string) => boolean) => {
  const reported = boundedMap<string, number>(MAX_TOPICS)
  return topic => {
    const at = reported.get(topic)
    if (at !== undefined && performance.now() - at < QUIET_MS) return false
    reported.set(topic, performance.now())
    return true
  }
}
