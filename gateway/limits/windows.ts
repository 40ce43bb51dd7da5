// Keeps the windows of all keys in bounded memory: ended ones are dropped, and above the bound those that began first.
import { createWindow, type PermitWindow, renewWindow } from './leases.ts'

/** The windows of one limit, in the order in which they began. */
export interface WindowTable {
  readonly name: string
  readonly max: number
  readonly windowMs: number
  readonly windows: Map<string, PermitWindow>
}

/** A window with its limit and key. */
export interface OpenWindow {
  readonly window: PermitWindow
  readonly table: WindowTable
  readonly key: string
}

export type LocalWindows = ReturnType<typeof createLocalWindows>

/** Of all windows, dropped at once where there are too many: each time, V8 walks past the entries deleted before. */
const DROPPED_SHARE = 1 / 64

/** @param maxEntries maximum number of windows; those in use by a lease are never dropped */
export const createLocalWindows = (maxEntries: number) => {
  const tables = new Map<string, WindowTable>()
  let latest: WindowTable | undefined
  let size = 0
  /** Windows dropped before they ended. */
  let forgotten = 0

  const tableOf = (name: string, max: number, windowMs: number): WindowTable => {
    if (latest?.name === name && latest.max === max && latest.windowMs === windowMs) return latest
    const id = `${max} ${windowMs} ${name}`
    latest = tables.get(id) ?? { name, max, windowMs, windows: new Map() }
    tables.set(id, latest)
    return latest
  }

  /** The window of a key; a new one if there is none or if it has ended. */
  const find = (table: WindowTable, key: string, now: number): PermitWindow => {
    const known = table.windows.get(key)
    if (known !== undefined && (now < known.end || known.end === 0)) return known
    if (known === undefined && ++size > maxEntries) makeRoom(table, now)
    const window = known ?? createWindow()
    renewWindow(window)
    if (window.lease === undefined) table.windows.delete(key)
    table.windows.set(key, window)
    return window
  }

  /** The limit with the most windows bears the cost; a small limit does not suffer from a large one. */
  const makeRoom = (table: WindowTable, now: number): void => {
    let largest = table
    for (const each of tables.values()) if (each.windows.size > largest.windows.size) largest = each
    let left = Math.ceil(maxEntries * DROPPED_SHARE)
    for (const [key, window] of largest.windows) {
      if (window.lease !== undefined) continue
      if (now < window.end) forgotten++
      largest.windows.delete(key)
      size--
      if (--left === 0) break
    }
  }

  /** Drops windows that have ended. */
  const sweep = (now: number): void => {
    latest = undefined
    for (const [id, { windows }] of tables) {
      for (const [key, window] of windows) {
        if (window.lease !== undefined) continue
        if (now < window.end) break
        windows.delete(key)
        size--
      }
      if (windows.size === 0) tables.delete(id)
    }
  }

  /** The windows in which something was admitted. */
  const open = (now: number): readonly OpenWindow[] =>
    [...tables.values()].flatMap(table =>
      [...table.windows]
        .filter(([, window]) => window.spent > 0 && now < window.end)
        .map(([key, window]) => ({ window, table, key }))
    )

  return { tableOf, find, open, sweep, size: () => size, forgotten: () => forgotten }
}
