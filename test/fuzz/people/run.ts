// For so many steps people log in to worlds of their own, in memory, and every fault is reported with its world's seed.
import { randomFrom } from '../random.ts'
import { createMemoryStore } from './people-store.ts'
import { createPeopleWorld } from './world.ts'

const STEPS_PER_WORLD = 400

interface PeopleRun {
  readonly seed: number
  readonly goesOn: (steps: number) => boolean
  readonly onFault: (fault: string) => void
}

export const fuzzPeople = async ({ seed, goesOn, onFault }: PeopleRun): Promise<{ steps: number; logins: number }> => {
  let [steps, logins] = [0, 0]
  for (let world = 0; goesOn(steps); world++) {
    const worldSeed = seed + world
    const people = createPeopleWorld({
      store: createMemoryStore(),
      random: randomFrom(worldSeed),
      onFault: fault => onFault(`world ${worldSeed}: ${fault}`)
    })
    for (let step = 0; step < STEPS_PER_WORLD && goesOn(steps); step++, steps++) await people.step()
    logins += people.trace.filter(line => line.endsWith(': in')).length
  }
  return { steps, logins }
}
