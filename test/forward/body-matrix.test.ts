// Every byte of a body arrives, framed as it was sent, whatever the client, the backend, its size, its direction and its reader.
// RX-19
import t from 'tap'
import { type Cell, SIZES } from '../../tools/matrix/cells.ts'
import { startMatrix } from '../../tools/matrix/run.ts'

const MEGABYTE = SIZES['1 MB']
/** Of what a process holds while bodies of 100 MB pass through it. */
const BOUND_MB = 160

const isUpTo =
  (bytes: number) =>
  ({ size }: Cell): boolean =>
    size <= bytes

/** Of the largest bodies a few cells for each client and backend; `npm run matrix` runs them all. */
const LARGE: Readonly<Record<Cell['backend'], readonly string[]>> = {
  http: ['length down fast', 'length up slow'],
  https: ['chunked both slow', 'chunked down leaves'],
  unix: ['length up slow', 'chunked both slow']
}
const isLargeSample = ({ backend, size, framing, direction, reader }: Cell): boolean =>
  size === SIZES['100 MB'] && LARGE[backend].includes(`${framing} ${direction} ${reader}`)

const { run } = await startMatrix(t, 1)

// First, in processes that have not grown yet.
t.test('bodies of 100 MB pass without being held, however slowly they are read', async t => {
  const { faults, grownMb } = await run(isLargeSample)
  t.same(faults, [])
  t.ok(grownMb < BOUND_MB, `a process grew by ${grownMb.toFixed(0)} MB`)
})

t.test('every body of up to 1 MB arrives in every combination', async t => {
  // RV-01
  const { cells, faults } = await run(isUpTo(MEGABYTE))
  t.same(faults, [])
  t.equal(cells, 1512)
})

t.test('bodies arrive through four workers too', async t => {
  const { faults } = await (await startMatrix(t, 4)).run(isUpTo(SIZES['more than a TLS record']))
  t.same(faults, [])
})
