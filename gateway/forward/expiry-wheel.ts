// Finds expired items without scanning the others: one slot per second holds what expires in it.

interface Expiring {
  /** Milliseconds since the epoch; infinite: never. */
  readonly endsAt: number
}

const secondOf = (ms: number): number => Math.floor(ms / 1000)

export const createExpiryWheel = <T extends Expiring>(startMs: number, onExpired: (entry: T, atMs: number) => void) => {
  const slots = new Map<number, Set<T>>()
  let turned = secondOf(startMs)
  return {
    add(entry: T): void {
      if (entry.endsAt === Number.POSITIVE_INFINITY) return
      const second = secondOf(entry.endsAt)
      slots.set(second, (slots.get(second) ?? new Set()).add(entry))
    },
    remove(entry: T): void {
      const second = secondOf(entry.endsAt)
      const slot = slots.get(second)
      slot?.delete(entry)
      if (slot?.size === 0) slots.delete(second)
    },
    /** Reports what has expired by this time; the caller removes it. */
    turnTo(atMs: number): void {
      const now = secondOf(atMs)
      for (; turned <= now; turned++) {
        for (const entry of [...(slots.get(turned) ?? [])])
          if (turned < now || entry.endsAt <= atMs) onExpired(entry, atMs)
        // The current second is checked until it is over.
        if (turned === now) break
      }
    }
  }
}
