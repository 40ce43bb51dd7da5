// Numbers of several rounds as median, least and most.

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

export const spread = (values: readonly number[]): Spread => ({
  median: median(values),
  min: Math.min(...values),
  max: Math.max(...values)
})

/** Value below which `share` of the sorted values lie (nearest rank). */
export const percentile = (sorted: ArrayLike<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN

/** Pairs what was measured in the same round, so that drift of the machine cancels out. */
export const perRound = (
  above: readonly number[],
  below: readonly number[],
  combine: (a: number, b: number) => number = (a, b) => a / b
): Spread => spread(above.slice(0, below.length).map((value, round) => combine(value, below[round] ?? Number.NaN)))
