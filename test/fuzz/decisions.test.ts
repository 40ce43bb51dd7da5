// `diff` and `explain` say what the gateway decides, for random tables, requests and people.
import t from 'tap'
import { fuzzDecisions } from '../../tools/fuzz/decisions.ts'

const PAIRS = 150

// RV-20, RV-34
t.test('whatever is decided differently by two route tables is reported, and whatever is reported is true', async t => {
  const faults: string[] = []
  const pairs = fuzzDecisions({
    seed: 35,
    goesOn: done => done < PAIRS,
    onFault: (fault, tables) => faults.push(`${fault}: ${tables}`)
  })
  t.same(faults.slice(0, 5), [])
  t.equal(pairs, PAIRS)
})
