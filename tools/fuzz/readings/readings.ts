// Compares what the gateway reads on a connection with a second and a third reading of the same bytes, however they are split.
import { createRandom, type Fuzz, mutate, type Random } from '../mutate.ts'
import { clientRequests } from './client-requests.ts'
import { hosts } from './hosts.ts'
import { upstreamResponses } from './upstream-responses.ts'

export interface Reading {
  readonly name: string
  /** Texts that a mutation inserts; undefined: those that parsers of HTTP have disagreed about. */
  readonly words?: readonly string[]
  /** Latin-1 messages to begin with. */
  readonly seeds: readonly string[]
  /** Messages with everything in them that parsers may disagree about. */
  readonly generate: (random: Random) => string
  /** Runs one input, its bytes split as `random` says; returns what disagrees. */
  readonly compare: (input: string, random: Random) => string | undefined
}

export const READINGS: readonly Reading[] = [clientRequests, upstreamResponses, hosts]

// Most of what is to be found is short.
const MAX_INPUT = 4096

/** Returns how many inputs were read. */
export const fuzzReading = ({ words, seeds, generate, compare }: Reading, { seed, goesOn, onFault }: Fuzz): number => {
  const random = createRandom(seed)
  let runs = 0
  for (; goesOn(runs); runs++) {
    const made = random.below(2) === 0 ? [generate(random)] : seeds
    const input = seeds[runs] ?? mutate(made, random, words).slice(0, MAX_INPUT)
    const fault = compare(input, random)
    if (fault !== undefined) onFault(fault, input)
  }
  return runs
}
