// Limits the time of an exchange with the directory; time spent waiting for anything else does not count.
import { DirectoryFailure } from './failure.ts'

export type Deadline = ReturnType<typeof startDeadline>

export const startDeadline = (timeoutMs: number) => {
  const controller = new AbortController()
  const { signal } = controller
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => {})
  signal.addEventListener('abort', () => ended.reject(signal.reason), { once: true })
  let leftMs = timeoutMs
  let runningSince = performance.now()
  let timer: NodeJS.Timeout | undefined

  const stop = () => {
    clearTimeout(timer)
    timer = undefined
  }
  const giveUp = () =>
    controller.abort(new DirectoryFailure('directory-timeout', `not completed within ${timeoutMs} ms`))
  const resume = () => {
    stop()
    if (signal.aborted) return
    runningSince = performance.now()
    // After a stall, the response may already be waiting to be read.
    const mine = setTimeout(() => setImmediate(() => timer === mine && giveUp()), leftMs)
    timer = mine
  }
  resume()
  return {
    /** Aborts when the time is up, or at the end. */
    signal,
    /** The result of `work`, unless the time is up first. */
    within: <T>(work: Promise<T>): Promise<T> => Promise.race([work, ended.promise]),
    /** Stops the clock until `resume`. */
    pause: () => {
      stop()
      leftMs = Math.max(0, leftMs - (performance.now() - runningSince))
    },
    resume,
    end: () => {
      stop()
      controller.abort()
    }
  }
}
