// Limits the time that costly work takes in one turn of the event loop: the rest waits for later turns, in order.
import { type Contained, contain } from '../../values/contain.ts'

interface TurnLimits {
  /** Time limit in a turn in which no connection was accepted; milliseconds. */
  readonly turnMs: number
  /** How many times as long as a turn's work took it then pauses while connections arrive. */
  readonly rest: number
}

const CONNECTIONS: TurnLimits = { turnMs: 1, rest: 0 }
const READS: TurnLimits = { turnMs: 3, rest: 4 }

interface Waiting extends Contained {
  goOn(): void
}

export interface Turns {
  /** Whether there is time for more in this turn; otherwise it has to wait. */
  mayTake(): boolean
  /** Queues work behind all that already waits, for the next turn at the earliest. */
  add(work: Waiting): void
  /** A connection was accepted in this turn. */
  noteArrival(): void
}

/**
 * libuv accepts one connection per turn, and others may be waiting: in a turn in which one was accepted, only the first that
 * waits goes on.
 *
 * @param now milliseconds of a monotonic clock
 */
const createTurns = ({ turnMs, rest }: TurnLimits, now = () => performance.now()): Turns => {
  let waiting: Waiting[] = []
  let hasArrival = false
  let isBegun = false
  /** When this turn's time is over. */
  let until = 0
  let restUntil = 0

  const begin = () => {
    if (isBegun) return
    isBegun = true
    until = now() + turnMs
    setImmediate(end)
  }

  const end = () => {
    isBegun = false
    const at = now()
    const isShort = hasArrival
    hasArrival = false
    // Whatever is added meanwhile waits for the next turn.
    const count = waiting.length
    if (count === 0) return
    if (isShort && at < restUntil) return begin()
    let done = 0
    do {
      const work = waiting[done++]
      if (work !== undefined) contain(work, goOn)
    } while (done < count && !isShort && now() < at + turnMs)
    const taken = now()
    restUntil = taken + rest * (taken - at)
    waiting = waiting.slice(done)
    if (waiting.length > 0) begin()
  }

  return {
    mayTake() {
      begin()
      return waiting.length === 0 && now() < until
    },
    add(work) {
      begin()
      waiting.push(work)
    },
    noteArrival() {
      hasArrival = true
    }
  }
}

const goOn = (work: Waiting) => work.goOn()

/** Each connection reads one request when its turn comes, so a client that pipelines thousands waits behind all others. */
export const createConnectionTurns = (now?: () => number): Turns => createTurns(CONNECTIONS, now)

/** Bulky reads, e.g. of thousands of tiny frames. */
export const createReadTurns = (now?: () => number): Turns => createTurns(READS, now)
