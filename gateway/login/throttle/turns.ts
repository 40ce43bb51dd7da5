// Lets a limited number of callers work at once for each key; the others wait in the order in which they came.

type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** @param refuse returns what is thrown at a caller who would be one too many to wait */
export const createTurns = (atOnce: number, mostWaiting: number, refuse: () => Error): Turns => {
  const lanes = new Map<string, { running: number; readonly waiting: (() => void)[] }>()
  return async (key, work) => {
    const lane = lanes.get(key) ?? { running: 0, waiting: [] }
    lanes.set(key, lane)
    if (lane.running < atOnce) lane.running += 1
    else if (lane.waiting.length >= mostWaiting) throw refuse()
    else await new Promise<void>(resolve => lane.waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = lane.waiting.shift()
      if (next !== undefined) next()
      else {
        lane.running -= 1
        if (lane.running === 0) lanes.delete(key)
      }
    }
  }
}
