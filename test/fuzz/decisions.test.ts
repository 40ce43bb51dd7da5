// `diff`, `explain`, `replay` and test lines say what the gateway decides, for random route tables, requests and people.
import t from 'tap'
import { fuzzDecisions } from '../../tools/fuzz/decisions/compare.ts'
import { fuzzTestLines } from '../../tools/fuzz/decisions/test-lines.ts'

const PAIRS = 60
const TABLES = 100

// CF-16, RV-20, RV-25, RV-27, RV-34
t.test('diff, explain and replay agree with brute force on pairs of route tables', async t => {
  const faults: string[] = []
  const pairs = await fuzzDecisions({
    seed: 35,
    goesOn: done => done < PAIRS,
    onFault: (fault, tables) => faults.push(`${fault}: ${tables}`)
  })
  t.same(faults.slice(0, 5), [])
  t.equal(pairs, PAIRS)
})

// RV-23
t.test('a test line that passes is what a running gateway answers', async t => {
  const faults: string[] = []
  const { done, lines } = await fuzzTestLines(t, {
    seed: 36,
    goesOn: tables => tables < TABLES,
    onFault: (fault, table) => faults.push(`${fault}: ${table}`)
  })
  t.same(faults.slice(0, 5), [])
  t.equal(done, TABLES)
  t.ok(lines > TABLES)
})
