// All workers swap their tables together, and one that could not take part does so later.
import t from 'tap'
import { type Calls, createCalls } from '../../gateway/instances/calls.ts'
import { createReload } from '../../gateway/workers/reload.ts'

const LOG = { warn: () => {}, error: () => {} }

/** The primary's side of a channel to a worker. */
const workerThat = (prepare: () => unknown, settle: (isAgreed: boolean) => unknown): Calls => {
  const worker = createCalls(message => setImmediate(() => primary.receive(message)))
  const primary = createCalls(message => setImmediate(() => worker.receive(message)))
  worker.answer('routes.prepare', prepare)
  worker.answer('routes.settle', ([isAgreed]: [boolean]) => settle(isAgreed))
  return primary
}

t.test('a worker that took no part in a round is asked again with all others', async t => {
  const settled: string[] = []
  const { promise: caughtUp, resolve } = Promise.withResolvers<void>()
  let asked = 0
  const busy = workerThat(
    () => {
      if (asked++ === 0) throw new Error('busy')
      return 'b'
    },
    isAgreed => {
      settled.push(`busy ${isAgreed}`)
      resolve()
      return true
    }
  )
  const idle = workerThat(
    () => 'b',
    isAgreed => {
      settled.push(`idle ${isAgreed}`)
      return true
    }
  )
  const alive = setInterval(() => {}, 1000)
  t.teardown(() => clearInterval(alive))
  t.ok(await createReload(() => [idle, busy], LOG, 1)())
  t.same(settled, ['idle true'], 'the others do not wait for it')
  await caughtUp
  t.same(settled.slice(1).sort(), ['busy true', 'idle true'])
})

t.test('workers that read different files read them again, and none swaps before', async t => {
  const settled: unknown[] = []
  const reads = ['old', 'new', 'new']
  const slow = workerThat(
    () => reads.shift(),
    isAgreed => settled.push(isAgreed) > 0
  )
  const quick = workerThat(
    () => 'new',
    isAgreed => settled.push(isAgreed) > 0
  )
  t.ok(await createReload(() => [slow, quick], LOG)())
  t.same(settled, [false, false, true, true])
})

t.test('without a worker there is nothing to swap, and nothing to wait for', async t => {
  const reload = createReload(() => [], { ...LOG, error: () => t.fail('nothing is wrong') })
  t.equal(await reload(), false)
})
