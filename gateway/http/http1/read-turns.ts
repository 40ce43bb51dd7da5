// Limits the time that costly work takes in one turn of the event loop: the rest waits for later turns, in order.
import { type Contained, contain } from '../../values/contain.ts'

/** For what is taken at once in a turn, and again for what has waited; milliseconds. */
const TURN_MS = 2

interface Waiting extends Contained {
  goOn(): void
}

export type Turns = ReturnType<typeof createReadTurns>

/**
 * libuv accepts one connection per turn, and others may be waiting: in a turn with one, only the first that waits goes on.
 * @param now milliseconds of a monotonic clock
 */
export const createReadTurns = (now = () => performance.now()) => {
  const waiting: Waiting[] = []
  let hasArrival = false
  let isBegun = false
  /** When this turn's time is over. */
  let until = 0

  const begin = () => {
    if (isBegun) return
    isBegun = true
    until = now() + TURN_MS
    setImmediate(end)
  }

  const end = () => {
    const isShort = hasArrival
    hasArrival = false
    const stop = now() + TURN_MS
    // Whatever is added meanwhile waits for the next turn.
    let due = waiting.length
    let isFirst = true
    const goOn = () => {
      const work = due > 0 && (isFirst || (!isShort && now() < stop)) ? waiting.shift() : undefined
      if (work === undefined) {
        isBegun = false
        if (waiting.length > 0) begin()
        return
      }
      due--
      isFirst = false
      contain(work, one => one.goOn())
      // node:http2 hands over the requests of a read in later ticks, which take most of its time.
      process.nextTick(goOn)
    }
    goOn()
  }

  return {
    /** Whether there is time for more in this turn; otherwise it has to wait. */
    mayTake(): boolean {
      begin()
      return waiting.length === 0 && now() < until
    },
    /** Queues work behind all that already waits, for the next turn at the earliest. */
    add(work: Waiting): void {
      begin()
      waiting.push(work)
    },
    /** A connection was accepted in this turn. */
    noteArrival(): void {
      hasArrival = true
    }
  }
}
