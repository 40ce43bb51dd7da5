// No name leads to somebody else, however names overlap and change; many more go through `npm run fuzz -- --target people`.
// RV-58, RV-59, RV-70, LD-07, LD-08, LD-14, LD-18
import t from 'tap'
import { fuzzPeople, startSlapdDirectories } from '../../tools/fuzz/people/run.ts'

const STEPS = 1000
const SLAPD_STEPS = 200

const WORLDS = [
  { name: 'people whose names overlap stay who they are, and are held back only for their own', steps: STEPS },
  { name: 'the same holds at a real OpenLDAP server, with and without entryUUID', steps: SLAPD_STEPS, isReal: true }
]

for (const { name, steps, isReal } of WORLDS)
  t.test(name, async t => {
    const faults: string[] = []
    const fuzz = {
      seed: isReal ? 7 : 20_262,
      goesOn: (done: number) => done < steps && faults.length < 3,
      onFault: (fault: string, trace: string) => faults.push(`${fault}\n${trace}`)
    }
    const { steps: done, logins } = await fuzzPeople(t, fuzz, isReal ? await startSlapdDirectories(t) : undefined)
    t.same(faults, [])
    t.equal(done, steps)
    t.ok(logins > steps / 20, `${logins} logins succeeded`)
  })
