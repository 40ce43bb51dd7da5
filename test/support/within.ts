// Says whether something happens in time, in time that this process has had.
import { setTimeout as delay } from 'node:timers/promises'

const TICK_MS = 10

/** A turn of the event loop counts as one tick, however long the machine kept this process waiting for it. */
export const within = async (event: Promise<unknown>, limitMs: number): Promise<boolean> => {
  let hasHappened = false
  const happening = event.then(() => {
    hasHappened = true
  })
  for (let ticks = limitMs / TICK_MS; ticks > 0 && !hasHappened; ticks--)
    await Promise.race([happening, delay(TICK_MS)])
  return hasHappened
}
