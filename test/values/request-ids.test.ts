// Request ids are random UUIDs.
import t from 'tap'
import { newRequestId } from '../../gateway/values/request-ids.ts'

t.test('every request id is a UUID of version 4, and no two are equal', async t => {
  const ids = Array.from({ length: 1000 }, newRequestId)
  const malformed = ids.filter(id => !/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id))
  t.same(malformed, [])
  t.equal(new Set(ids).size, ids.length)
})

t.test('each random digit of a request id takes every value', async t => {
  const seen = Array.from({ length: 36 }, () => new Set<string>())
  for (let i = 0; i < 1000; i++) for (const [at, digit] of [...newRequestId()].entries()) seen[at]?.add(digit)
  const sizes = seen.map(digits => digits.size)
  t.same(
    sizes,
    [...'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'].map(place => ({ x: 16, y: 4 })[place] ?? 1)
  )
})
