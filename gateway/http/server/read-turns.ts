// Limits the time that bulky reads take in one turn of the event loop: the rest waits for later turns, in order.

/** Time limit in a turn in which no connection was accepted; milliseconds. */
const TURN_MS = 3
/** libuv accepts one connection per turn: while connections arrive, bulky reads pause this many times as long as they took. */
const REST = 4

export interface ReadTurns {
  /** Whether a bulky read may be taken at once; otherwise it has to wait. */
  mayTake(): boolean
  /** Queues a read behind those that already wait, for the next turn at the earliest. */
  wait(take: () => void): void
  /** A connection was accepted in this turn. */
  noteArrival(): void
}

/** @param now milliseconds of a monotonic clock */
export const createReadTurns = (now: () => number = () => performance.now()): ReadTurns => {
  let waiting: (() => void)[] = []
  let hasArrival = false
  let isBegun = false
  /** When this turn's time for bulky reads is over. */
  let until = 0
  let restUntil = 0

  const begin = () => {
    if (isBegun) return
    isBegun = true
    until = now() + TURN_MS
    setImmediate(end)
  }

  const end = () => {
    isBegun = false
    const at = now()
    const rests = hasArrival && at < restUntil
    const isShort = hasArrival
    hasArrival = false
    if (waiting.length === 0) return
    if (rests) return begin()
    let done = 0
    try {
      do waiting[done++]?.()
      while (done < waiting.length && !isShort && now() < at + TURN_MS)
    } finally {
      const taken = now()
      restUntil = taken + REST * (taken - at)
      waiting = waiting.slice(done)
      if (waiting.length > 0) begin()
    }
  }

  return {
    mayTake() {
      begin()
      return waiting.length === 0 && now() < until
    },
    wait(take) {
      begin()
      waiting.push(take)
    },
    noteArrival() {
      hasArrival = true
    }
  }
}
