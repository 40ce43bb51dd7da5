// Batches socket writes until the end of the event-loop turn, so that their reader is woken once.
import { type Contained, contain } from '../values/contain.ts'

export interface Waiting extends Contained {
  flush(): void
}

const waiting: Waiting[] = []

const flushAll = () => {
  for (let i = 0; i < waiting.length; i++) {
    const one = waiting[i]
    if (one !== undefined) contain(one, due => due.flush())
  }
  waiting.length = 0
}

/** Flushes the socket before the event loop waits again. */
export const flushSoon = (one: Waiting): void => {
  if (waiting.length === 0) setImmediate(flushAll)
  waiting.push(one)
}
