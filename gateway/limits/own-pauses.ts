// Adds up how long this process was stalled, by busy cores or by a long turn of its own.

interface OwnPauses {
  /** The ticks begin. */
  begin(now: number): void
  /** A tick; what it is late by was a pause. */
  tick(now: number): void
  /** Milliseconds of pauses so far, a tick that is overdue included. */
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
