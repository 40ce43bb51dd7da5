// Shifts the clocks of this process against the machine's, with all that a gateway reads of them.
import type { Test } from 'tap'

export type Clocks = ReturnType<typeof shiftClocks>

/** To be called before what is tested captures `Date.now`. Timers keep to the machine's clock. */
export const shiftClocks = (t: Pick<Test, 'teardown'>) => {
  const RealDate = Date
  const realNow = performance.now.bind(performance)
  let stoppedAt: number | undefined
  const clocks = {
    /** How far the wall clock is ahead; below 0: behind. */
    wallMs: 0,
    /** How far the monotonic clock is ahead. */
    monotonicMs: 0,
    /** The monotonic clock stands still until the function that this returns is called. */
    stopMonotonic(): () => void {
      const since = realNow()
      stoppedAt = since
      return () => {
        stoppedAt = undefined
        clocks.monotonicMs -= realNow() - since
      }
    }
  }
  class ShiftedDate extends RealDate {
    constructor(...given: [] | [number]) {
      super(...((given.length === 0 ? [ShiftedDate.now()] : given) as [number]))
    }

    static override now = () => RealDate.now() + clocks.wallMs
  }
  globalThis.Date = ShiftedDate as DateConstructor
  performance.now = () => (stoppedAt ?? realNow()) + clocks.monotonicMs
  t.teardown(() => {
    globalThis.Date = RealDate
    performance.now = realNow
  })
  return clocks
}
