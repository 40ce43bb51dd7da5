// RW-06

import t from 'tap'
import { createReadTurns } from '../../../gateway/http/server/turns.ts'
import { onThrown } from '../../support/thrown.ts'

const nextTurn = () => new Promise<void>(resolve => setImmediate(resolve))

/** Twenty reads that take 0.3 ms each, by a clock of their own; counts those of each turn. */
const takeTwenty = async (each: (turns: ReturnType<typeof createReadTurns>) => void = () => undefined) => {
  let now = 0
  let taken: number[] = []
  const perTurn: number[] = []
  const turns = createReadTurns(() => now)
  for (let id = 0; id < 20; id++)
    turns.add({
      onThrown,
      goOn() {
        now += 0.3
        taken.push(id)
      }
    })
  const order: number[] = []
  while (order.length < 20) {
    each(turns)
    await nextTurn()
    order.push(...taken)
    perTurn.push(taken.length)
    taken = []
    now += 0.05
  }
  return { perTurn, order }
}

t.test('bulky reads take three milliseconds of a turn of the event loop, in order', async t => {
  const { perTurn, order } = await takeTwenty()
  t.ok(
    perTurn.every(count => count <= 11),
    perTurn.join()
  )
  t.same(
    order,
    Array.from({ length: 20 }, (_, id) => id)
  )
})

t.test('while connections arrive, one bulky read is taken in a turn, and they take a fifth of the time', async t => {
  const { perTurn, order } = await takeTwenty(turns => turns.noteArrival())
  t.ok(Math.max(...perTurn) === 1)
  t.ok(perTurn.length >= 20 * 20, `${perTurn.length} turns of 0.05 ms, and 20 reads of 0.3 ms`)
  t.equal(order.length, 20)
})

t.test('a read is taken at once while its turn has time and none waits', async t => {
  let now = 0
  const turns = createReadTurns(() => now)
  t.ok(turns.mayTake())
  now = 2.9
  t.ok(turns.mayTake())
  now = 3
  t.notOk(turns.mayTake())
  await nextTurn()
  t.ok(turns.mayTake(), 'a new turn')
  turns.add({ goOn: () => undefined, onThrown })
  t.notOk(turns.mayTake(), 'it would overtake')
})

t.test('a read that fails does not hold up those behind it', async t => {
  const turns = createReadTurns()
  const failures: unknown[] = []
  const followed = new Promise<void>(resolve => {
    turns.add({
      goOn() {
        throw new Error('planted')
      },
      onThrown: error => failures.push(error)
    })
    turns.add({ goOn: resolve, onThrown })
  })
  await followed
  t.match(failures, [{ message: 'planted' }])
})
