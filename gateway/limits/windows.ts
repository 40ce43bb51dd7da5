// Keeps the windows of all keys in bounded memory: ended ones are dropped, and at the limit the oldest go first.

import { createWindow, type PermitWindow, renewWindow } from './leases.ts'
import { createPackedWindows } from './packed-windows.ts'

/**
 * The recently used windows of one limit. Two generations: looking up a key in `old` moves it to `young`;
 * windows that leave `old` are packed.
 */
export interface WindowTable {
  readonly name: string
  readonly max: number
  readonly windowMs: number
  readonly seed: number
  young: Map<string, PermitWindow>
  old: Map<string, PermitWindow>
  /** How far eviction has progressed in `old`; starting over each time would walk past removed entries. */
  oldest: MapIterator<[string, PermitWindow]>
  turnsAt: number
}

/** A window with its limit and key. */
export interface OpenWindow {
  readonly window: PermitWindow
  readonly table: WindowTable
  readonly key: string
}

export interface LocalWindows {
  tableOf(name: string, max: number, windowMs: number): WindowTable
  /** The window of a key that is not in `young`: stored, or new. */
  recall(table: WindowTable, key: string): PermitWindow
  /** The windows in which something was admitted; the keys of packed ones are unknown. */
  open(now: number): readonly OpenWindow[]
  /** Drops windows that were not used for their whole duration, because they have ended. */
  sweep(now: number): void
  size(): number
}

/** @param maxEntries maximum number of windows: a sixteenth as objects, the others packed */
export const createLocalWindows = (maxEntries: number): LocalWindows => {
  const maxRecent = Math.ceil(maxEntries / 16)
  const packed = createPackedWindows(maxEntries - maxRecent)
  const tables = new Map<string, WindowTable[]>()
  let latest: WindowTable | undefined
  let spare: PermitWindow | undefined
  let recent = 0
  let seeds = 0

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
      table = createTable(name, max, windowMs, ++seeds)
      named.push(table)
    }
    latest = table
    return table
  }

  const recall = (table: WindowTable, key: string): PermitWindow => {
    let window = table.old.get(key)
    if (window !== undefined) table.old.delete(key)
    else {
      window = spare ?? createWindow()
      if (!packed.takeOut(table.seed, key, window)) renewWindow(window, 0)
      // The evicted object is reused, so that a flood of new keys creates no garbage.
      spare = ++recent > maxRecent ? evict(victim(table)) : undefined
    }
    table.young.set(key, window)
    return window
  }

  /** The limit that fills up bears the cost; a small limit does not suffer from a large one. */
  const victim = (table: WindowTable): WindowTable => {
    let largest = table
    if (sizeOf(table) * tables.size >= maxRecent) return table
    for (const named of tables.values())
      for (const candidate of named) if (sizeOf(candidate) > sizeOf(largest)) largest = candidate
    return largest
  }

  /** Packs the least recently used window; its object may be reused. */
  const evict = (table: WindowTable): PermitWindow | undefined => {
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
        recent--
        packed.put(table.seed, key, window)
        return window
      }
      // Permits are lent for this key, so it is in use, and Redis must be told first.
      table.young.set(key, window)
    }
    return undefined
  }

  const sweepTable = (table: WindowTable, now: number): void => {
    for (const [key, window] of table.old)
      if (window.lease !== undefined && table.old.delete(key)) table.young.set(key, window)
    recent -= table.old.size
    turn(table)
    table.turnsAt = now + table.windowMs
  }

  const sweep = (now: number): void => {
    latest = undefined
    packed.sweep(now)
    for (const [name, named] of tables) {
      for (const table of named) if (now >= table.turnsAt) sweepTable(table, now)
      const used = named.filter(table => sizeOf(table) > 0)
      if (used.length === 0) tables.delete(name)
      else tables.set(name, used)
    }
  }

  const open = (now: number): readonly OpenWindow[] =>
    [...tables.values()].flat().flatMap(table => [...openOf(table.young, table, now), ...openOf(table.old, table, now)])

  return { tableOf, recall, open, sweep, size: () => recent + packed.size() }
}

function* openOf(windows: Map<string, PermitWindow>, table: WindowTable, now: number): Generator<OpenWindow> {
  for (const [key, window] of windows) if (window.spent > 0 && now < window.end) yield { window, table, key }
}

const sizeOf = (table: WindowTable): number => table.young.size + table.old.size

const createTable = (name: string, max: number, windowMs: number, seed: number): WindowTable => {
  const old = new Map<string, PermitWindow>()
  return { name, max, windowMs, seed, young: new Map(), old, oldest: old.entries(), turnsAt: 0 }
}

const turn = (table: WindowTable): void => {
  table.old = table.young
  table.oldest = table.old.entries()
  table.young = new Map()
}
