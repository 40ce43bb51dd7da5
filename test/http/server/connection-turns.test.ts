// RW-01

import t from 'tap'
import { createConnectionTurns } from '../../../gateway/http/server/turns.ts'
import { onThrown } from '../../support/thrown.ts'

/** A thousand connections that take 0.05 ms for each of their three requests, by a clock of their own. */
const crowd = (each: (turns: ReturnType<typeof createConnectionTurns>) => void) =>
  new Promise<{ perTurn: number[]; order: number[] }>(resolve => {
    let now = 0
    let doneInTurn = 0
    const perTurn: number[] = []
    const order: number[] = []
    const turns = createConnectionTurns(() => now)
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
    // It runs behind the turns' own in each check phase.
    const look = () => {
      perTurn.push(doneInTurn)
      doneInTurn = 0
      each(turns)
      if (order.length < 3000) setImmediate(look)
      else resolve({ perTurn, order })
    }
    setImmediate(look)
  })

t.test(
  'a crowd that pipelines takes a millisecond of a turn of the event loop, each connection in its turn',
  async t => {
    const { perTurn, order } = await crowd(() => undefined)
    t.ok(Math.max(...perTurn) <= 21, `${Math.max(...perTurn)} requests in one turn`)
    const ids = Array.from({ length: 1000 }, (_, id) => id)
    t.same(order, [...ids, ...ids, ...ids])
  }
)

t.test('while connections arrive, one request is read in a turn', async t => {
  const { perTurn, order } = await crowd(turns => turns.noteArrival())
  t.ok(perTurn.slice(1).every(count => count === 1))
  t.equal(order.length, 3000)
})

t.test('a connection that fails does not hold up those behind it', async t => {
  const turns = createConnectionTurns()
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
