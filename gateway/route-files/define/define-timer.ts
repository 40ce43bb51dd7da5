// Reads a duration for a timer, or complains that no timer can wait that long.
import { MAX_TIMER_MS, parseDuration } from '../../values/quantities.ts'
import type { Complain } from '../complaint.ts'

/** Milliseconds. @param path of the key, from its entry */
export const defineTimer = (written: string | number, say: Complain, ...path: string[]): number => {
  const milliseconds = parseDuration(written)
  if (milliseconds > MAX_TIMER_MS) say(`"${path.at(-1)}" must be at most 24d`, ...path)
  return milliseconds
}
