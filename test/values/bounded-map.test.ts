import t from 'tap'
import { boundedMap } from '../../gateway/values/bounded-map.ts'
import { coalesce } from '../../gateway/values/coalesce.ts'

t.test('a bounded map never holds more than its bound, and always the half of it that was used last', async t => {
  const map = boundedMap<number, string>(10)
  for (let key = 0; key < 1000; key++) {
    map.set(key, `v${key}`)
    map.get(0)
    t.ok(map.size() <= 10)
    for (let recent = Math.max(0, key - 3); recent <= key; recent++) t.equal(map.get(recent), `v${recent}`)
  }
  t.equal(map.get(0), 'v0', 'what is asked for again and again stays')
  map.delete(0)
  t.equal(map.get(0), undefined)
  map.set(1, 'one')
  map.set(1, 'uno')
  t.equal(map.get(1), 'uno')
  t.equal(map.values().filter(value => value === 'uno').length, 1)
  map.clear()
  t.same([map.size(), map.values()], [0, []])
})

t.test('a task asked for many times while it runs, runs once more, and only then', async t => {
  const releases: (() => void)[] = []
  const ask = coalesce(() => new Promise<number>(resolve => releases.push(() => resolve(releases.length))))
  const first = ask()
  await new Promise(setImmediate)
  const [second, third] = [ask(), ask()]
  t.equal(releases.length, 1)
  t.equal(second, third)
  releases[0]?.()
  t.equal(await first, 1)
  await new Promise(setImmediate)
  t.equal(releases.length, 2)
  releases[1]?.()
  t.equal(await second, 2)
  await ask.idle()
})

t.test('a task that fails does not keep the next from running', async t => {
  let runs = 0
  const ask = coalesce(async () => {
    if (++runs === 1) throw new Error('once')
    return runs
  })
  await t.rejects(ask(), { message: 'once' })
  t.equal(await ask(), 2)
})
