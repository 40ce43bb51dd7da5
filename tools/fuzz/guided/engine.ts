// Mutates inputs and keeps those that lead a parser to states or code that no input before has reached.
import { createRandom, mutate, type Random } from '../mutate.ts'
import type { Coverage } from './coverage.ts'

export interface Target {
  readonly name: string
  /** Latin-1 texts that a mutation inserts: what the format gives a meaning to. */
  readonly words: readonly string[]
  /** Latin-1 inputs to begin with. */
  readonly seeds: readonly string[]
  /** A well-formed input, where the seeds are not enough. */
  readonly generate?: (random: Random) => string
  /**
   * Runs one input, its bytes split as `random` says. Returns the states that it went through, in a word; throws
   * {@link Fault} when a relation that must hold does not.
   */
  readonly run: (input: string, random: Random) => string | Promise<string>
  /** What all runs came to, in a line. */
  readonly summary?: () => string
}

/** Something that must never happen; any other error that a target throws is a fault too. */
export class Fault extends Error {}

export interface FuzzOptions {
  readonly seed: number
  /** Asked before each run, with how many are over. */
  readonly goesOn: (runs: number) => boolean
  readonly onFault: (fault: string, input: string) => void
  /** Of the code under test; undefined: states alone tell what is new. */
  readonly coverage?: Coverage | undefined
}

export interface Fuzzed {
  readonly runs: number
  /** Inputs that reached something new, by the states they went through; the shortest known of each. */
  readonly kept: ReadonlyMap<string, string>
}

// Most of what is to be found is short, and short inputs are many; limits lie higher.
const MAX_INPUT = 2048
const MAX_LONG_INPUT = 20_000
const MAX_KEPT = 20_000
const BATCH = 4096

export const fuzzTarget = async (target: Target, options: FuzzOptions): Promise<Fuzzed> => {
  const random = createRandom(options.seed)
  const kept = new Map<string, string>()
  const corpus: string[] = []
  let runs = 0
  let batch: string[] = []

  const keep = (states: string, input: string) => {
    const known = kept.get(states)
    if (known !== undefined && known.length <= input.length) return
    if (known === undefined && kept.size >= MAX_KEPT) return
    kept.set(states, input)
    corpus.push(input)
  }
  const runOne = async (input: string): Promise<void> => {
    runs++
    try {
      const result = target.run(input, random)
      keep(typeof result === 'string' ? result : await result, input)
    } catch (error) {
      options.onFault(faultText(error), input)
    }
  }
  // Which input of a batch reached new code is found by running each of them again.
  const lookAtCoverage = async (coverage: Coverage): Promise<void> => {
    const suspects = batch
    batch = []
    if (coverage.takeNew() === 0) return
    coverage.forgetLast()
    for (const input of suspects) {
      await runOne(input)
      const blocks = coverage.takeNew()
      if (blocks > 0) keep(`${blocks} new blocks, ${kept.size}`, input)
    }
  }

  for (const seed of target.seeds) await runOne(seed)
  options.coverage?.takeNew()
  while (options.goesOn(runs)) {
    const input = nextInput(target, corpus, random)
    await runOne(input)
    if (options.coverage === undefined) continue
    batch.push(input)
    if (batch.length >= BATCH) await lookAtCoverage(options.coverage)
  }
  return { runs, kept }
}

/** What is new, anything known, or something well-formed, each a third of the time; then changed. */
const nextInput = (target: Target, corpus: readonly string[], random: Random): string => {
  const most = random.below(64) === 0 ? MAX_LONG_INPUT : MAX_INPUT
  const source = random.below(3)
  const made = source === 0 ? (target.generate?.(random) ?? random.pick(target.seeds)) : undefined
  const from = made === undefined ? (source === 1 ? corpus.slice(-64) : corpus) : [made]
  const known = from.length === 0 ? target.seeds : from
  return mutate(known, random, target.words).slice(0, most)
}

const faultText = (error: unknown): string => {
  if (error instanceof Fault) return error.message
  return error instanceof Error ? `uncaught: ${error.stack}` : `uncaught: ${String(error)}`
}
