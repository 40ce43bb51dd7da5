// Keeps the most recently used entries, up to a limit, in constant time.

/** Values must not be undefined. */
interface BoundedMap<K, V> {
  get(key: K): V | undefined
  set(key: K, value: V): void
  delete(key: K): void
  clear(): void
  values(): V[]
  size(): number
}

/**
 * Two generations: when the young one is full it becomes the old one, whose entries are dropped unless they are used again.
 * Deleting the oldest entry of a single Map would make V8 walk past all entries that were deleted before it.
 *
 * @param most maximum number of entries; the most recently used half is always kept
 */
export const boundedMap = <K, V>(most: number): BoundedMap<K, V> => {
  const generation = Math.ceil(most / 2)
  let young = new Map<K, V>()
  let old = new Map<K, V>()

  const set = (key: K, value: V): void => {
    if (young.size >= generation && !young.has(key)) {
      old = young
      young = new Map()
    }
    old.delete(key)
    young.set(key, value)
  }

  return {
    set,
    get(key) {
      const known = young.get(key)
      if (known !== undefined) return known
      const aged = old.get(key)
      if (aged !== undefined) set(key, aged)
      return aged
    },
    delete(key) {
      young.delete(key)
      old.delete(key)
    },
    clear() {
      young.clear()
      old.clear()
    },
    values: () => [...young.values(), ...old.values()],
    size: () => young.size + old.size
  }
}
