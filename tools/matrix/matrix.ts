// Answers whether every byte of every kind of body arrives, with one worker and with four: `npm run matrix`.
import { parseArgs } from 'node:util'
import { provision } from '../../test/support/provision.ts'
import { SIZES } from './cells.ts'
import { runMatrix } from './run.ts'

const { values } = parseArgs({
  options: {
    workers: { type: 'string' },
    largest: { type: 'string', default: '100 MB' },
    only: { type: 'string', default: '' }
  }
})

provision(line => console.log(line))
let isWrong = false
for (const workers of values.workers === undefined ? [1, 4] : [Number(values.workers)]) {
  const endings: (() => unknown)[] = []
  const largest = SIZES[values.largest as keyof typeof SIZES]
  try {
    const { cells, faults, grownMb } = await runMatrix(
      { teardown: end => endings.push(end) },
      {
        workers,
        wanted: cell => SIZES[cell.size] <= largest && Object.values(cell).join(' ').includes(values.only)
      }
    )
    for (const fault of faults) console.log(fault)
    console.log(
      `${workers} workers: ${cells} cells, ${faults.length} faults, a process grew by ${grownMb.toFixed(0)} MB`
    )
    isWrong ||= faults.length > 0
  } finally {
    for (const end of endings.reverse()) await end()
  }
}
process.exitCode = isWrong ? 1 : 0
