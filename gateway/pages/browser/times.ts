// Turns days of the reader's calendar into times and back, in the format of a date field, and counts events in time steps.

export const dayOf = (date: Date): string => date.toLocaleDateString('sv')

/** A day of the year 9999 ends in it, since RFC 3339 has no later one (§1). */
export const endOfDay = (day: unknown): string => {
  const end = new Date(`${day}T23:59:59`)
  return end.getUTCFullYear() > 9999 ? '9999-12-31T23:59:59.000Z' : end.toISOString()
}

/** The selected days, complete; the last one of the year 9999 is followed by none. */
export const periodOf = (from: string, to: string): { since: string; until: string } => {
  const start = new Date(`${from}T00:00:00`)
  const end = new Date(`${to}T00:00:00`)
  end.setDate(end.getDate() + 1)
  const iso = (date: Date) => (date.getUTCFullYear() <= 9999 ? date.toISOString() : '')
  return { since: iso(start), until: iso(end) }
}

/**
 * Adds up `points`, one every `stepMs`, in steps of `widthMs`, whose starts are `at`, in ms since the epoch: one login counts as one,
 * not as a share of a rate. A first step that began before the points is omitted.
 */
export const countedEvery = <P extends { readonly at: string }>(
  points: readonly P[],
  stepMs: number,
  widthMs: number
) => {
  const numberOf = ({ at }: P) => Math.floor(Date.parse(at) / widthMs)
  const [first] = points
  const isCutOff = first !== undefined && Date.parse(first.at) % widthMs >= stepMs
  const whole = isCutOff ? points.filter(point => numberOf(point) !== numberOf(first)) : points
  const steps = [...new Set(whole.map(numberOf))]
  return {
    at: steps.map(step => step * widthMs),
    of: (value: (point: P) => number): number[] => {
      const sums = new Map(steps.map(step => [step, 0]))
      for (const point of whole) sums.set(numberOf(point), (sums.get(numberOf(point)) ?? 0) + value(point))
      return [...sums.values()]
    }
  }
}
