// Keeps the windows of all keys in bounded memory: ended ones are dropped, and above the bound those that began first.
import { createWindow, type Limit, type PermitWindow, renewWindow } from './leases.ts'

export type LocalWindows = ReturnType<typeof createLocalWindows>

/** Of all windows, dropped at once where there are too many: each time, V8 walks past the entries deleted before. */
const DROPPED_SHARE = 1 / 64

/** @param maxEntries maximum number of windows; those in use by a lease are never dropped */
export const createLocalWindows = (maxEntries: number) => {
  const limits = new Map<string, Limit>()
  let latest: Limit | undefined
  let size = 0
  /** Windows dropped before they ended. */
  let forgotten = 0

  const limitOf = (name: string, max: number, windowMs: number): Limit => {
    if (latest?.name === name && latest.max === max && latest.windowMs === windowMs) return latest
    const id = `${max} ${windowMs} ${name}`
    latest = limits.get(id) ?? { name, max, windowMs, windows: new Map() }
    limits.set(id, latest)
    return latest
  }

  /** The window of a key; a new one if there is none or if it has ended. */
  const find = (limit: Limit, key: string, now: number): PermitWindow => {
    const known = limit.windows.get(key)
    if (known !== undefined && (now < known.end || known.end === 0)) return known
    if (known === undefined && ++size > maxEntries) makeRoom(limit, now)
    const window = known ?? createWindow(limit, key)
    renewWindow(window)
    if (window.lease === undefined) limit.windows.delete(key)
    limit.windows.set(key, window)
    return window
  }

  /** The limit with the most windows bears the cost; a small limit does not suffer from a large one. */
  const makeRoom = (limit: Limit, now: number): void => {
    let largest = limit
    for (const each of limits.values()) if (each.windows.size > largest.windows.size) largest = each
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
    for (const [id, { windows }] of limits) {
      for (const [key, window] of windows) {
        if (window.lease !== undefined) continue
        if (now < window.end) break
        windows.delete(key)
        size--
      }
      if (windows.size === 0) limits.delete(id)
    }
  }

  /** The windows in which something was admitted. */
  const open = (now: number): readonly PermitWindow[] =>
    [...limits.values()].flatMap(({ windows }) =>
      [...windows.values()].filter(({ spent, end }) => spent > 0 && now < end)
    )

  return { limitOf, find, open, sweep, size: () => size, forgotten: () => forgotten }
}
