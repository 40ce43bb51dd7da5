// How many readings of a path there are, however it is nested; which they are: route-oracle.test.ts.
import t from 'tap'
import { formatReadings, laxReadings } from '../../gateway/routes/lax-readings.ts'

const DEPTH = 5
const texts = (readings: readonly (readonly string[])[]) => readings.map(segments => segments.join('|')).sort()

t.test('readings end where no route looks further; those that differ in where segments end are two', async t => {
  for (const path of ['/a/b/c/d/e', '/a/b/c']) t.same(texts(laxReadings(path, 1)), ['a|b|c'])
  t.same(formatReadings(['a', 'b', 'c', '.json'], 2), [], 'deeper than any route')
  const found = texts(laxReadings('/a;%2F;/(S(x))b', DEPTH))
  t.ok(found.includes('a|b') && found.includes('ab'))
})

t.test('sessions within sessions are taken off twice, as ASP.NET does, however deeply a client nests them', async t => {
  const nested = (times: number) => `/a${'/(S'.repeat(times)}${'(x))'.repeat(times)}/b`
  t.ok(texts(laxReadings(nested(2), DEPTH)).includes('a|b'))
  for (const times of [5, 1000]) t.equal(laxReadings(nested(times), 10_000).length, 6, 'as written and once a round')
})

t.test('a backend may have all of these habits, in any order', async t => {
  const parts = ['a%2Fb', 'c;v', '(S(x))', 'd::$DATA', 'e%23f'].map(part => `/${part}`)
  for (const path of [parts.join(''), parts.slice(0, 4).reverse().concat('/e%23f').join('')])
    t.ok(
      texts(laxReadings(path, DEPTH)).some(text => /^(?:[abcd]\|){4}e$/.test(text)),
      path
    )
})
