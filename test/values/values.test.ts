// Values are kept to their bounds and read by their grammars; work takes turns: so much at a time for each key, and so much
// that waits.
// RX-23
import t from 'tap'
import { boundedMap, ownText } from '../../gateway/values/bounded-map.ts'
import { coalesce } from '../../gateway/values/coalesce.ts'
import { parseTimestamp } from '../../gateway/values/quantities.ts'
import { createTurns } from '../../gateway/values/turns.ts'
import { collectGarbage } from '../support/garbage.ts'
import { fc } from '../support/worlds.ts'

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

t.test('what counts as several entries of a bounded map takes their places', async t => {
  const map = boundedMap<number, number>(20, weight => weight)
  for (let key = 0; key < 100; key++) {
    map.set(key, 5)
    t.ok(map.size() <= 4)
    t.equal(map.get(Math.max(0, key - 1)), 5)
  }
  map.clear()
  for (const weight of [9, 9, 1]) map.set(0, weight)
  for (let key = 1; key <= 9; key++) map.set(key, 1)
  map.delete(9)
  map.set(10, 1)
  t.equal(map.size(), 10, 'the latest value of a key counts, and none that was deleted')
  map.set(11, 1)
  map.set(12, 9)
  map.set(13, 1)
  t.same([map.get(0), map.get(13)], [undefined, 1])
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

t.test('what is kept of a text is the same, and does not keep the rest', async t => {
  const kept: string[] = []
  const heads = 200
  for (let i = 0; i < heads; i++) {
    const head = Buffer.alloc(100_000, `x-a-long-field-name-${i}: value\xe4\r\n`, 'latin1').toString('latin1')
    kept.push(ownText(head.slice(0, 30)))
  }
  collectGarbage()
  const mostBytes = (heads * 100_000) / 4
  const before = process.memoryUsage().heapUsed
  t.equal(kept[7], 'x-a-long-field-name-7: value\xe4\r')
  kept.length = 0
  collectGarbage()
  t.ok(before - process.memoryUsage().heapUsed < mostBytes)
})

const two = (number: number) => String(number).padStart(2, '0')

// RV-72
t.test('exactly the dates of the calendar are dates', async t => {
  let wrong = ''
  for (const year of [1900, 2000, 2024, 2026, 2027, 2100]) {
    for (let month = 0; month <= 13; month++) {
      for (let day = 0; day <= 32; day++) {
        const text = `${year}-${two(month)}-${two(day)}`
        const date = new Date(Date.UTC(year, month - 1, day))
        const exists = date.getUTCMonth() === month - 1 && date.getUTCDate() === day
        if (parseTimestamp(text)?.getTime() !== (exists ? date.getTime() : undefined)) wrong = text
      }
    }
  }
  t.equal(wrong, '')
})

t.test('a time is read in its offset', async () => {
  const arbitrary = fc.record({
    at: fc.date({ min: new Date('1970-01-02T00:00:00Z'), max: new Date('2999-12-30T00:00:00Z'), noInvalidDate: true }),
    minutes: fc.integer({ min: -14 * 60, max: 14 * 60 }),
    lower: fc.boolean()
  })
  fc.assert(
    fc.property(arbitrary, ({ at, minutes, lower }) => {
      const local = new Date(at.getTime() + minutes * 60_000).toISOString().slice(0, -1)
      const size = Math.abs(minutes)
      const offset = `${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`
      const texts = [`${local}${offset}`, at.toISOString()].map(text => (lower ? text.toLowerCase() : text))
      return texts.every(text => parseTimestamp(text)?.getTime() === at.getTime())
    })
  )
})

t.test('other spellings are none', async t => {
  for (const text of (
    '¦2027¦2027-01¦01/02/2027¦Dec 31 2026¦2027-02-30¦20270101¦2027-1-1¦2027-001¦2027-W01-1¦' +
    '2027-01-01T00:00Z¦2027-01-01T00:00:00¦2027-01-01 00:00:00Z¦2027-01-01T24:00:00Z¦2027-01-01T00:60:00Z¦' +
    '2027-01-01T23:59:60Z¦2027-01-01T00:00:00.Z¦2027-01-01T00:00:00+0100¦2027-01-01T00:00:00+24:00¦' +
    '2027-01-01T00:00:00Z ¦ 2027-01-01¦+002027-01-01¦1798761600¦tomorrow'
  ).split('¦'))
    t.equal(parseTimestamp(text), undefined, text)
})

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
