// Runs a task at most once at a time and at most once more after that, however often it is requested.

interface Coalesced<T> {
  /**
   * Settles with a run that begins after this call.
   * @param isAsked somebody wants to know: told to the run if one of the calls that it answers says so
   */
  (isAsked?: boolean): Promise<T>
  /** Resolves when no run is in progress or pending. */
  idle(): Promise<void>
}

export const coalesce = <T>(run: (isAsked: boolean) => Promise<T>): Coalesced<T> => {
  let last: Promise<unknown> = Promise.resolve()
  let waiting: Promise<T> | undefined
  let isAskedFor = false

  const next = async (): Promise<T> => {
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
