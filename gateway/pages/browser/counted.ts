// Counts events in time steps: one login counts as one, not as a share of a rate.

interface Timed {
  /** ISO 8601. */
  readonly at: string
}

interface Counted<P> {
  /** Start of each step, in ms since the epoch. */
  readonly at: readonly number[]
  readonly of: (value: (point: P) => number) => readonly number[]
}

/** Adds up `points`, one every `stepMs`, in steps of `widthMs`. A first step that began before the points is omitted. */
export const countedEvery = <P extends Timed>(points: readonly P[], stepMs: number, widthMs: number): Counted<P> => {
  const numberOf = ({ at }: P) => Math.floor(Date.parse(at) / widthMs)
  const [first] = points
  const isCutOff = first !== undefined && Date.parse(first.at) % widthMs >= stepMs
  const whole = isCutOff ? points.filter(point => numberOf(point) !== numberOf(first)) : points
  const steps = [...new Set(whole.map(numberOf))]
  return {
    at: steps.map(step => step * widthMs),
    of: value => {
      const sums = new Map(steps.map(step => [step, 0]))
      for (const point of whole) sums.set(numberOf(point), (sums.get(numberOf(point)) ?? 0) + value(point))
      return [...sums.values()]
    }
  }
}
