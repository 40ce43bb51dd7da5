// Waits for what may have come whenever there is news.

/** Not hurried by tests that hurry the timers of the gateway. */
const { setTimeout: inRealTime } = globalThis
/** Long enough for a machine that does ten other things. */
const LIMIT_MS = 120_000

export const createNews = () => {
  const watchers = new Set<() => void>()
  return {
    /** Everyone who waits looks again. */
    tell() {
      for (const look of [...watchers]) look()
    },
    /** Resolves to what `find` returns once that is something; rejects when it throws, or after `limitMs`. */
    until: <T>(find: () => T | undefined, what: () => string, limitMs = LIMIT_MS): Promise<T> => {
      const { promise, resolve, reject } = Promise.withResolvers<T>()
      const settle = (finish: () => void) => {
        clearTimeout(timer)
        watchers.delete(look)
        finish()
      }
      const look = () => {
        try {
          const found = find()
          if (found !== undefined) settle(() => resolve(found))
        } catch (error) {
          settle(() => reject(error))
        }
      }
      const timer = inRealTime(() => settle(() => reject(new Error(`waited too long for ${what()}`))), limitMs).unref()
      watchers.add(look)
      look()
      return promise
    }
  }
}
