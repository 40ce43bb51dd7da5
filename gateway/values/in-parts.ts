// Runs long work in parts, so that other work can run in between.
import { setImmediate } from 'node:timers/promises'

/** Work that may be interrupted at each yield. */
export type Parts<T> = Generator<undefined, T>

/** How long one part may delay other work, in milliseconds. */
const TURN_MS = 4

/** Does the work with turns of the event loop in between. */
export const inTurns = async <T>(work: Parts<T>): Promise<T> => {
  let began = performance.now()
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
    if (performance.now() - began < TURN_MS) continue
    await setImmediate()
    began = performance.now()
  }
}

/** Even before V8 has compiled anything, this many routes or segments take less than a millisecond. */
const PART = 64

/** Does the same for each item, and ends a part after some of them. */
export function* inParts<T>(items: Iterable<T>, each: (item: T) => void): Parts<void> {
  let count = 0
  for (const item of items) {
    each(item)
    if (++count % PART === 0) yield
  }
}

/** Does the work without interruption. */
export const atOnce = <T>(work: Parts<T>): T => {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}
