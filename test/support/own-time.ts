// Time and work of this process alone: what else the machine does does not count.

const TICK_MS = 10

/** Milliseconds of CPU, of the kernel's included, from now until the function that it returns is called. */
export const measureWork = (): (() => number) => {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return Math.round((user + system) / 1000)
  }
}

/**
 * Milliseconds that this process has waited or worked, from now until the function that it returns is called. A turn of
 * the event loop counts as one tick, however long a busy machine kept this process from it.
 */
export const measureOwnTime = (): (() => number) => {
  let ticks = 0
  setInterval(() => ticks++, TICK_MS).unref()
  const workMs = measureWork()
  return () => Math.max(ticks * TICK_MS, workMs())
}
