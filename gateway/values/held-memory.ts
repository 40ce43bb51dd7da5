// Counts what waits in memory until slow clients and backends have sent or taken the rest: a process has room for so much of all.
import { boundedMap } from './bounded-map.ts'

/** Beyond this, nothing but what is small may grow. */
export const MOST_HELD_BYTES = 256 * 1024 * 1024
/** What one person may hold once half of that is in use, so that there is room for others. */
const SHARE_BYTES = MOST_HELD_BYTES / 10
/** There is always room for so much in one place. */
export const SMALL_BYTES = 64 * 1024

/** What a text in a list takes beside its characters. */
export const TEXT_BYTES = 32
/** All who have not proven who they are share what one person may hold. */
const UNPROVEN = 0

let held = 0
/** By person; without those who hold nothing. There are never more sessions in a process than half of the limit. */
const heldBy = boundedMap<number, number>(100_000)

/** What all holders have together, in this process. */
export const heldBytes = (): number => held

const countFor = (userId: number, more: number) => {
  const sum = (heldBy.get(userId) ?? 0) + more
  if (sum === 0) heldBy.delete(userId)
  else heldBy.set(userId, sum)
}

export type Holder = ReturnType<typeof createHolder>

/** Counts what one session has, in all its places. */
export const createHolder = () => {
  let bytes = 0
  const holder = {
    userId: UNPROVEN,
    /** What it has changes by so much. */
    count(more: number) {
      bytes += more
      held += more
      countFor(holder.userId, more)
    },
    /** From now on, and what it has so far, is part of what this person has. */
    belongsTo(userId: number) {
      countFor(holder.userId, -bytes)
      holder.userId = userId
      countFor(userId, bytes)
    },
    /** Whether it may not have this much in one place, because all others have too much. @param counted what is counted of it */
    isTooMuch(size: number, counted = size): boolean {
      const others = held - counted
      if (size <= SMALL_BYTES || others <= MOST_HELD_BYTES / 2) return false
      return others > MOST_HELD_BYTES || (heldBy.get(holder.userId) ?? 0) - counted > SHARE_BYTES
    }
  }
  return holder
}

export type Holding = ReturnType<typeof createHolding>

/** What a holder has in one place. */
export const createHolding = (holder: Holder) => {
  let isClosed = false
  const holding = {
    bytes: 0,
    set(bytes: number) {
      if (isClosed) return
      holder.count(bytes - holding.bytes)
      holding.bytes = bytes
    },
    isTooMuch: () => holder.isTooMuch(holding.bytes),
    /** There is nothing any more, whatever comes later. */
    close() {
      holding.set(0)
      isClosed = true
    }
  }
  return holding
}
