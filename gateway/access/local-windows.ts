// Windows of all keys are kept in bounded memory: what has ended leaves by itself, and at the bound the oldest leave first.
import { createWindow, type PermitWindow } from './permit-leases.ts'

/** The windows of one limit. Two generations: looking a key up in `old` moves it to `young`, and `old` is dropped whole. */
export interface WindowTable {
  readonly name: string
  readonly max: number
  readonly windowMs: number
  young: Map<string, PermitWindow>
  old: Map<string, PermitWindow>
  /** Where eviction has come to in `old`: starting anew each time would walk over what has gone. */
  oldest: MapIterator<[string, PermitWindow]>
  turnsAt: number
}

export interface LocalWindows {
  tableOf(name: string, max: number, windowMs: number): WindowTable
  /** The window of a key that is not in `young`: fetched from `old`, or new. */
  recall(table: WindowTable, key: string): PermitWindow
  /** Drops what nobody asked for during a whole window, so has ended. O(number of limits). */
  sweep(now: number): void
  size(): number
}

export const createLocalWindows = (maxEntries: number): LocalWindows => {
  const tables = new Map<string, WindowTable[]>()
  let latest: WindowTable | undefined
  let total = 0

  const tableOf = (name: string, max: number, windowMs: number): WindowTable => {
    if (latest !== undefined && latest.name === name && latest.max === max && latest.windowMs === windowMs)
      return latest
    let named = tables.get(name)
    if (named === undefined) {
      named = []
      tables.set(name, named)
    }
    let table = named.find(candidate => candidate.max === max && candidate.windowMs === windowMs)
    if (table === undefined) {
      table = createTable(name, max, windowMs)
      named.push(table)
    }
    latest = table
    return table
  }

  const recall = (table: WindowTable, key: string): PermitWindow => {
    const known = table.old.get(key)
    if (known !== undefined) table.old.delete(key)
    else if (++total > maxEntries) evict(victim(table))
    const window = known ?? createWindow()
    table.young.set(key, window)
    return window
  }

  /** The limit that fills up pays itself; a small one does not suffer for a large one. */
  const victim = (table: WindowTable): WindowTable => {
    let largest = table
    if (sizeOf(table) * tables.size >= maxEntries) return table
    for (const named of tables.values())
      for (const candidate of named) if (sizeOf(candidate) > sizeOf(largest)) largest = candidate
    return largest
  }

  const evict = (table: WindowTable): void => {
    for (let turns = 0; turns < 2; ) {
      const next = table.oldest.next()
      if (next.done === true) {
        turn(table)
        turns++
        continue
      }
      const [key, window] = next.value
      table.old.delete(key)
      if (window.lease === undefined) {
        total--
        return
      }
      // Permits are out for this key: it is in use, and Redis is to hear of it first.
      table.young.set(key, window)
    }
  }

  const sweep = (now: number): void => {
    latest = undefined
    for (const [name, named] of tables) {
      for (const table of named) {
        if (now < table.turnsAt) continue
        for (const [key, window] of table.old)
          if (window.lease !== undefined && table.old.delete(key)) table.young.set(key, window)
        const before = sizeOf(table)
        turn(table)
        total -= before - sizeOf(table)
        table.turnsAt = now + table.windowMs
      }
      const used = named.filter(table => sizeOf(table) > 0)
      if (used.length === 0) tables.delete(name)
      else tables.set(name, used)
    }
  }

  return { tableOf, recall, sweep, size: () => total }
}

const sizeOf = (table: WindowTable): number => table.young.size + table.old.size

const createTable = (name: string, max: number, windowMs: number): WindowTable => {
  const old = new Map<string, PermitWindow>()
  return { name, max, windowMs, young: new Map(), old, oldest: old.entries(), turnsAt: 0 }
}

const turn = (table: WindowTable): void => {
  table.old = table.young
  table.oldest = table.old.entries()
  table.young = new Map()
}
