// Answers whether every byte of every kind of body arrives, with one worker and with four: `npm run matrix`.
import { parseArgs } from 'node:util'
import { startTool } from '../teardown.ts'
import { type Cell, nameOf } from './cells.ts'
import { startMatrix } from './run.ts'

/** A part of the names of cells, as they are printed. */
const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } })

const wanted = (cell: Cell) => nameOf(cell).includes(values.only)
const t = startTool()
let wrong = 0
for (const workers of [1, 4]) {
  const { cells, faults, grownMb } = await (await startMatrix(t, workers)).run(wanted)
  for (const fault of faults) console.log(fault)
  console.log(`${workers} workers: ${cells} cells, ${faults.length} faults, a process grew by ${grownMb.toFixed(0)} MB`)
  wrong += faults.length
}
await t.exit(wrong > 0 ? 1 : 0)
