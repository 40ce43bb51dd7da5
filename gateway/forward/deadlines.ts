// Finds items whose deadline has passed by what the clock says now, whichever way it was set in the meantime.

/** Items of one second are kept together, so that seconds are compared and not all items. */
export const createDeadlines = <T>(deadlineOf: (item: T) => number) => {
  const seconds = new Map<number, Set<T>>()
  const secondOf = (item: T): number => Math.floor(deadlineOf(item) / 1000)

  const remove = (item: T): void => {
    const second = secondOf(item)
    const items = seconds.get(second)
    items?.delete(item)
    if (items?.size === 0) seconds.delete(second)
  }

  return {
    /** An infinite deadline never passes. */
    add(item: T): void {
      const second = secondOf(item)
      if (second !== Number.POSITIVE_INFINITY) seconds.set(second, (seconds.get(second) ?? new Set()).add(item))
    },
    remove,
    /** Removes and returns those whose deadline has passed. */
    takePassed(atMs: number): T[] {
      const passed: T[] = []
      for (const [second, items] of seconds) {
        if (second * 1000 > atMs) continue
        for (const item of items) if (deadlineOf(item) <= atMs) passed.push(item)
      }
      for (const item of passed) remove(item)
      return passed
    }
  }
}
