// A call between two processes always ends.
import t from 'tap'
import { createCalls } from '../../gateway/instances/calls.ts'

t.test('a question to another process always ends: with an answer, an error, the time, or the process', async t => {
  const near = createCalls(message => far.receive(message))
  const far = createCalls(message => near.receive(message))
  far.answer('double', (n: number) => n * 2)
  far.answer('fails', () => {
    throw new Error('no')
  })
  far.answer('sleeps', () => new Promise(() => undefined))
  near.receive('nothing of ours')
  near.receive({ kind: 'reply', id: 99 })
  t.equal(await near.call('double', 21), 42)
  await t.rejects(near.call('fails'), { message: 'no' })
  await t.rejects(near.call('unknown'), { message: 'no handler for unknown' })
  await t.rejects(near.call('sleeps', undefined, { timeoutMs: 20 }), { message: 'sleeps: no reply' })
  const open = near.call('sleeps')
  near.close()
  await t.rejects(open, { message: 'the other process is gone' })
  await t.rejects(near.call('double', 1), { message: 'the other process is gone' })
})
