// Logs people in to one world after the other for so many steps, and reports every fault with its world's seed.
import { startOpenLdap } from '../../../test/support/openldap.ts'
import { createRandom, type Fuzz } from '../mutate.ts'
import type { ModelDirectory } from './model-directory.ts'
import { openPeopleStore } from './people-store.ts'
import { createSlapdDirectory } from './slapd-directory.ts'
import { createPeopleWorld } from './world.ts'

const STEPS_PER_WORLD = 150
/** Nearly every step writes all entries of a real server anew. */
const AT_SLAPD = { most: 10, steps: 100 }

/** @param directoryOf makes the directory of a world; by default one in this process */
export const fuzzPeople = async (
  t: Parameters<typeof openPeopleStore>[0],
  { seed, goesOn, onFault }: Fuzz,
  directoryOf?: (world: number) => Promise<ModelDirectory>
) => {
  const store = await openPeopleStore(t)
  const stepsPerWorld = directoryOf === undefined ? STEPS_PER_WORLD : AT_SLAPD.steps
  let [steps, logins] = [0, 0]
  for (let world = 0; goesOn(steps); world++) {
    const worldSeed = seed + world
    const directory = await directoryOf?.(world)
    await store.clear()
    const people = createPeopleWorld({
      store,
      random: createRandom(worldSeed),
      onFault: (fault, trace) => onFault(`world ${worldSeed}: ${fault}`, trace),
      ...(directory === undefined ? {} : { directory, kind: directory.kind, most: AT_SLAPD.most })
    })
    for (let step = 0; step < stepsPerWorld && goesOn(steps); step++, steps++) await people.step()
    logins += people.trace.filter(line => line.endsWith(': in')).length
  }
  return { steps, logins }
}

/** Worlds whose directory is OpenLDAP, half of them without entryUUID. */
export const startSlapdDirectories = async (
  t: Parameters<typeof startOpenLdap>[0]
): Promise<(world: number) => Promise<ModelDirectory>> => {
  const shown = await startOpenLdap(t, { withoutTls: true })
  const hidden = await startOpenLdap(t, { withoutTls: true, withoutEntryUuid: true })
  return world => createSlapdDirectory(world % 2 === 0 ? shown : hidden, world % 2 !== 0)
}
