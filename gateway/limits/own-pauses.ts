// Adds up how long this process was stalled, by busy cores or by a long turn of the event loop.

interface OwnPauses {
  /** Starts the ticks. */
  begin(now: number): void
  /** Records a tick; its delay counts as a pause. */
  tick(now: number): void
  /** Milliseconds of pauses so far, including a tick that is overdue. */
  total(now: number): number
}

/** @param periodMs between two ticks */
export const createOwnPauses = (periodMs: number): OwnPauses => {
  let tickedAt = 0
  let pausedMs = 0
  const lateBy = (now: number) => Math.max(0, now - tickedAt - periodMs)
  return {
    begin(now) {
      tickedAt = now
    },
    tick(now) {
      pausedMs += lateBy(now)
      tickedAt = now
    },
    total: now => pausedMs + lateBy(now)
  }
}
