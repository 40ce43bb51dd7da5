// Repeats a measured round in which the machine kept this process waiting: it would show the machine, not what is measured.
const TICK_MS = 5

/** From now on: the longest by which a turn of the event loop came late, in milliseconds; asked once, at the end. */
export const watchLateness = () => {
  let latestMs = 0
  let tickedAt = performance.now()
  const tick = () => {
    const now = performance.now()
    latestMs = Math.max(latestMs, now - tickedAt - TICK_MS)
    tickedAt = now
  }
  const timer = setInterval(tick, TICK_MS).unref()
  return () => {
    tick()
    clearInterval(timer)
    return latestMs
  }
}

/**
 * The result of the first round in which no turn of the event loop came later than `lateMs`. The last attempt counts in
 * any case: a gateway that blocks the event loop in each round does not get away with it.
 *
 * @param round its attempts begin with 0; each needs keys, addresses or people of its own. What it does before it calls
 *   `begin`, if it does, may be disturbed. Undefined: something else was disturbed, so that there is nothing to check.
 */
export const undisturbed = async <T>(
  lateMs: number,
  round: (attempt: number, begin: () => void) => Promise<T | undefined>,
  attempts = 30
): Promise<T> => {
  for (let attempt = 0; attempt < attempts; attempt++) {
    let lateness = watchLateness()
    const begin = () => {
      lateness()
      lateness = watchLateness()
    }
    const result = await round(attempt, begin).then(
      value => ({ value }),
      (error: unknown) => ({ error })
    )
    if (lateness() > lateMs && attempt + 1 < attempts) continue
    if ('error' in result) throw result.error
    if (result.value !== undefined) return result.value
  }
  throw new Error(`each of ${attempts} rounds was disturbed`)
}
