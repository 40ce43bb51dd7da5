// Spreads an action on many items over random moments, so that their clients do not all reconnect at once.
import { task } from '../values/contain.ts'

const TICK_MS = 50

/** Resolves when it has been done for all items. */
export const spreadOut = <T>(items: readonly T[], overMs: number, act: (item: T) => void): Promise<void> =>
  new Promise(resolve => {
    const startedAt = performance.now()
    const waiting = items.map(item => ({ item, atMs: Math.random() * overMs }))
    waiting.sort((a, b) => b.atMs - a.atMs)
    const step = () => {
      const passedMs = performance.now() - startedAt
      for (let next = waiting.at(-1); next !== undefined && next.atMs <= passedMs; next = waiting.at(-1)) {
        waiting.pop()
        task(act)(next.item)
      }
      if (waiting.length > 0) return
      clearInterval(timer)
      resolve()
    }
    const timer = setInterval(step, TICK_MS)
    step()
  })
