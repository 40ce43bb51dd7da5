// Batches socket writes until the end of the event-loop turn, so that their reader is woken once.

export interface Waiting {
  flush(): void
}

const waiting: Waiting[] = []

const flushAll = () => {
  try {
    for (let i = 0; i < waiting.length; i++) waiting[i]?.flush()
  } finally {
    waiting.length = 0
  }
}

/** Flushes the socket before the event loop waits again. */
export const flushSoon = (one: Waiting): void => {
  if (waiting.length === 0) setImmediate(flushAll)
  waiting.push(one)
}
