// Answers whether every byte of every kind of body arrives, with one worker and with four: `npm run matrix`.
import { parseArgs } from 'node:util'
import { startTool } from '../teardown.ts'
import { type Cell, SIZES } from './cells.ts'
import { startMatrix } from './run.ts'

const { values } = parseArgs({
  options: {
    workers: { type: 'string' },
    largest: { type: 'string', default: '100 MB' },
    only: { type: 'string', default: '' }
  }
})

const largest = SIZES[values.largest as keyof typeof SIZES]
const wanted = (cell: Cell) => cell.size <= largest && Object.values(cell).join(' ').includes(values.only)
const t = startTool()
let wrong = 0
for (const workers of values.workers === undefined ? [1, 4] : [Number(values.workers)]) {
  const { cells, faults, grownMb } = await (await startMatrix(t, workers)).run(wanted)
  for (const fault of faults) console.log(fault)
  console.log(`${workers} workers: ${cells} cells, ${faults.length} faults, a process grew by ${grownMb.toFixed(0)} MB`)
  wrong += faults.length
}
await t.exit(wrong > 0 ? 1 : 0)
