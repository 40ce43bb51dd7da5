// Two instances, a store cut from one or both, in one direction, slow or lossy: what was promised holds. DF-20, DF-07
// The whole matrix is `npm run partitions`; here are the cells that have the least in common.
// Timed by the clock of the machine.
import t from 'tap'
import { type Cell, runCell, startPartitionWorld } from '../support/partition-world.ts'

const CHOSEN: readonly Cell[] = [
  { store: 'postgres', who: 'one', fault: 'from-store' },
  { store: 'postgres', who: 'both', fault: 'cut' },
  { store: 'redis', who: 'one', fault: 'to-store' },
  { store: 'redis', who: 'both', fault: 'lossy' }
]

const world = await startPartitionWorld(t)

for (const cell of CHOSEN) {
  t.test(`what was promised holds while ${cell.store} is away from ${cell.who} (${cell.fault})`, async t => {
    for (const [promise, fault] of Object.entries(await runCell(world, cell))) t.equal(fault, undefined, promise)
  })
}
