// Measures time and work of this process alone: what else the machine does does not count.
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises'
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

/** The part of the work, in this thread's CPU time, that the longest turn of the event loop takes: 1 if there is no other. */
export const longestTurn = async (work: () => Promise<unknown>): Promise<number> => {
  const threadMs = () => process.threadCpuUsage().user / 1000
  const beganMs = threadMs()
  let [longestMs, lastMs, isDone] = [0, beganMs, false]
  const working = work().finally(() => {
    isDone = true
  })
  while (!isDone) {
    await turn()
    const nowMs = threadMs()
    longestMs = Math.max(longestMs, nowMs - lastMs)
    lastMs = nowMs
  }
  await working
  return longestMs / (lastMs - beganMs)
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

/** Whether something happens in time; a turn of the event loop counts as one tick here too. */
export const within = async (event: Promise<unknown>, limitMs: number): Promise<boolean> => {
  let hasHappened = false
  const happening = event.then(() => {
    hasHappened = true
  })
  for (let ticks = limitMs / TICK_MS; ticks > 0 && !hasHappened; ticks--)
    await Promise.race([happening, delay(TICK_MS)])
  return hasHappened
}
