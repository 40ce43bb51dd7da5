// Long work lets other work run in between; short work is not divided.
import t from 'tap'
import { inParts, inTurns, type Parts } from '../../gateway/values/in-parts.ts'

t.test('work takes turns with the event loop whenever 4 ms have passed', async t => {
  let now = 1000
  t.intercept(performance, 'now', { value: () => now })
  const happened = async (ms: number) => {
    const events: string[] = []
    function* work(): Parts<string> {
      for (let part = 1; part <= 3; part++) {
        now += ms
        events.push(`part ${part}`)
        yield
      }
      return 'done'
    }
    setImmediate(() => events.push('other work'))
    t.equal(await inTurns(work()), 'done')
    return events
  }
  t.same(await happened(1), ['part 1', 'part 2', 'part 3'])
  t.same(await happened(2), ['part 1', 'part 2', 'other work', 'part 3'])
  t.same(await happened(4), ['part 1', 'other work', 'part 2', 'part 3'])
})

t.test('each item is worked on, and 64 of them are a part', async t => {
  const seen: number[] = []
  const numbers = Array.from({ length: 130 }, (_, index) => index)
  t.equal([...inParts(numbers, number => seen.push(number))].length, 2)
  t.same(seen, numbers)
})
