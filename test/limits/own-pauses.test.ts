import t from 'tap'
import { createOwnPauses } from '../../gateway/limits/own-pauses.ts'

t.test('what ticks are late by adds up, the one that is overdue included', async t => {
  const pauses = createOwnPauses(20)
  pauses.begin(1000)
  t.equal(pauses.total(1020), 0)
  t.equal(pauses.total(1025), 5)
  pauses.tick(1030)
  t.equal(pauses.total(1030), 10)
  pauses.tick(1050)
  t.equal(pauses.total(1070), 10, 'a tick in time adds nothing')
  pauses.tick(1100)
  t.equal(pauses.total(1150), 70)
})

t.test('the time between two runs of the ticks is no pause', async t => {
  const pauses = createOwnPauses(20)
  pauses.begin(1000)
  pauses.tick(1030)
  pauses.begin(9000)
  t.equal(pauses.total(9010), 10)
})
