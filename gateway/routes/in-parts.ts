// Long work is written in parts, and done at once or with turns of the event loop in between.
import { setImmediate } from 'node:timers/promises'

/** Work that may be interrupted wherever it yields. */
export type Parts<T> = Generator<undefined, T>

export const atOnce = <T>(work: Parts<T>): T => {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}

/** What waits, requests above all, comes between the parts. */
export const inTurns = async <T>(work: Parts<T>): Promise<T> => {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
    await setImmediate()
  }
}

/** Even before V8 has compiled anything, so many routes or segments take few milliseconds. */
const PART = 500

/** The same items, a part ended after each 500 of them. */
export function* inParts<T>(items: Iterable<T>, each: (item: T) => void): Parts<void> {
  let count = 0
  for (const item of items) {
    each(item)
    if (++count % PART === 0) yield
  }
}
