// Checks whether the figures of a soak are flat: at rest before it, and at rest after it.

export interface Sample {
  readonly rssMb: number
  readonly heapMb: number
  readonly handles: number
  readonly fds: number
}

/** Allocators and caches that fill up are no leak; a leak of an hour is far beyond this. */
const ALLOWED: Readonly<Record<keyof Sample, (before: number) => number>> = {
  rssMb: before => before * 1.25 + 20,
  heapMb: before => before * 1.15 + 5,
  handles: before => before + 8,
  fds: before => before + 8
}

/** What grew by more than may be; empty: flat. */
export const growthOf = (before: Sample, after: Sample): string[] =>
  (Object.keys(ALLOWED) as (keyof Sample)[])
    .filter(name => after[name] > ALLOWED[name](before[name]))
    .map(name => `${name} grew from ${before[name].toFixed(1)} to ${after[name].toFixed(1)}`)
