// Waits until a condition holds, or ends the test with what never happened.
import { setTimeout as delay } from 'node:timers/promises'

const PAUSE_MS = 5
/** Long enough for a machine that does ten other things; a condition that holds is noticed at once. */
const LIMIT_MS = 120_000

/** Asks again, every few milliseconds, until the answer is yes; resolves to how long that took, in milliseconds. */
export const until = async (
  holds: () => boolean | Promise<boolean>,
  what: string | (() => string) = 'the condition holds',
  limitMs = LIMIT_MS
): Promise<number> => {
  const start = performance.now()
  while (!(await holds())) {
    if (performance.now() - start > limitMs)
      throw new Error(`not within ${limitMs} ms: ${typeof what === 'string' ? what : what()}`)
    await delay(PAUSE_MS)
  }
  return performance.now() - start
}

/** Whether the work ends without an error. */
export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false
  )
