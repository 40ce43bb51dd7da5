// Keeps the most recently used entries, up to a limit, in constant time; remembers what functions return; copies what is kept.

/**
 * Two generations: when the young one is full it becomes the old one, whose entries are dropped unless they are used again.
 * Deleting the oldest entry of a single Map would make V8 walk past all entries that were deleted before it. Values must not be
 * undefined.
 *
 * @param most maximum number of entries; the most recently used half is always kept
 * @param weigh as how many entries one counts, which does not change
 */
export const boundedMap = <K, V>(most: number, weigh = (_value: V): number => 1) => {
  const generation = Math.ceil(most / 2)
  let young = new Map<K, V>()
  let old = new Map<K, V>()
  /** Of the young ones. */
  let weight = 0

  const weightOf = (known: V | undefined) => (known === undefined ? 0 : weigh(known))

  const set = (key: K, value: V): void => {
    const known = young.get(key)
    if (weight >= generation && known === undefined) {
      old = young
      young = new Map()
      weight = 0
    }
    old.delete(key)
    young.set(key, value)
    weight += weigh(value) - weightOf(known)
  }

  return {
    set,
    get(key: K): V | undefined {
      const known = young.get(key)
      if (known !== undefined) return known
      const aged = old.get(key)
      if (aged !== undefined) set(key, aged)
      return aged
    },
    delete(key: K): void {
      weight -= weightOf(young.get(key))
      young.delete(key)
      old.delete(key)
    },
    clear(): void {
      young.clear()
      old.clear()
      weight = 0
    },
    values: () => [...young.values(), ...old.values()],
    size: () => young.size + old.size
  }
}

const MOST_TEXTS = 4096
const LONGEST_TEXT = 256

/** @param ask its `text` is Latin-1; undefined is not remembered */
export const remembered = <T>(ask: (text: string) => T): ((text: string) => T) => {
  const known = boundedMap<string, T>(MOST_TEXTS)
  return text => {
    const found = known.get(text)
    if (found !== undefined) return found
    const result = ask(text)
    if (result !== undefined && text.length <= LONGEST_TEXT) known.set(ownText(text), result)
    return result
  }
}

/** @param make never returns undefined */
export const oncePer = <K extends WeakKey, V>(make: (of: K) => V): ((of: K) => V) => {
  const known = new WeakMap<K, V>()
  return of => {
    const found = known.get(of)
    if (found !== undefined) return found
    const made = make(of)
    known.set(of, made)
    return made
  }
}

/**
 * V8 stores a substring as a reference to the whole: a cached header value would keep the head that it came in.
 * @param text Latin-1
 */
export const ownText = (text: string): string => Buffer.from(text, 'latin1').toString('latin1')

/** Bytes in memory of their own, because parts of the shared pool would keep all of it alive. */
export const ownBytes = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}
