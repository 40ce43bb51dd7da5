// How lax backends read a path: every reading is found, and no other.
import t from 'tap'
import { formatReadings, laxReadings, scriptReadings } from '../../gateway/routes/lax-readings.ts'
import { tableOf } from '../support/route-files.ts'

const DEPTH = 5
const texts = (readings: readonly (readonly string[])[]) => readings.map(segments => JSON.stringify(segments)).sort()
const same = (readings: readonly (readonly string[])[], ...expected: string[][]) =>
  t.same(texts(readings), texts(expected))

t.test('blanks, dots and plus signs at the ends of a segment are kept or dropped, alone and together', async () => {
  same(laxReadings('/a/b', DEPTH), ['a', 'b'])
  same(laxReadings('/a//b/', DEPTH), ['a', 'b'])
  same(laxReadings('/%20a.', DEPTH), [' a.'], ['a.'], [' a'], ['a'])
  same(laxReadings('/...', DEPTH), ['...'], [])
  same(laxReadings('/a+', DEPTH), ['a+'], ['a '], ['a'])
  same(laxReadings('/a%2B.', DEPTH), ['a+.'], ['a+'], ['a .'], ['a '], ['a'])
})

t.test('parameters and what follows an encoded ? or # are kept or cut, and an encoded slash may separate', async () => {
  same(laxReadings('/a;v/b', DEPTH), ['a;v', 'b'], ['a', 'b'])
  same(laxReadings('/a%3Bv/b', DEPTH), ['a;v', 'b'], ['a', 'b'])
  same(laxReadings('/a%3Fb/c', DEPTH), ['a?b', 'c'], ['a'])
  same(laxReadings('/a%23b/c', DEPTH), ['a#b', 'c'], ['a'])
  same(laxReadings('/a%2Fb', DEPTH), ['a/b'], ['a', 'b'])
})

t.test('no more segments are read than needed to know which of them is the last', async () => {
  same(laxReadings('/a/b/c/d/e', 1), ['a', 'b', 'c'])
  same(laxReadings('/a/b/c', 1), ['a', 'b', 'c'])
  same(laxReadings('/a/b', 1), ['a', 'b'])
})

t.test('a script on the way is left out; a path without one has no such reading', async () => {
  same(scriptReadings('/a/b.c/d', DEPTH))
  same(scriptReadings('/a/index.php', DEPTH))
  same(scriptReadings('/a/index.phpx/b', DEPTH))
  same(scriptReadings('/index.php/a', DEPTH), ['a'])
  same(scriptReadings('/a.PHP/b.php', DEPTH), ['b.php'])
  same(scriptReadings('/index.php/', DEPTH), [])
})

t.test('a format is cut off the last segment at its first or last dot', async () => {
  same(formatReadings(['api', 'admin'], DEPTH))
  same(formatReadings([], DEPTH))
  same(formatReadings(['a.json', 'admin'], DEPTH))
  same(formatReadings(['api', 'admin.json'], DEPTH), ['api', 'admin'])
  same(formatReadings(['api', 'é.json'], DEPTH), ['api', 'é'])
  same(formatReadings(['api', 'a.b.json'], DEPTH), ['api', 'a.b'], ['api', 'a'])
  same(formatReadings(['api', ' a.json'], DEPTH), ['api', ' a'], ['api', 'a'])
  same(formatReadings(['api', 'a .json'], DEPTH), ['api', 'a '], ['api', 'a'])
  same(formatReadings(['api', '.json'], DEPTH), ['api'])
  same(formatReadings(['a', 'b', 'v', '...json'], DEPTH), ['a', 'b'], ['a', 'b', 'v'], ['a', 'b', 'v'])
  same(formatReadings(['a', 'b', '.json'], 2), ['a', 'b'])
  same(formatReadings(['a', 'b', 'c', '.json'], 2))
})

// RT-04, RT-05
t.test('a reading with an encoded slash is not lost beside the one in which that slash separates', async t => {
  const table = await tableOf(
    t,
    '/x/:y/:z {allowInPath: [encodedSlash, semicolon]}',
    '/x/:id {roles: [Admin], allowInPath: [encodedSlash]}'
  )
  t.same(table.match('GET', '/x/;q/a%2Fb'), { refusal: 'bad-path', reason: 'lax-reading' })
  t.match(table.match('GET', '/x/q/a%2Fb'), { refusal: undefined })
})
