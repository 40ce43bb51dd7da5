// Lets a limited number of callers work at once for each key; the others wait in the order in which they came.

type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>

/**
 * @param refuse returns what is thrown at a caller who would be one too many to wait, or has waited for `waitMs`
 */
export const createTurns = (atOnce: number, mostWaiting: number, refuse: () => Error, waitMs?: number): Turns => {
  const lanes = new Map<string, { running: number; readonly waiting: Set<() => void> }>()

  const turn = (waiting: Set<() => void>): Promise<void> =>
    new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer)
        waiting.delete(start)
        settle()
      }
      const start = () => end(resolve)
      const timer = waitMs === undefined ? undefined : setTimeout(end, waitMs, () => reject(refuse()))
      waiting.add(start)
    })

  return async (key, work) => {
    const lane = lanes.get(key) ?? { running: 0, waiting: new Set() }
    lanes.set(key, lane)
    if (lane.running < atOnce) lane.running += 1
    else if (lane.waiting.size >= mostWaiting) throw refuse()
    else await turn(lane.waiting)
    try {
      return await work()
    } finally {
      // Finished work hands its place over, so that new work does not overtake waiting work.
      const [next] = lane.waiting
      if (next !== undefined) next()
      else {
        lane.running -= 1
        if (lane.running === 0) lanes.delete(key)
      }
    }
  }
}
