// Runs an oracle of decisions for a time or a number of tables, and prints every fault: `npm run fuzz -- --target decisions`.
import { createRandom } from '../mutate.ts'
import { fuzzDecisions } from './compare.ts'
import { fuzzTestLines } from './test-lines.ts'

const MAX_FAULTS = 20

interface DecisionRun {
  /** `test-lines`: against a running gateway. */
  readonly target: 'decisions' | 'test-lines'
  readonly seed: number
  readonly seconds: number
  /** Number of pairs, or of tables; undefined: as many as the time allows. */
  readonly runs: number | undefined
}

/** Returns the number of faults. */
export const runDecisions = async ({ target, seed, seconds, runs }: DecisionRun): Promise<number> => {
  const until = performance.now() + seconds * 1000
  let faults = 0
  const fuzz = {
    random: createRandom(seed),
    goesOn: (done: number) => (runs === undefined ? performance.now() < until : done < runs) && faults < MAX_FAULTS,
    onFault(fault: string, tables: string) {
      faults++
      console.log(`FAULT ${fault}\n${tables}\n`)
    }
  }
  const ends: (() => unknown)[] = []
  if (target === 'decisions')
    console.log(`seed ${seed}: ${await fuzzDecisions(fuzz)} pairs of tables, ${faults} faults`)
  else {
    const { done, lines } = await fuzzTestLines({ teardown: (end: () => unknown) => ends.unshift(end) }, fuzz)
    console.log(`seed ${seed}: ${done} tables, ${lines} test lines, ${faults} faults`)
  }
  for (const end of ends) await end()
  return faults
}
