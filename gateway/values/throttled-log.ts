// Logs a frequent event at most once a minute.

const QUIET_MS = 60_000

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
