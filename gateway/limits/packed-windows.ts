// Packs windows that have not been used recently into 40 bytes each, keyed by a hash, in a ring that drops the oldest.
import { randomBytes } from 'node:crypto'
import { createKeyHash } from './key-hash.ts'
import type { PermitWindow } from './leases.ts'

interface PackedWindows {
  /** Stores a window without a lease; at the limit, the oldest stored one is dropped. */
  put(seed: number, key: string, window: PermitWindow): void
  /** Moves a stored window into `window`; false if there is none. */
  takeOut(seed: number, key: string, window: PermitWindow): boolean
  /** Drops windows that have ended, some of them at each call. */
  sweep(now: number): void
  size(): number
}

const SWEPT_AT_ONCE = 2 ** 16

/** @param capacity maximum number of windows; memory is allocated with the first one */
export const createPackedWindows = (capacity: number): PackedWindows => {
  let slots: Slots | undefined
  let count = 0
  let next = 0
  let swept = 0

  const forget = (at: Slots, position: number) => {
    at.ends[(at.index[position] ?? 0) - 1] = 0
    unindex(at, position)
    count--
  }

  return {
    put(seed, key, window) {
      if (window.end === 0 || capacity === 0) return
      slots ??= createSlots(capacity)
      if (slots.ends[next] !== 0) forget(slots, find(slots, slots.low[next] ?? 0, slots.high[next] ?? 0))
      const [low, high] = hashOf(seed, key)
      slots.low[next] = low
      slots.high[next] = high
      slots.ends[next] = window.end
      slots.generations[next] = window.generation
      slots.spent[next] = window.spent
      slots.lent[next] = window.lent
      slots.others[next] = window.others
      slots.index[firstFree(slots, low)] = next + 1
      next = (next + 1) % capacity
      count++
    },
    takeOut(seed, key, window) {
      if (slots === undefined) return false
      const [low, high] = hashOf(seed, key)
      const position = find(slots, low, high)
      const slot = (slots.index[position] ?? 0) - 1
      if (slot < 0) return false
      window.end = slots.ends[slot] ?? 0
      window.generation = slots.generations[slot] ?? 0
      window.spent = slots.spent[slot] ?? 0
      window.lent = slots.lent[slot] ?? 0
      window.others = slots.others[slot] ?? 0
      forget(slots, position)
      return true
    },
    sweep(now) {
      if (slots === undefined || count === 0) return
      for (let step = Math.min(SWEPT_AT_ONCE, capacity); step > 0; step--) {
        const end = slots.ends[swept] ?? 0
        if (end !== 0 && end <= now) forget(slots, find(slots, slots.low[swept] ?? 0, slots.high[swept] ?? 0))
        swept = (swept + 1) % capacity
      }
    },
    size: () => count
  }
}

/** One column per field. A slot whose end is 0 is free. `index` is an open-addressed table of slot numbers plus one. */
interface Slots {
  readonly mask: number
  readonly index: Int32Array
  readonly low: Int32Array
  readonly high: Int32Array
  readonly ends: Float64Array
  readonly generations: Float64Array
  readonly spent: Int32Array
  readonly lent: Int32Array
  readonly others: Int32Array
}

const createSlots = (capacity: number): Slots => {
  const places = 2 ** Math.ceil(Math.log2(2 * capacity))
  return {
    mask: places - 1,
    index: new Int32Array(places),
    low: new Int32Array(capacity),
    high: new Int32Array(capacity),
    ends: new Float64Array(capacity),
    generations: new Float64Array(capacity),
    spent: new Int32Array(capacity),
    lent: new Int32Array(capacity),
    others: new Int32Array(capacity)
  }
}

/** The position at which the hash is indexed, or an empty position if it is not. */
const find = ({ mask, index, low, high }: Slots, lowHash: number, highHash: number): number => {
  let position = lowHash & mask
  for (let slot = index[position] ?? 0; slot !== 0; slot = index[position] ?? 0) {
    if (low[slot - 1] === lowHash && high[slot - 1] === highHash) break
    position = (position + 1) & mask
  }
  return position
}

const firstFree = ({ mask, index }: Slots, lowHash: number): number => {
  let position = lowHash & mask
  while (index[position] !== 0) position = (position + 1) & mask
  return position
}

/** Knuth's algorithm R (TAOCP 6.4): entries displaced past the hole move back, so that no tombstones remain. */
const unindex = ({ mask, index, low }: Slots, position: number): void => {
  let hole = position
  for (let at = (hole + 1) & mask; index[at] !== 0; at = (at + 1) & mask) {
    const home = (low[(index[at] ?? 0) - 1] ?? 0) & mask
    if (((at - home) & mask) < ((at - hole) & mask)) continue
    index[hole] = index[at] ?? 0
    hole = at
  }
  index[hole] = 0
}

const SEEDS = randomBytes(8)
const hashOf = createKeyHash(SEEDS.readInt32LE(), SEEDS.readInt32LE(4))
