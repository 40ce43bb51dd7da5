// What counts as flat.
import t from 'tap'
import { growthOf } from '../../tools/soak/verdict.ts'

t.test('what is as it was is flat, and whatever grew is named', async t => {
  const before = { rssMb: 200, heapMb: 40, handles: 11, fds: 29 }
  t.same(growthOf(before, before), [])
  t.same(growthOf(before, { rssMb: 260, heapMb: 50, handles: 19, fds: 37 }), [])
  t.same(growthOf(before, { rssMb: 300, heapMb: 52, handles: 20, fds: 38 }), [
    'rssMb grew from 200.0 to 300.0',
    'heapMb grew from 40.0 to 52.0',
    'handles grew from 11.0 to 20.0',
    'fds grew from 29.0 to 38.0'
  ])
})
