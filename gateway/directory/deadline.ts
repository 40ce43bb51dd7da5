// Limits the time of an exchange with the directory; time spent waiting for anything else does not count.
import { DirectoryFailure } from './failure.ts'

export interface Deadline {
  /** Aborts when the time is up, or at the end. */
  readonly signal: AbortSignal
  /** The result of `work`, unless the time is up first. */
  within<T>(work: Promise<T>): Promise<T>
  /** Pauses the clock until `resume`. */
  pause(): void
  resume(): void
  end(): void
}

export const startDeadline = (timeoutMs: number): Deadline => {
  const controller = new AbortController()
  const { signal } = controller
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => {})
  signal.addEventListener('abort', () => ended.reject(signal.reason), { once: true })
  let leftMs = timeoutMs
  let runningSince = performance.now()
  let timer: NodeJS.Timeout | undefined

  const resume = () => {
    clearTimeout(timer)
    runningSince = performance.now()
    timer = setTimeout(
      () => controller.abort(new DirectoryFailure('directory-timeout', `not completed within ${timeoutMs} ms`)),
      leftMs
    )
  }
  resume()
  return {
    signal,
    within: work => Promise.race([work, ended.promise]),
    pause: () => {
      clearTimeout(timer)
      leftMs = Math.max(0, leftMs - (performance.now() - runningSince))
    },
    resume,
    end: () => {
      clearTimeout(timer)
      controller.abort()
    }
  }
}
