// Counts what waits in memory until slow clients and backends have sent or taken the rest: a process has room for so much of all.

/** Beyond this, nothing but what is small may grow. */
export const MOST_HELD_BYTES = 256 * 1024 * 1024
const SMALL_BYTES = 64 * 1024

let held = 0

/** What all holders have together, in this process. */
export const heldBytes = (): number => held

/** What a holder has changes by so much. */
export const countHeld = (bytes: number): void => {
  held += bytes
}

/** Whether a holder may not have this much, because all others together have too much. @param counted what is counted of it */
export const isTooMuch = (bytes: number, counted = bytes): boolean =>
  bytes > SMALL_BYTES && held - counted > MOST_HELD_BYTES

export type Holding = ReturnType<typeof createHolding>

/** What one holder has. */
export const createHolding = () => {
  let isClosed = false
  const holding = {
    bytes: 0,
    set(bytes: number) {
      if (isClosed) return
      countHeld(bytes - holding.bytes)
      holding.bytes = bytes
    },
    /** It has nothing any more, whatever comes later. */
    close() {
      holding.set(0)
      isClosed = true
    }
  }
  return holding
}
