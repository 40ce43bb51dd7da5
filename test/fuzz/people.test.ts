// No name leads to somebody else, however names overlap and change; a million steps go through `npm run fuzz -- --target people`.
// RV-58, RV-59, RV-70, LD-07, LD-08, LD-14, LD-18
import t from 'tap'
import { createMemoryStore, createPostgresStore, type PeopleStore } from '../../tools/fuzz/people/people-store.ts'
import { fuzzPeople, startSlapdDirectories } from '../../tools/fuzz/people/run.ts'
import { createPeopleWorld } from '../../tools/fuzz/people/world.ts'
import { randomFrom } from '../../tools/fuzz/random.ts'
import { startPostgres } from '../support/postgres.ts'
import { openStore } from '../support/store.ts'

const STEPS = 8000
const STORED_STEPS = 150
const SLAPD_STEPS = 600

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
    const { steps: done, logins } = await fuzzPeople(fuzz, isReal ? await startSlapdDirectories(t) : undefined)
    t.same(faults, [])
    t.equal(done, steps)
    t.ok(logins > steps / 20, `${logins} logins succeeded`)
  })

for (const [kind, hidesUuid] of [
  ['openldap', false],
  ['openldap', true],
  ['ad', false]
] as const) {
  t.test(`the store in memory decides as Postgres does: ${kind}${hidesUuid ? ' without entryUUID' : ''}`, async t => {
    const postgres = await startPostgres(t)
    const faults: string[] = []
    const run = async (store: PeopleStore): Promise<readonly string[]> => {
      const onFault = (fault: string) => faults.push(fault)
      const world = createPeopleWorld({ store, random: randomFrom(7), onFault, kind, hidesUuid })
      for (let step = 0; step < STORED_STEPS; step++) await world.step()
      return world.trace.map(line => line.replace(/\b[0-9a-f]{4}\(/g, '('))
    }
    const stored = await run(createPostgresStore(await openStore(t, postgres)))
    t.same(stored, await run(createMemoryStore()))
    t.same(faults, [])
  })
}
