// Lets connections process a little of what they have buffered in each turn of the event loop, so that new ones are accepted.

/** Time limit in a turn in which no connection was accepted; milliseconds. */
const TURN_MS = 1
/** In a turn in which one was, a single request: libuv accepts one connection per turn, and others may be waiting. */
const ARRIVAL_TURN_MS = 0

interface Waiting {
  goOn(): void
}

interface ConnectionTurns {
  /** Queues a connection behind those that already wait, for the next turn at the earliest. */
  add(connection: Waiting): void
  /** A connection was accepted in this turn. */
  noteArrival(): void
}

/**
 * Each connection reads one request when its turn comes, so a client that pipelines thousands waits behind all others.
 *
 * @param now milliseconds of a monotonic clock
 */
export const createConnectionTurns = (now: () => number = () => performance.now()): ConnectionTurns => {
  let waiting: Waiting[] = []
  let hasArrival = false

  const goOn = () => {
    const until = now() + (hasArrival ? ARRIVAL_TURN_MS : TURN_MS)
    hasArrival = false
    // Whatever is added meanwhile waits for the next turn.
    const count = waiting.length
    let done = 0
    try {
      do waiting[done++]?.goOn()
      while (done < count && now() < until)
    } finally {
      waiting = waiting.slice(done)
      if (waiting.length > 0) setImmediate(goOn)
    }
  }

  return {
    add(connection) {
      if (waiting.length === 0) setImmediate(goOn)
      waiting.push(connection)
    },
    noteArrival() {
      hasArrival = true
    }
  }
}
