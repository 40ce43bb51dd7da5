// Work takes turns: so much at a time for each key, and so much that waits.
import t from 'tap'
import { createTurns } from '../../gateway/values/turns.ts'

t.test('one caller works for a key, others wait their turn, and one too many is refused', async t => {
  const turns = createTurns(1, 1, () => new Error('one too many'))
  const first = Promise.withResolvers<void>()
  const done: string[] = []
  const work = (name: string, until: Promise<void>) => async () => {
    await until
    done.push(name)
  }
  const all = [turns('key', work('first', first.promise)), turns('key', work('second', Promise.resolve()))]
  await t.rejects(turns('key', work('third', Promise.resolve())), { message: 'one too many' })
  await turns('another key', work('other', Promise.resolve()))
  t.same(done, ['other'])
  first.resolve()
  await Promise.all(all)
  t.same(done, ['other', 'first', 'second'])
  await t.rejects(
    turns('key', async () => {
      throw new Error('failed')
    }),
    { message: 'failed' }
  )
  await turns('key', work('again', Promise.resolve()))
})
