// Keeps the addresses of target names up to date, so that each address of a name is a target of its own.
import type { LookupFunction } from 'node:net'
import { task } from '../values/contain.ts'

const REFRESH_MS = 5000
const MAX_ADDRESSES = 256

/** @param onChange some name has other addresses than before; those of a name that is not resolved any more are kept */
export const createAddresses = (lookup: LookupFunction, onChange: () => void) => {
  const known = new Map<string, readonly string[]>()
  let watched: ReadonlySet<string> = new Set()
  let isRunning = false
  let timer: NodeJS.Timeout | undefined

  const resolve = (name: string) =>
    new Promise<readonly string[]>(settle => {
      lookup(name, { all: true }, (error, found) => {
        const addresses = error === null && Array.isArray(found) ? found.map(({ address }) => address) : []
        settle([...new Set(addresses)].sort().slice(0, MAX_ADDRESSES))
      })
    })

  /** One after the other: a slow resolver occupies one of the process's few threads, not all of them. */
  const resolveAll = async () => {
    for (const name of watched) {
      const addresses = await resolve(name)
      if (!watched.has(name) || addresses.length === 0 || String(addresses) === String(known.get(name))) continue
      known.set(name, addresses)
      onChange()
    }
  }
  const refresh = async () => {
    if (isRunning) return
    isRunning = true
    clearTimeout(timer)
    await resolveAll().finally(() => {
      isRunning = false
      if (watched.size > 0) timer = setTimeout(task(refresh), REFRESH_MS).unref()
    })
  }

  return {
    /** All addresses of a name, in a stable order; empty before the first answer. */
    of: (name: string) => known.get(name) ?? [],
    /** The names to keep up to date from now on. */
    watch(names: ReadonlySet<string>) {
      const hasNew = [...names].some(name => !watched.has(name))
      watched = names
      for (const name of known.keys()) if (!names.has(name)) known.delete(name)
      if (hasNew) task(refresh)()
    },
    close() {
      watched = new Set()
      clearTimeout(timer)
    }
  }
}
