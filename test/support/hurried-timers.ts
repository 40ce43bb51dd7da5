// Hurries the timers of this process: those set for long run a hundred times as fast.
import type { Test } from 'tap'

const LONG_MS = 20_000
const FACTOR = 100

const hurried = (ms: number | undefined): number | undefined => (ms !== undefined && ms >= LONG_MS ? ms / FACTOR : ms)

/** To be called before what is tested sets its timers. */
export const hurryTimers = (t: Pick<Test, 'teardown'>): void => {
  const { setTimeout: once, setInterval: again } = globalThis
  globalThis.setTimeout = ((work: () => void, ms?: number, ...more: []) =>
    once(work, hurried(ms), ...more)) as typeof once
  globalThis.setInterval = ((work: () => void, ms?: number, ...more: []) =>
    again(work, hurried(ms), ...more)) as typeof again
  t.teardown(() => {
    globalThis.setTimeout = once
    globalThis.setInterval = again
  })
}
