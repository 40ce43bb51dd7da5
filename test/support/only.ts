// Matches a list of exactly these items in a pattern of `t.match`, where a plain list admits further items after its own.
import { isDeepStrictEqual } from 'node:util'

/** tap compares an object with a function by `instanceof`. */
export const only = (...items: readonly unknown[]): (() => void) => {
  const pattern = () => undefined
  const isInstance = (value: unknown) => isDeepStrictEqual(value, items)
  return Object.defineProperties(pattern, {
    [Symbol.hasInstance]: { value: isInstance },
    name: { value: `only(${JSON.stringify(items).slice(1, -1)})` }
  })
}
