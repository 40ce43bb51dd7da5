// Every reading that lax backends have of a path is found, and no other; each must admit the request.
// RW-40
import t from 'tap'
import {
  foldLetters,
  formatReadings,
  hasOneReading,
  laxReadings,
  scriptReadings,
  scriptsOnTheWay
} from '../../gateway/routes/lax-readings.ts'
import type { RouteTable } from '../../gateway/routes/route.ts'
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

// RW-55
t.test('sessions within sessions are taken off twice, as ASP.NET does, however deeply a client nests them', async t => {
  same(laxReadings('/a/(S(x))/b', DEPTH), ['a', '(S(x))', 'b'], ['a', 'b'])
  const nested = (times: number) => `/a${'/(S'.repeat(times)}${'(x))'.repeat(times)}/b`
  t.ok(texts(laxReadings(nested(2), DEPTH)).includes(texts([['a', 'b']])[0] ?? ''))
  for (const times of [5, 1000]) t.equal(laxReadings(nested(times), 10_000).length, 6, 'as written and once a round')
})

t.test('a backend may have all of these habits, in any order', async t => {
  const parts = ['a%2Fb', 'c;v', '(S(x))', 'd::$DATA', 'e%23f'].map(part => `/${part}`)
  for (const path of [parts.join(''), parts.slice(0, 4).reverse().concat('/e%23f').join('')])
    t.ok(
      texts(laxReadings(path, DEPTH)).some(text => /^\["[abcd]","[abcd]","[abcd]","[abcd]","e"\]$/.test(text)),
      path
    )
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

t.test('each script on the way is where a path may end', async () => {
  same(scriptsOnTheWay('/a/b.c/d', DEPTH))
  same(scriptsOnTheWay('/a/index.php', DEPTH))
  same(scriptsOnTheWay('/a/index.php/', DEPTH))
  same(scriptsOnTheWay('/a/index.phpx/b', DEPTH))
  same(scriptsOnTheWay('/a.php/b.php', DEPTH), ['a.php'])
  same(scriptsOnTheWay('/a/b.PHP/c/d.cgi/e', DEPTH), ['a', 'b.PHP'], ['a', 'b.PHP', 'c', 'd.cgi'])
  same(scriptsOnTheWay('/a.php%3Bx/b', DEPTH), ['a.php'])
})

t.test('sessions are taken off the path as ASP.NET does, and nothing that only resembles them', async () => {
  same(laxReadings('/a/(S(x))/b', DEPTH), ['a', '(S(x))', 'b'], ['a', 'b'])
  same(laxReadings('/a/(S(xyz))b', DEPTH), ['a', '(S(xyz))b'], ['ab'])
  same(laxReadings('/(A(a)F(bc))/b', DEPTH), ['(A(a)F(bc))', 'b'], ['b'])
  same(laxReadings('/(S())/b/(F())/c', DEPTH), ['(S())', 'b', '(F())', 'c'], ['b', 'c'])
  same(laxReadings('/%28S%28xy%29%29/b', DEPTH), ['(S(xy))', 'b'], ['b'])
  same(laxReadings('/(S%28xy)%29/b', DEPTH), ['(S(xy))', 'b'], ['b'])
  for (const segment of ['(s(x))', '(S(x)', '(S(x)s)', '(S)', '()', '((x))', '(S(', 'S(x)', 'a(S(x))'])
    same(laxReadings(`/${segment}/b`, DEPTH), [segment, 'b'])
  same(laxReadings('/%28S%28x%29/b', DEPTH), ['(S(x)', 'b'])
  same(laxReadings('/(S(x/y))/b', DEPTH), ['(S(x', 'y))', 'b'])
})

// RW-86
t.test('the stream that is a file or a directory of NTFS is read as that, and no other stream', async () => {
  same(laxReadings('/a.txt::$DATA', DEPTH), ['a.txt::$DATA'], ['a.txt'])
  same(laxReadings('/a:$I30:$INDEX_ALLOCATION/b', DEPTH), ['a:$I30:$INDEX_ALLOCATION', 'b'], ['a', 'b'])
  for (const colons of ['%3A:', ':%3A', '%3A%3A'])
    same(laxReadings(`/a${colons}%24d/b`, DEPTH), ['a::$d', 'b'], ['a', 'b'])
  same(laxReadings('/a%3Ax%3A%24d/b:c::$d', DEPTH), ['a:x:$d', 'b:c::$d'], ['a', 'b:c'])
  for (const segment of ['a:$d', 'a:x', 'a::d', '$a::d', ':a:b$'])
    same(laxReadings(`/${segment}/b`, DEPTH), [segment, 'b'])
  same(laxReadings('/a:/b:$d', DEPTH), ['a:', 'b:$d'])
})

t.test('a path in which nothing can be cut, trimmed or merged has one reading', async t => {
  for (const path of ['/', '/a/', '/a/(s(x))', '/a/S(x)', '/(SS(x))', '/a.b', '/.a', '/A/b', '/a::b', '/$a:b'])
    t.ok(hasOneReading(path), path)
  for (const path of ['/(S(x))', '/a/(A(', '/a%20', '/a;b', '/a+', '/a.', '/a./', '/a./b', '/a//b', '/a::$b'])
    t.notOk(hasOneReading(path), path)
})

t.test('readings that differ only in where segments end are all kept', async t => {
  const found = texts(laxReadings('/a;%2F;/(S(x))b', DEPTH))
  for (const segments of [['a', 'b'], ['ab']]) t.ok(found.includes(JSON.stringify(segments)), segments.join('/'))
})

t.test('letters that some backend takes for others are folded into those', async t => {
  t.same(['AbC', '\u0130\u0131', '\u017f\u212a', '\u00df\u1e9e', '\u1e9e\u1e9e', '\u00c9'].map(foldLetters), [
    'abc',
    'ii',
    'sk',
    'ssss',
    'ssss',
    '\u00e9'
  ])
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
  t.same(table.match('GET', '/x/;q/a%2Fb'), { refusal: 'bad-path', reason: 'lax-reading', public: false })
  t.match(table.match('GET', '/x/q/a%2Fb'), { refusal: undefined })
})

/** The route's id, then those of the other readings; or the refusal. */
const ask = (table: RouteTable, path: string): string => {
  const match = table.match('GET', path)
  if (match.refusal === 'bad-path') return match.reason
  if (match.refusal !== undefined) return match.refusal
  return [match.route, ...(match.alsoReadAs ?? [])].map(({ id }) => id).join(' + ')
}

t.test('without its format, a path is the route that is written without it', async t => {
  const table = await tableOf(
    t,
    '/api/*',
    '/api/admin {roles: [Admin]}',
    '/api/orders/:id',
    '/api/orders/new',
    '/api/spec.json'
  )
  const expected: Readonly<Record<string, string>> = {
    '/api/admin.json': '/api/* + /api/admin',
    '/api/admin.v1.json': '/api/* + /api/admin',
    '/api/admin.json%20': '/api/* + /api/admin',
    '/api/%61dmin.json': '/api/* + /api/admin',
    '/api/Admin.json': '/api/* + /api/admin',
    '/api/admin/.json': '/api/* + /api/admin',
    '/api/admin/.%6Ason': '/api/* + /api/admin',
    '/api/orders/7.json': '/api/orders/:id',
    '/api/orders/new.json': '/api/orders/:id + /api/orders/new',
    '/api/orders/.json': '/api/orders/:id + /api/*',
    '/api/spec.json': '/api/spec.json',
    '/api/other.json': '/api/*'
  }
  for (const [path, answer] of Object.entries(expected)) t.equal(ask(table, path), answer, path)
  for (const path of ['/api/other.json', '/api/Other.json', '/api/other.json%20'])
    t.notOk('alsoReadAs' in table.match('GET', path), path)
})

t.test('a route that names a segment with a format, or allows formats, is meant as it is written', async t => {
  const table = await tableOf(
    t,
    '/files/*',
    '/files/list',
    '/files/list.json',
    '/files/list.json/*',
    '/open/* {allowInPath: [extension]}',
    '/open/list',
    '/run.php/:x',
    '/run.php/:x/y',
    '/list',
    '/a'
  )
  const expected: Readonly<Record<string, string>> = {
    '/files/list.json': '/files/list.json',
    '/files/list.json/': '/files/list.json',
    '/files/list.xml': '/files/* + /files/list',
    '/open/list.json': '/open/*',
    '/open/index.php/list': '/open/*',
    '/run.php/list': '/run.php/:x',
    '/run.php/a.b': '/run.php/:x'
  }
  for (const [path, answer] of Object.entries(expected)) t.equal(ask(table, path), answer, path)
})

t.test('without a script on the way, a path is the route of what follows it', async t => {
  const table = await tableOf(t, '/*', '/admin {roles: [Admin]}', '/admin/x', '/app/*', '/app/admin/*')
  const expected: Readonly<Record<string, string>> = {
    '/index.php/admin': '/* + /admin',
    '/index.php/admin.json': '/* + /admin',
    '/INDEX.PHP/Admin': '/* + /admin',
    '/index.php/admin/x': '/* + /admin/x',
    '/app/index.cgi/admin/7': '/app/* + /app/admin/*',
    '/index.php/other': '/*',
    '/index.php/auth/me': '/* + GET /auth/me',
    '/index.php/auth/none': '/*',
    '/index.html/admin': '/*'
  }
  for (const [path, answer] of Object.entries(expected)) t.equal(ask(table, path), answer, path)
})

t.test('a script is read with and without its case, whatever the case of other routes', async t => {
  const table = await tableOf(t, '/:a/:b/*', '/* {roles: [Admin]}', '/app/index.php {roles: [Agente]}')
  t.equal(ask(table, '/APP/index.php/x'), '/:a/:b/* + /app/index.php')
  const deeper = await tableOf(t, '/:a/:b/x/*', '/* {roles: [Admin]}', '/app/index.php {roles: [Agente]}')
  t.equal(ask(deeper, '/APP/index.php/x/y'), '/:a/:b/x/* + /* + /app/index.php')
})

t.test('routes that differ in case only are both what a path without its format may mean', async t => {
  const table = await tableOf(t, '/api/*', '/api/Admin', '/api/admin')
  t.equal(ask(table, '/api/Admin.json'), '/api/* + /api/Admin + /api/admin')
  t.equal(ask(table, '/api/ADMIN.json'), '/api/* + /api/admin')
})

t.test('a path that is one for other methods only without its format or script is refused', async t => {
  const table = await tableOf(t, '/x/:id', '/x {methods: [POST]}', '/:a/:b', '/admin {methods: [DELETE]}')
  const expected: Readonly<Record<string, string>> = {
    '/x/.json': 'lax-reading',
    '/index.php/admin': 'lax-reading',
    '/index.php/other': '/:a/:b',
    '/y/.json': '/:a/:b'
  }
  for (const [path, answer] of Object.entries(expected)) t.equal(ask(table, path), answer, path)
})
