// Long work lets other work run in between, and is done as if nothing had.
import t from 'tap'
import { inParts, inTurns, type Parts } from '../../gateway/routes/in-parts.ts'

t.test('the result is that of the whole work, with turns of the event loop in between', async t => {
  const busy = (ms: number) => {
    const until = performance.now() + ms
    while (performance.now() < until);
  }
  let turns = 0
  const tick = () => {
    turns++
    next = setImmediate(tick)
  }
  let next = setImmediate(tick)
  t.teardown(() => clearImmediate(next))
  function* work(parts: number, msOfEach: number): Parts<string> {
    for (let part = 0; part < parts; part++) {
      busy(msOfEach)
      yield
    }
    return 'done'
  }
  t.equal(await inTurns(work(5, 10)), 'done')
  t.ok(turns >= 4, `${turns} turns during five long parts`)
  const before = turns
  const mixed = function* (): Parts<string> {
    busy(10)
    yield
    return yield* work(200, 0)
  }
  t.equal(await inTurns(mixed()), 'done')
  // A busy machine may stop the process within a part.
  t.ok(turns - before < 100, `${turns - before} turns during a long part and 200 short ones`)
})

t.test('each item is seen once and in order, with ends of parts among many of them', async t => {
  const seen: number[] = []
  let ends = 0
  const items = Array.from({ length: 1000 }, (_, index) => index)
  for (const _ of inParts(items, item => seen.push(item))) ends++
  t.same(seen, items)
  t.ok(ends > 1 && ends < 100, `${ends} parts`)
  t.equal([...inParts([1, 2, 3], () => {})].length, 0, 'few are one part')
})
