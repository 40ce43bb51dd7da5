// Waits until a condition holds, or ends the test with what never happened.
import { setTimeout as delay } from 'node:timers/promises'

/** A pause is a fiftieth of the time waited so far: what waits for seconds would take a core from others. */
const [SHORTEST_MS, LONGEST_MS, PART] = [5, 25, 50]
/** Long enough for a machine that does ten other things; a condition that holds is noticed at once. */
const LIMIT_MS = 120_000

/** Asks again, after a few milliseconds each, until the answer is yes; resolves to how long that took, in milliseconds. */
export const until = async (
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string) = 'the condition holds',
  limitMs = LIMIT_MS
): Promise<number> => {
  const start = performance.now()
  while (!(await holds())) {
    const waitedMs = performance.now() - start
    if (waitedMs > limitMs) throw new Error(`not within ${limitMs} ms: ${typeof what === 'string' ? what : what()}`)
    await delay(Math.min(Math.max(SHORTEST_MS, waitedMs / PART), LONGEST_MS))
  }
  return performance.now() - start
}

/** Whether the work ends without an error. */
export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false
  )
