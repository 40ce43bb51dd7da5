// Time and work of this process alone: what else the machine does does not count.
import { until } from './until.ts'

const TICK_MS = 10

/** Milliseconds of CPU, of the kernel's included, from now until the function that it returns is called. */
export const measureWork = (): (() => number) => {
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return Math.round((user + system) / 1000)
  }
}

let ticks = 0
let isTicking = false

/**
 * Milliseconds that this process has waited or worked, from now until the function that it returns is called. A turn of
 * the event loop counts as one tick, however long a busy machine kept this process from it.
 */
export const measureOwnTime = (): (() => number) => {
  if (!isTicking) setInterval(() => ticks++, TICK_MS).unref()
  isTicking = true
  const before = ticks
  const workMs = measureWork()
  return () => Math.max((ticks - before) * TICK_MS, workMs())
}

/** How long it takes until something holds, in this process's own time. */
export const ownTimeUntil = async (...[holds, what]: Parameters<typeof until>): Promise<number> => {
  const ownTimeMs = measureOwnTime()
  await until(holds, what)
  return ownTimeMs()
}
