// Every reading that lax backends have of a path is found, and no other; each must admit the request.
// RW-40
import t from 'tap'
import {
  foldLetters,
  formatReadings,
  laxReadings,
  scriptReadings,
  scriptsOnTheWay
} from '../../gateway/routes/lax-readings.ts'

const DEPTH = 5
const texts = (readings: readonly (readonly string[])[]) => readings.map(segments => segments.join('|')).sort()

/** Path, then the segments of each reading. */
const READINGS: Readonly<Record<string, readonly string[]>> = {
  '/a/b': ['a|b'],
  '/a//b/': ['a|b'],
  '/%20a.': [' a.', 'a.', ' a', 'a'],
  '/...': ['...', ''],
  '/a+': ['a+', 'a ', 'a'],
  '/a%2B.': ['a+.', 'a+', 'a .', 'a ', 'a'],
  '/a;v/b': ['a;v|b', 'a|b'],
  '/a%3Bv/b': ['a;v|b', 'a|b'],
  '/a%3Fb/c': ['a?b|c', 'a'],
  '/a%23b/c': ['a#b|c', 'a'],
  '/a%2Fb': ['a/b', 'a|b'],
  // RW-55
  '/a/(S(x))/b': ['a|(S(x))|b', 'a|b'],
  '/a/(S(xyz))b': ['a|(S(xyz))b', 'ab'],
  '/(A(a)F(bc))/b': ['(A(a)F(bc))|b', 'b'],
  '/(S())/b/(F())/c': ['(S())|b|(F())|c', 'b|c'],
  '/%28S%28xy%29%29/b': ['(S(xy))|b', 'b'],
  '/%28S%28x%29/b': ['(S(x)|b'],
  '/(S(x/y))/b': ['(S(x|y))|b'],
  // RW-86
  '/a.txt::$DATA': ['a.txt::$DATA', 'a.txt'],
  '/a:$I30:$INDEX_ALLOCATION/b': ['a:$I30:$INDEX_ALLOCATION|b', 'a|b'],
  '/a%3Ax%3A%24d/b:c::$d': ['a:x:$d|b:c::$d', 'a|b:c'],
  '/a:/b:$d': ['a:|b:$d']
}

t.test('every reading of a path is found, and no other', async t => {
  for (const [path, readings] of Object.entries(READINGS))
    t.same(texts(laxReadings(path, DEPTH)), readings.toSorted(), path)
  for (const segment of ['(s(x))', '(S(x)', '(S(x)s)', '(S)', '()', '((x))', '(S(', 'S(x)', 'a(S(x))', 'a:$d', 'a::d'])
    t.same(texts(laxReadings(`/${segment}/b`, DEPTH)), [`${segment}|b`])
  for (const path of ['/a/b/c/d/e', '/a/b/c']) t.same(texts(laxReadings(path, 1)), ['a|b|c'], 'no further than needed')
  const found = texts(laxReadings('/a;%2F;/(S(x))b', DEPTH))
  t.ok(found.includes('a|b') && found.includes('ab'), 'readings that differ only in where segments end')
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

t.test(
  'a script on the way is left out, and is where the path may end; a format is cut at its first or last dot',
  async t => {
    for (const [path, without, ends] of [
      ['/a/b.c/d', [], []],
      ['/a/index.php', [], []],
      ['/a/index.phpx/b', [], []],
      ['/index.php/a', ['a'], ['index.php']],
      ['/a.PHP/b.php', ['b.php'], ['a.PHP']],
      ['/a/b.PHP/c/d.cgi/e', ['a|c|e'], ['a|b.PHP', 'a|b.PHP|c|d.cgi']]
    ] as const) {
      t.same(texts(scriptReadings(path, DEPTH)), without, path)
      t.same(texts(scriptsOnTheWay(path, DEPTH)), ends, path)
    }
    for (const [segments, formatless] of [
      ['api|admin', []],
      ['a.json|admin', []],
      ['api|admin.json', ['api|admin']],
      ['api|a.b.json', ['api|a', 'api|a.b']],
      ['api| a.json', ['api| a', 'api|a']],
      ['api|.json', ['api']],
      ['a|b|v|...json', ['a|b', 'a|b|v', 'a|b|v']]
    ] as const)
      t.same(texts(formatReadings(segments.split('|'), DEPTH)), formatless, segments)
    t.same(formatReadings(['a', 'b', 'c', '.json'], 2), [], 'deeper than any route')
  }
)

t.test('letters that some backend takes for others are folded into those', async t => {
  t.same(
    ['AbC', '\u0130\u0131', '\u017f\u212a', '\u00df\u1e9e', '\u00c9'].map(foldLetters).join(),
    'abc,ii,sk,ssss,\u00e9'
  )
})
