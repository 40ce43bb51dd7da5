// Runs a task at most once at a time and at most once more after that, however often it is requested.

export const coalesce = <T>(run: (isAsked: boolean) => Promise<T>) => {
  let last: Promise<unknown> = Promise.resolve()
  let waiting: Promise<T> | undefined
  let isAskedFor = false

  const next = async (): Promise<T> => {
    waiting = undefined
    const isAsked = isAskedFor
    isAskedFor = false
    return run(isAsked)
  }

  /**
   * Settles with a run that begins after this call.
   * @param isAsked somebody wants to know: told to the run if one of the calls that it answers says so
   */
  const ask = (isAsked = false): Promise<T> => {
    isAskedFor ||= isAsked
    if (waiting !== undefined) return waiting
    waiting = last.then(next)
    last = waiting.catch(() => undefined)
    return waiting
  }

  return Object.assign(ask, {
    /** Resolves when no run is in progress or pending. */
    idle: async () => void (await last)
  })
}
