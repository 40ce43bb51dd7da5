// Routes that a backend may see if it cuts off a format or runs a script on the way: they must admit the request too.
// RW-40
import t from 'tap'
import type { RouteTable } from '../../gateway/routes/route.ts'
import { tableOf } from '../support/route-files.ts'

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
