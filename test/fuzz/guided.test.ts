// SM-01, SM-02, SM-03, SM-04, SM-05, SM-06, SM-07, SM-08, SM-09, SM-10, SM-12, SM-33
import t from 'tap'
import { readGuided } from '../../tools/fuzz/guided/corpus.ts'
import { fuzzTarget } from '../../tools/fuzz/guided/engine.ts'
import { TARGETS } from '../../tools/fuzz/guided/targets.ts'

/** `npm run fuzz -- --target all` goes on for as long as it may. */
const SECONDS_EACH = 0.4

for (const target of TARGETS) {
  t.test(`${target.name}: every reading agrees with its second opinion, however the bytes are split`, async t => {
    const faults: string[] = []
    const seeds = [...target.seeds, ...readGuided(target.name)]
    const until = performance.now() + SECONDS_EACH * 1000
    const { runs, kept } = await fuzzTarget(
      { ...target, seeds },
      {
        seed: 20_262,
        // On a busy machine the seeds alone may take that long.
        goesOn: runs => runs <= seeds.length || performance.now() < until,
        onFault: (fault, input) => faults.push(`${fault}: ${JSON.stringify(input.slice(0, 600))}`)
      }
    )
    t.same(faults.slice(0, 5), [])
    t.ok(runs > seeds.length, `${runs} runs`)
    t.ok(kept.size > 1, `${kept.size} states`)
  })
}
