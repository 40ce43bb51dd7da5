// Answers what holds in each partition of instances, Redis and Postgres: `npm run partitions`.
import { styleText } from 'node:util'
import { CELLS, runCell, startPartitionWorld } from '../../test/support/partition-world.ts'
import { startTool } from '../teardown.ts'

const t = startTool()
const world = await startPartitionWorld(t)
let broken = 0
for (const cell of CELLS) {
  const outcome = await runCell(world, cell)
  const faults = Object.entries(outcome).filter(([, fault]) => fault !== undefined)
  broken += faults.length
  const name = `${cell.store.padEnd(8)} from ${cell.who.padEnd(4)} ${cell.fault.padEnd(10)}`
  const held = Object.keys(outcome).length - faults.length
  const words = faults.map(([promise, fault]) => styleText('red', `${promise}: ${fault}`)).join('; ')
  console.log(`${name} ${held} of ${Object.keys(outcome).length} promises held${words === '' ? '' : `; ${words}`}`)
}
await t.exit(broken === 0 ? 0 : 1)
