// Takes bytes out of an input for as long as it keeps its fault: what is left says why.
import { createRandom } from '../mutate.ts'
import { Fault, type Target } from './engine.ts'

const SPLITS = 8
const MAX_ROUNDS = 12

/** The input's fault without what varies in it; undefined: none. */
const faultOf = async (target: Target, input: string): Promise<string | undefined> => {
  // Some faults show only under some way of splitting the bytes.
  for (let seed = 0; seed < SPLITS; seed++) {
    try {
      await target.run(input, createRandom(seed))
    } catch (error) {
      return error instanceof Fault ? error.message.replace(/\d+/g, '0') : String(error)
    }
  }
  return undefined
}

export const minimize = async (target: Target, input: string): Promise<string> => {
  const fault = await faultOf(target, input)
  let best = input
  if (fault === undefined) return best
  for (let round = 0, size = best.length >> 1; round < MAX_ROUNDS && size >= 1; round++, size >>= 1) {
    for (let at = 0; at < best.length; ) {
      const shorter = best.slice(0, at) + best.slice(at + size)
      if ((await faultOf(target, shorter)) === fault) best = shorter
      else at += size
    }
  }
  return best
}
