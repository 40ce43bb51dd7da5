// Costly reads and pipelined requests share the turns of the event loop.
// RW-01, RW-06
import t from 'tap'
import { createReadTurns } from '../../../gateway/http/http1/read-turns.ts'
import { onThrown } from '../../support/thrown.ts'

const nextTurn = () => new Promise<void>(resolve => setImmediate(resolve))

/** A thousand connections that take 0.05 ms for each of their three requests, by a clock of their own. */
const crowd = async (each: (turns: ReturnType<typeof createReadTurns>) => void = () => undefined) => {
  let now = 0
  let doneInTurn = 0
  const perTurn: number[] = []
  const order: number[] = []
  const turns = createReadTurns(() => now)
  const member = (id: number) => {
    let left = 3
    return {
      onThrown,
      goOn() {
        now += 0.05
        doneInTurn += 1
        order.push(id)
        left -= 1
        if (left > 0) turns.add(this)
      }
    }
  }
  for (let id = 0; id < 1000; id++) turns.add(member(id))
  while (order.length < 3000) {
    await nextTurn()
    perTurn.push(doneInTurn)
    doneInTurn = 0
    each(turns)
  }
  return { perTurn, order }
}

t.test('a crowd that pipelines takes two milliseconds of a turn, each connection in its order', async t => {
  const { perTurn, order } = await crowd()
  t.ok(Math.max(...perTurn) <= 41, `${Math.max(...perTurn)} requests in one turn`)
  const ids = Array.from({ length: 1000 }, (_, id) => id)
  t.same(order, [...ids, ...ids, ...ids])
})

t.test('while connections arrive, one piece of work is done in a turn', async t => {
  const { perTurn, order } = await crowd(turns => turns.noteArrival())
  t.ok(perTurn.slice(1).every(count => count === 1))
  t.equal(order.length, 3000)
})

t.test('a read is taken at once while its turn has time and none waits', async t => {
  let now = 0
  const turns = createReadTurns(() => now)
  t.ok(turns.mayTake())
  now = 1.9
  t.ok(turns.mayTake())
  now = 2
  t.notOk(turns.mayTake())
  await nextTurn()
  t.ok(turns.mayTake(), 'a new turn')
  turns.add({ goOn: () => undefined, onThrown })
  t.notOk(turns.mayTake(), 'it would overtake')
})

t.test('what work leaves to later ticks, as node:http2 does with requests, counts as time of its turn', async t => {
  let now = 0
  let done = 0
  const turns = createReadTurns(() => now)
  const later = () => {
    now += 0.05
    done++
  }
  for (let n = 0; n < 100; n++) turns.add({ goOn: () => process.nextTick(later), onThrown })
  await nextTurn()
  t.ok(done <= 41, `${done} pieces of work in one turn`)
  while (done < 100) await nextTurn()
})

t.test('work that fails does not hold up what waits behind it', async t => {
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
