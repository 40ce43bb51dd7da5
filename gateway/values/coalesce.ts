// Runs a task at most once at a time and at most once more after that, however often it is requested.
import { setTimeout as delay } from 'node:timers/promises'

interface Coalesced<T> {
  /**
   * Settles with a run that begins after this call.
   * @param isAsked somebody wants to know: told to the run if one of the calls that it answers says so
   */
  (isAsked?: boolean): Promise<T>
  /** Resolves when no run is in progress or pending. */
  idle(): Promise<void>
}

/** @param togetherMs how long a run waits for further calls before it begins */
export const coalesce = <T>(run: (isAsked: boolean) => Promise<T>, togetherMs = 0): Coalesced<T> => {
  let last: Promise<unknown> = Promise.resolve()
  let waiting: Promise<T> | undefined
  let isAskedFor = false

  const next = async (): Promise<T> => {
    if (togetherMs > 0) await delay(togetherMs)
    waiting = undefined
    const isAsked = isAskedFor
    isAskedFor = false
    return run(isAsked)
  }

  const ask = (isAsked = false): Promise<T> => {
    isAskedFor ||= isAsked
    if (waiting !== undefined) return waiting
    waiting = last.then(next)
    last = waiting.catch(() => undefined)
    return waiting
  }

  const idle = async (): Promise<void> => {
    await last
  }
  return Object.assign(ask, { idle })
}
