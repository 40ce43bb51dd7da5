// Which route a request belongs to: specificity, methods, and the readings of lax backends.
import t, { type Test } from 'tap'
import { allowedMethods } from '../../gateway/routes/decide.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import {
  forwardedPath,
  ROUTE_DEFAULTS,
  type RouteMatch,
  type RouteTable,
  type WrittenRoute
} from '../../gateway/routes/route.ts'
import { buildRouteTable, type RouteTableParts } from '../../gateway/routes/route-table.ts'
import { candidatesFor, createTrie, findRoute, type RouteTrie } from '../../gateway/routes/route-trie.ts'
import { atOnce, tableOf } from '../support/route-files.ts'
import { words } from '../support/words.ts'

/** The id of the route, after + those of the routes that must admit the request too; or the refusal (with its reason). */
const ask = (table: RouteTable, method: string, path: string): string => {
  const match = table.match(method, path)
  if (match.refusal !== undefined) return match.refusal === 'bad-path' ? match.reason : match.refusal
  const others = (match.alsoReadAs ?? []).map(({ id }) => id)
  return [match.route.id, ...others.sort()].join(' + ')
}

const asks = (t: Test, table: RouteTable, expected: Readonly<Record<string, string>>): void => {
  for (const [line, answer] of Object.entries(expected)) {
    const [method = '', path = ''] = line.split(' ')
    t.equal(ask(table, method, path), answer, line)
  }
}

/** What GET of each path gets. */
const answers = (t: Test, table: RouteTable, expected: Readonly<Record<string, readonly string[]>>): void => {
  for (const [answer, paths] of Object.entries(expected))
    for (const path of paths) t.equal(ask(table, 'GET', path), answer, path)
}

// RT-12, RT-24
t.test('a rest covers its own path with and without a slash, and ends at segment boundaries', async t => {
  const table = await tableOf(t, '/public/* {public: true}', '/exact')
  answers(t, table, {
    '/public/*': words`/public /public/ /public/a/b/`,
    'no-route': words`/publicx /public@evil.example/ /public.json /exact/a /`,
    '/exact': words`/exact/ /exact`
  })
  t.match(table.match('GET', '/exact/'), { path: '/exact/' }, 'a trailing slash is forwarded as it came')
})

// RT-17
t.test('a named method is more specific than all; GET includes HEAD unless that has its own route', async t => {
  const table = await tableOf(t, '/a', '/a {methods: [GET]}', '/b {methods: [GET]}', '/b {methods: [HEAD]}')
  asks(t, table, {
    'POST /a': '/a',
    'GET /a': 'GET /a',
    'HEAD /a': 'GET /a',
    'HEAD /b': 'HEAD /b',
    'PUT /b': 'method'
  })
  asks(t, table, { 'get /b': 'method', 'GETX /b': 'method', 'QUERY /a': '/a' })
})

const allowedOf = (match: RouteMatch) =>
  match.refusal === 'method' ? allowedMethods(match.routes, undefined).join() : match.refusal

t.test('a path without the method says which methods it has and whether all of them are public', async t => {
  const table = await tableOf(
    t,
    '/a {methods: [GET], public: true}',
    '/a {methods: [PUT]}',
    '/b {methods: [POST], public: true}'
  )
  const [both, one] = [table.match('DELETE', '/a'), table.match('GET', '/b')]
  t.match([both, one], [{ public: false }, { public: true }])
  t.same([both, one].map(allowedOf), ['GET,HEAD,PUT', 'POST'])
  const wider = await tableOf(
    t,
    '/a/b {methods: [DELETE]}',
    '/a/:x {methods: [PUT, POST]}',
    '/:x/b {methods: [LINK]}',
    '/* {methods: [PATCH]}'
  )
  const allowedAt = (path: string) => allowedOf(wider.match('GET', path))
  t.equal(allowedAt('/a/b'), 'DELETE,LINK,PATCH,POST,PUT', 'every route that matches')
  t.equal(allowedAt('/a/c'), 'PATCH,POST,PUT')
  t.equal(allowedAt('/b/b'), 'LINK,PATCH')
  t.equal(allowedAt('/auth/b'), 'no-route', 'of the gateway alone')
})

// RT-11, RT-15, RT-17, RW-48, RW-80
t.test('TRACE needs a route that names it, and no route serves CONNECT', async t => {
  const table = await tableOf(t, '/api/*', '/debug {methods: [TRACE]}', '/open/* {public: true}')
  asks(t, table, {
    'TRACE /api/x': 'method',
    'TRACE /debug': 'TRACE /debug',
    'TRACE /nothing': 'no-route',
    'CONNECT /api/x': 'method',
    'CONNECT /debug': 'method'
  })
  for (const method of ['TRACE', 'CONNECT']) {
    const match = table.match(method, '/open/x')
    t.match(match, { public: true })
    t.equal(allowedOf(match), 'DELETE,GET,HEAD,OPTIONS,PATCH,POST,PUT')
    t.match(table.match(method, '/api/x'), { public: false })
  }
})

t.test('a path that a case-insensitive backend would take for another route is refused', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin/* {roles: [Admin]}', '/api/Reports', '/assets/*')
  answers(t, table, {
    'lax-reading': words`/api/ADMIN/x /api/Admin /api/adm%C4%B1n/x /api/reports /api/REPORTS`,
    '/api/Reports': words`/api/Reports`,
    '/api/*': words`/api/Other`,
    '/assets/*': words`/assets/Logo.PNG`,
    '/api/admin/*': words`/api/admin/X`
  })
})

t.test('that a path leads to two routes is said to everybody only where its own is public', async t => {
  const table = await tableOf(t, '/open/* {public: true}', '/open/admin', '/any/*', '/any/admin')
  for (const path of ['/open/ADMIN', '/open/admin%20']) t.match(table.match('GET', path), { public: true })
  for (const path of ['/any/ADMIN', '/any/admin%20']) t.match(table.match('GET', path), { public: false })
})

t.test('what the gateway does not say of its own endpoints is off', async t => {
  const flags = { forwardToken: false, browser: false, ownAuthorization: false, basic: false, external: false }
  const off = { ...flags, requireAssigned: false, streaming: false, allowInPath: [], accept: [] }
  for (const own of ownRoutes()) t.match(own, off, own.id)
})

t.test('escapes of reserved characters do not lead past the route that is written without them', async t => {
  const table = await tableOf(t, '/api/*', '/api/@admin {roles: [Admin]}', '/relat\u00f3rios/*')
  answers(t, table, {
    'lax-reading': words`/api/%40admin`,
    '/api/@admin': words`/api/@admin`,
    '/api/*': words`/api/%40other`
  })
  asks(t, table, { 'GET /relat%C3%B3rios/1': '/relat%C3%B3rios/*', 'GET /relat%c3%b3rios': '/relat%C3%B3rios/*' })
})

// RT-05, RT-08, RT-04
t.test('what a route allows in paths holds for this route only, and every reading must lead to it', async t => {
  const table = await tableOf(
    t,
    '/npm/* {allowInPath: [encodedSlash]}',
    '/npm/-/admin/* {roles: [Admin]}',
    '/cms/* {allowInPath: [semicolon, doubleSlash]}',
    '/cms/admin',
    '/other/*',
    '/projects/:id {allowInPath: [encodedSlash, semicolon]}'
  )
  answers(t, table, {
    '/projects/:id': words`/projects/a%2F /projects/a;v=1 /projects/a.`,
    '/npm/*': words`/npm/@scope%2fname`,
    'lax-reading': words`/npm/-%2Fadmin /cms/admin;v=1 /cms/;x/admin /cms//admin /cms/admin%3Bx /projects/a%2Fb /projects/;v=1`,
    'dot-segment': words`/npm/x%2F..%2F-/admin`,
    'encoded-slash': words`/npm%2Fx /other/a%2Fb /nothing%2Fx`,
    semicolon: words`/npm/a;b /nothing;x`,
    '/cms/*': words`/cms/a;v=1/b /cms//x`,
    'double-slash': words`//cms/x`
  })
  t.match(table.match('GET', '/npm/@scope%2fname'), { path: '/npm/@scope%2Fname' })
})

// RT-25
t.test('a prefix is stripped from the path that was matched, and never leaves a double slash at the start', async t => {
  const table = await tableOf(
    t,
    '/app/* {stripPrefix: /app, allowInPath: [doubleSlash]}',
    '/git/* {stripPrefix: /git, allowInPath: [encodedSlash, doubleSlash]}'
  )
  const forwarded = (path: string) => {
    const match = table.match('GET', path)
    return match.route === undefined ? ask(table, 'GET', path) : forwardedPath(match.route, match.path)
  }
  t.equal(forwarded('/app/x/'), '/x/')
  t.equal(forwarded('/%61pp/x'), '/x')
  t.equal(forwarded('/app'), '/')
  t.equal(forwarded('/app/'), '/')
  t.equal(forwarded('/app//admin'), 'double-slash')
  for (const path of ['/git//e.example', '/git/%2Fe.example/', '/git/%2fe.example/', '/git//%2Fe.example/'])
    t.equal(forwarded(path), 'double-slash', path)
  t.equal(forwarded('/git/a%2Fb//c'), '/a%2Fb//c')
  t.equal(forwarded('/appadmin'), 'no-route')
  t.equal(forwarded('/app%2Fadmin'), 'encoded-slash')
})

t.test('a route with a character that browsers send unescaped, such as |, is found in both spellings', async t => {
  const table = await tableOf(
    t,
    '/wiki/a|b {roles: [Admin]}',
    '/wiki/* {roles: [Agente]}',
    '/x^y/* {stripPrefix: /x%5Ey}',
    '/q/:id'
  )
  answers(t, table, {
    '/wiki/a%7Cb': words`/wiki/a|b /wiki/a%7Cb /wiki/a%7cb`,
    '/wiki/*': words`/wiki/a|c /wiki/a%7Cc /wiki/a|b/c`,
    'lax-reading': words`/wiki/A|b /wiki/A%7CB`,
    '/x%5Ey/*': words`/x^y/z /x%5Ey/z`,
    '/q/:id': words`/q/a|b`,
    'no-route': words`/x|y`
  })
  const forwarded = (path: string) => {
    const match = table.match('GET', path)
    return match.route && forwardedPath(match.route, match.path)
  }
  t.equal(forwarded('/wiki/a|b'), '/wiki/a|b', 'as it came')
  t.equal(forwarded('/wiki/a%7Cb'), '/wiki/a%7Cb')
  t.equal(forwarded('/x^y/z^'), '/z%5E', 'as the route spells it, whose prefix is stripped')
  t.equal(forwarded('/x%5ey/z^'), '/z^')
})

// RT-27
t.test('what the gateway owns never falls to a catch-all, in any spelling', async t => {
  const table = await tableOf(t, '/* {public: true}', '/:x', '/:x/:y')
  asks(t, table, {
    'GET /health': 'GET /health',
    'HEAD /health/': 'GET /health',
    'POST /health': 'method',
    'GET /health/x': '/:x/:y',
    'GET /auth/login': 'GET /auth/login',
    'POST /auth/login': 'POST /auth/login',
    'PUT /auth/login': 'method',
    'GET /auth': 'no-route',
    'GET /auth/': 'no-route',
    'GET /auth/nothing': 'no-route',
    'GET /auth/me/x': 'no-route',
    'GET /Auth/nothing': 'lax-reading',
    'GET /AUTH': 'lax-reading',
    'GET /HEALTH': 'lax-reading',
    'GET /auth./x': 'lax-reading',
    'PATCH /auth/admin/areas/1': '/auth/admin/*',
    'GET /authx': '/:x',
    'GET /a/b/c': '/*'
  })
})

t.test('every endpoint of the gateway has its access', async t => {
  const own = ownRoutes()
  const rules = own.map(({ id, public: isPublic, roles, tokenKinds }) => {
    const kinds = tokenKinds === undefined ? '' : ` (${tokenKinds.join(' or ')})`
    return `${id} ${isPublic ? 'public' : (roles?.join() ?? 'token')}${kinds}`
  })
  t.same(
    rules,
    (
      'GET /health public¦GET /auth/config public¦POST /auth/login public¦GET /auth/login public¦' +
      'GET /auth/oauth/cloudidp/start public¦GET /auth/oauth/cloudidp/callback public¦' +
      'POST /auth/oauth/cloudidp/backchannel-logout public¦GET /auth/session public¦' +
      'GET /auth/session.js public¦GET /auth/assets/* public¦GET /auth/console public¦' +
      'GET /auth/account public¦GET /auth/account/access token (login)¦GET /auth/apps public¦' +
      'GET /auth/me token¦POST /auth/refresh token (login)¦POST /auth/logout token (login or client)¦' +
      'POST /auth/token public¦GET /auth/jwks.json public¦GET /auth/tokens token (login)¦' +
      'POST /auth/tokens token (login)¦DELETE /auth/tokens/:id token (login)¦' +
      'GET /auth/sessions token (login)¦DELETE /auth/sessions token (login)¦' +
      'DELETE /auth/sessions/:id token (login)¦/auth/admin/* Admin (login)'
    ).split('¦')
  )
  for (const { id, path, methods, place } of own) {
    t.equal(id, methods === undefined ? path : `${[...methods].join('+')} ${path}`)
    t.same(place, { file: 'gateway', line: 1, column: 1 }, 'no route file is named for it')
  }
})

const route = (path: string, methods?: readonly string[]): WrittenRoute => {
  const id = `${methods?.join() ?? ''} ${path}`
  return { ...ROUTE_DEFAULTS, id, path, methods: methods && new Set(methods) }
}
const table = (routes: readonly WrittenRoute[], onTie?: RouteTableParts['onTie']) =>
  atOnce(buildRouteTable({ routes, upstreams: new Map(), checksum: '', ...(onTie && { onTie }) }))

t.test('the routes of each host are a part of the work, so that thousands of hosts delay no request', async t => {
  const routes = Array.from({ length: 200 }, (_, n) => ({ ...route('/a', [`M${n}`]), host: [`h${n}.example`] }))
  const parts = [...buildRouteTable({ routes, upstreams: new Map(), checksum: '' })]
  t.ok(parts.length >= 200, `${parts.length} parts`)
})

/** The largest number of nodes that any path can make `findRoute` visit. */
const worstCaseSteps = (node: RouteTrie['root']): number => {
  let deepest = 0
  for (const child of node.statics?.values() ?? []) deepest = Math.max(deepest, worstCaseSteps(child))
  return 1 + deepest + (node.param === undefined ? 0 : worstCaseSteps(node.param))
}

t.test('ten thousand routes cost no more steps than ten', async t => {
  const many = (count: number) =>
    Array.from({ length: count }, (_, index) => [route(`/api/r${index}/*`), route(`/api/r${index}/:id/x`)]).flat()
  const steps = (count: number) =>
    worstCaseSteps(
      atOnce(
        createTrie(
          table(many(count)).routes,
          text => text,
          one => one
        )
      ).root
    )
  t.equal(steps(5_000), steps(5))
  t.equal(ask(table(many(5_000)), 'GET', '/api/r4321/7/x'), ' /api/r4321/:id/x')
})

t.test('an empty segment is no value for a parameter, whatever the method', async t => {
  const spelling = (text: string) => text
  const written = [route('/a/:id'), route('/b/:id', ['GET'])]
  const trie = atOnce(createTrie(table(written).routes, spelling, one => one))
  const found = (method: string, ...segments: string[]) => [
    findRoute(trie, method, segments),
    ...candidatesFor(trie, method, segments)
  ]
  for (const first of ['a', 'b']) t.same(found('PUT', first, ''), [undefined], first)
  t.match(found('PUT', 'a', 'mutated'), [{ path: '/a/:id' }, { path: '/a/:id' }])
  t.match(found('PUT', 'b', 'mutated'), [undefined, { path: '/b/:id' }])
})

// RW-10, RW-11, RW-40, RW-41, RW-42, RW-52, RW-53, RW-55, RW-62, RW-86, RW-92; RFC 3875 §4.1.5. All others: route-oracle.test.ts.
t.test('whatever a backend may read in a path, it leads to no route that would not admit the request', async t => {
  const table = await tableOf(
    t,
    '/* {public: true}',
    '/api/*',
    '/api/admin {roles: [Admin]}',
    '/api/keys {roles: [Admin]}',
    '/cms/index.html {roles: [Admin]}',
    '/jobs/run.php {roles: [Admin]}',
    '/wiki/index.php/* {roles: [Agente]}',
    '/npm/* {allowInPath: [extension]}',
    '/npm/admin {roles: [Admin]}',
    '/api/gest%C3%A3o {roles: [Admin]}'
  )
  answers(t, table, {
    // Another case or normalization, letters that fold to others, blanks and dots, sessions of ASP.NET, streams of NTFS.
    'lax-reading': [
      `/api/(${'A(%29'.repeat(1500)})/admin`,
      ...words`/api/ADMIN /api/adm%C4%B1n /api/%E2%84%AAeys /api/%EF%BD%81dmin /api/admin. /api/%20admin /api/admin+`,
      ...words`/api/(S(x))/admin /api/admin::$DATA`,
      ...words`/api/ad%E2%80%8Emin /api/%E2%80%AEAdmin%EF%BB%BF /api/%E2%80%AE/admin`,
      ...words`/api/gesta%CC%83o /api/gesta%E2%80%8D%CC%83o`
    ],
    '/api/*': [
      `/api/(${'A(%29'.repeat(1500)}/admin`,
      `/api/${':'.repeat(7000)}$x`,
      ...words`/api/Other /api/a+b /api/search/a%20b /api/admin:notes /api/other.json /api/%E2%9D%A4%EF%B8%8F /api/a%EF%BC%8Fb%EF%BC%9F`
    ],
    // A format at the end, a script on the way, what a script is asked for, and what is served for a directory.
    '/api/* + /api/admin': words`/api/admin.json /api/admin.tar.gz /api/index.php/admin`,
    '/* + /api/admin': words`/index.php/api/admin`,
    '/* + /jobs/run.php': words`/jobs/run.php/x`,
    '/* + /cms/index.html': words`/cms /cms/`,
    // The route spells it out, or takes extensions as parts of names.
    '/wiki/index.php/*': words`/wiki/index.php/Main_Page`,
    '/npm/*': words`/npm/admin.json`
  })
  const cased = await tableOf(t, '/api/*', '/api/Admin', '/api/admin')
  answers(t, cased, { '/api/* + /api/admin': words`/api/ADMIN.json`, '/api/admin': words`/api/admin` })
})
