// Remembers what functions return: for a bounded number of short texts, which senders choose, or for objects while they live.
import { boundedMap } from './bounded-map.ts'
import { ownText } from './own-text.ts'

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
