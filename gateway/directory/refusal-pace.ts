// Estimates how long the directory takes to refuse a wrong password, so that an unknown name takes as long.

/** After this time without a slower refusal, the estimate halves. */
const HALF_LIFE_MS = 10 * 60_000

/** @param clock monotonic ms */
export const createRefusalPace = (clock = () => performance.now()) => {
  let estimate = { ms: 0, at: clock() }
  const refusalMs = (): number => estimate.ms * 0.5 ** ((clock() - estimate.at) / HALF_LIFE_MS)
  return {
    /** 0 if nothing was refused lately. */
    refusalMs,
    note: (tookMs: number): void => {
      const current = refusalMs()
      // Only time lowers it, so that fast refusals of names that do not exist cannot. One stall counts for half.
      if (tookMs > current) estimate = { ms: current === 0 ? tookMs : (current + tookMs) / 2, at: clock() }
    }
  }
}
