// Replaces a worker that ends, with increasing delays if workers keep ending, and gives up after too many failed starts.

interface WorkerEnd {
  readonly wasReady: boolean
  readonly livedMs: number
  /** Other workers that accept requests. */
  readonly othersReady: number
}

const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 10_000
/** A worker that has served for this long did not end because of its start. */
const STEADY_MS = 10_000
const MAX_VAIN_STARTS = 6

export const createRestarts = () => {
  let quickEnds = 0
  let vainStarts = 0
  let count = 0
  return {
    /** Delay before the next start; undefined: give up. */
    next({ wasReady, livedMs, othersReady }: WorkerEnd): number | undefined {
      count++
      vainStarts = wasReady ? 0 : vainStarts + 1
      // While others serve, ending them too would gain nothing.
      if (vainStarts >= MAX_VAIN_STARTS && othersReady === 0) return undefined
      quickEnds = wasReady && livedMs >= STEADY_MS ? 0 : quickEnds + 1
      return quickEnds <= 1 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (quickEnds - 1), MAX_DELAY_MS)
    },
    get count() {
      return count
    }
  }
}
