// Remembers what a function returns for texts that senders choose: a bounded number of short ones, in memory of their own.
import { boundedMap } from './bounded-map.ts'
import { ownText } from './own-text.ts'

const MOST_TEXTS = 4096
const LONGEST_TEXT = 256

/** @param ask never returns undefined; `text` is Latin-1 */
export const remembered = <T>(ask: (text: string) => T): ((text: string) => T) => {
  const known = boundedMap<string, T>(MOST_TEXTS)
  return text => {
    const found = known.get(text)
    if (found !== undefined) return found
    const result = ask(text)
    if (text.length <= LONGEST_TEXT) known.set(ownText(text), result)
    return result
  }
}
