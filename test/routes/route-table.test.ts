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
import { candidatesFor, createTrie, findRoute, type RouteTrie, shapeOf } from '../../gateway/routes/route-trie.ts'
import { atOnce, tableOf } from '../support/route-files.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

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

/** `routes` stand between ¦, or on lines of their own; `of`: what GET of each path gets. */
const reads = (title: string, { routes, of }: { routes: string; of: Readonly<Record<string, readonly string[]>> }) =>
  t.test(title, async t => answers(t, await tableOf(t, ...routes.trim().split(/\s*[¦\n]\s*/)), of))

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

// RT-09, RT-12
t.test('blanks at the ends and dots at the end of a segment lead nowhere else', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin/* {roles: [Admin]}')
  for (const name of words`
    admin. admin... admin%20 %20admin admin%20. admin.%20 %C2%A0admin admin%E3%80%80 ADMIN. Admin%20 admin%E2%80%8B
    %20ADMIN.%20. .../admin %20/admin %61dmin. ad%6din%23x admin%3Fx
  `) {
    t.equal(ask(table, 'GET', `/api/${name}/x`), 'lax-reading', name)
    t.equal(ask(table, 'GET', `/api/${name}`), 'lax-reading', name)
  }
  answers(t, table, {
    '/api/*': words`/api/search/a%20b /api/v1./x%20`,
    '/api/admin/*': words`/api/admin/x.`
  })
})

t.test('a reading for which only other methods are known is another route', async t => {
  const table = await tableOf(t, '/:any', '/admin {methods: [DELETE]}')
  asks(t, table, { 'GET /ADMIN': '/:any', 'DELETE /ADMIN': 'lax-reading', 'DELETE /admin': 'DELETE /admin' })
  const beside = await tableOf(t, '/a+', '/a {methods: [DELETE]}', '/b+')
  asks(t, beside, { 'GET /a+': 'lax-reading', 'GET /b+': '/b+' })
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
    '/other/*'
  )
  answers(t, table, {
    '/npm/*': words`/npm/@scope%2fname`,
    'lax-reading': words`/npm/-%2Fadmin /cms/admin;v=1 /cms/;x/admin /cms//admin /cms/admin%3Bx`,
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
  const table = await tableOf(t, '/app/* {stripPrefix: /app, allowInPath: [doubleSlash]}')
  const forwarded = (path: string) => {
    const match = table.match('GET', path)
    return match.route === undefined ? ask(table, 'GET', path) : forwardedPath(match.route, match.path)
  }
  t.equal(forwarded('/app/x/'), '/x/')
  t.equal(forwarded('/%61pp/x'), '/x')
  t.equal(forwarded('/app'), '/')
  t.equal(forwarded('/app/'), '/')
  t.equal(forwarded('/app//admin'), 'double-slash')
  t.equal(forwarded('/appadmin'), 'no-route')
  t.equal(forwarded('/app%2Fadmin'), 'encoded-slash')
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

const routeOf = (...segments: string[]) =>
  fc
    .tuple(
      fc.array(fc.constantFrom(...segments), { maxLength: 4 }),
      fc.boolean(),
      fc.option(fc.subarray(['GET', 'PUT', 'HEAD'], { minLength: 1 }), { nil: undefined })
    )
    .map(([named, isRest, methods]) => route(`/${[...named, ...(isRest ? ['*'] : [])].join('/')}`, methods))
const anyRoute = routeOf('a', 'b', 'A', ':p', 'c.d')
const anyPath = fc
  .array(fc.constantFrom('a', 'b', 'A', 'B.', 'c.d', '%61', 'a%20', 'x'), { maxLength: 5 })
  .map(parts => `/${parts.join('/')}`)

// RT-23
t.test('the order of the routes does not matter', async () => {
  const order = fc.array(anyRoute, { maxLength: 12 }).chain(routes => {
    const distinct = [...new Map(routes.map(one => [one.path, one])).values()]
    return fc.tuple(fc.constant(distinct), fc.shuffledSubarray(distinct, { minLength: distinct.length }), anyPath)
  })
  fc.assert(
    fc.property(order, fc.constantFrom('GET', 'PUT', 'HEAD', 'DELETE'), ([one, other, path], method) => {
      const ties: string[] = []
      table(one, a => ties.push(a.id))
      return ties.length > 0 || ask(table(one), method, path) === ask(table(other), method, path)
    }),
    { numRuns: 3_000 }
  )
})

/** As the rule is told to people, with no tree: the routes that match, ranked segment by segment, then by their methods. */
const mostSpecific = (routes: readonly WrittenRoute[], method: string, path: string): string => {
  const sent = shapeOf(path)
  const rank = ({ path: written, methods }: WrittenRoute): string | undefined => {
    const shape = shapeOf(written)
    const isRest = shape.at(-1) === '*'
    const named = isRest ? shape.slice(0, -1) : shape
    const fits = named.every((segment, index) => segment === sent[index] || (segment === ':p' && index < sent.length))
    if (!fits || (isRest ? sent.length < named.length : sent.length !== named.length)) return undefined
    const byMethod =
      methods === undefined ? 2 : methods.has(method) ? 0 : method === 'HEAD' && methods.has('GET') ? 1 : 3
    const byShape = named.map(segment => (segment === ':p' ? 1 : 0)).join('')
    return byMethod === 3 ? undefined : `${byShape}${isRest ? 2 : ''} ${byMethod}`
  }
  const [best] = routes.flatMap(route => rank(route) ?? []).sort()
  return (best === undefined ? undefined : routes.find(route => rank(route) === best)?.id) ?? 'none'
}

t.test('whatever lies beside it, a route is found as if all of them had been compared', async t => {
  const path = fc
    .array(fc.constantFrom('a', 'b', 'x'), { minLength: 1, maxLength: 5 })
    .map(parts => `/${parts.join('/')}`)
  let [asked, found] = [0, 0]
  fc.assert(
    fc.property(
      fc.array(routeOf('a', 'b', ':p'), { maxLength: 12 }),
      fc.constantFrom('GET', 'PUT', 'HEAD', 'DELETE'),
      path,
      (routes, method, sent) => {
        asked++
        const ties: string[] = []
        const made = table(routes, a => ties.push(a.id))
        if (ties.length > 0) return true
        const expected = mostSpecific(routes, method, sent)
        const { route } = made.match(method, sent)
        if (route !== undefined) found++
        return (route?.id ?? 'none') === expected
      }
    ),
    { numRuns: 5_000 }
  )
  t.ok(found > asked / 10, `${found} found`)
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

// RW-10
reads('letters that fold to i, s or k are read as these', {
  routes: `/api/* ¦ /api/admin/* {roles: [Admin]} ¦ /api/keys {roles: [Admin]} ¦ /api/users`,
  of: {
    'lax-reading': words`
      /api/adm%C4%B0n /api/ADM%C4%B0N/x /api/adm%C4%B1n/x /api/u%C5%BFers /api/%E2%84%AAeys /api/%E2%84%AAEY%C5%BF.
    `,
    '/api/*': words`/api/%C4%B0stanbul`
  }
})

// RW-55
reads('a session in the path, which ASP.NET takes off it, hides no route', {
  routes: `/api/* ¦ /api/admin/* {roles: [Admin]} ¦ /api/keys {roles: [Admin]} ¦ /web/*`,
  of: {
    'lax-reading': [
      `/api/(${'A(%29'.repeat(1500)})/admin`,
      ...words`
      /api/(S(x))/admin/7 /api/(S(lit3py55t21z5v55vlm25s55))/admin /api/(A(x)F(y))/admin /api/(S())/admin
      /api/%28S%28x%29%29/admin /api/(S(x))/ke/(S(x))ys /api/ad/(S(x))min /api/(S(x))/ADMIN/7
    `
    ],
    '/api/*': [`/api/(${'A(%29'.repeat(1500)}/admin`, ...words`/api/(S(x))/orders /api/Orders(7)/(s(x))/keys`],
    '/web/*': words`/web/(S(x))/orders`
  }
})

// RW-86
reads('a stream of NTFS, which Windows reads as the file or directory it belongs to, hides no route', {
  routes: `/files/* ¦ /files/admin/* {roles: [Admin]} ¦ /files/keys.txt {roles: [Admin]}`,
  of: {
    'lax-reading': words`
      /files/keys.txt::$DATA /files/keys.txt::$data /files/keys.txt%3A%3a%24DATA /files/admin::$INDEX_ALLOCATION/x
      /files/admin:$i30:$index_allocation/x /files/ADMIN:$I30:$INDEX_ALLOCATION
    `,
    '/files/*': [`/files/${':'.repeat(7000)}$x`, ...words`/files/other.txt::$DATA /files/admin:notes /files/$metadata`]
  }
})

// RW-53
reads('a capital sharp s is read as two letters s, as full case folding does', {
  routes: `/api/* ¦ /api/access {roles: [Admin]} ¦ /api/stra%C3%9Fe {roles: [Admin]}`,
  of: {
    'lax-reading': words`/api/acce%E1%BA%9E /api/STRA%E1%BA%9EE /api/strasse`,
    '/api/*': words`/api/gro%E1%BA%9E`
  }
})

// RW-92
t.test('letters are read in every normalization form of Unicode', async t => {
  const names = ['/*', '/relat%C3%B3rios/* {roles: [Admin]}', '/admin', '/a%CC%83/x']
  const table = await tableOf(t, ...names)
  answers(t, table, {
    '/relat%C3%B3rios/*': words`/relat%C3%B3rios/x`,
    'lax-reading': words`/relato%CC%81rios/x /RELATO%CC%81RIOS /%EF%BD%81dmin /%C3%A3/x`,
    '/a%CC%83/x': words`/a%CC%83/x`,
    '/*': words`/relato%CC%81rio /a%CC%83`
  })
})

// RW-40
reads('a plus is read as a blank too', {
  routes: `/api/* ¦ /api/admin {roles: [Admin]} ¦ /api/my%20files {roles: [Admin]}`,
  of: {
    'lax-reading': words`/api/admin+ /api/+admin/ /api/Admin+. /api/admin%2B /api/my+files /api/adm%C4%B0n+`,
    '/api/*': words`/api/a+b`
  }
})

// RW-11
t.test('a format at the end of a path leads to no route that would not admit the request', async t => {
  const table = await tableOf(
    t,
    '/* {public: true}',
    '/api/*',
    '/api/admin {roles: [Admin]}',
    '/api/report.json',
    '/api/report {roles: [Admin]}',
    '/api/files/* {allowInPath: [extension]}',
    '/api/files/secret {roles: [Admin]}',
    '/api/:kind/own {roles: [Supervisor]}',
    '/api/orders {methods: [POST], roles: [Admin]}',
    '/orders/:id',
    '/orders/new',
    '/list.json/*',
    '/list'
  )
  answers(t, table, {
    '/api/* + /api/admin': words`
      /api/admin.json /api/ADMIN.json /api/Admin.json /api/admin.json/ /api/admin%2Ejson /api/%61dmin.json
      /api/admin.j%73on /api/adm%C4%B0n.json /api/admin+.json /api/admin%20.json /api/admin..json /api/admin.json+
      /api/admin.json. /api/admin.json%20 /api/admin.tar.gz /api/admin.v1.json /api/admin.min.js/ /api/admin.%C3%A9
      /api/admin/.json /api/admin/.%6Ason
    `,
    '/api/* + /api/:kind/own': words`/api/x/own.xml`,
    '/* + /api/*': words`/api.html`,
    '/* + GET /health': words`/health.json`,
    '/* + /list': words`/list.xml`,
    '/orders/:id': words`/orders/7.json`,
    '/orders/:id + /orders/new': words`/orders/new.json`,
    '/orders/:id + /*': words`/orders/.json`,
    // The route spells the segment out, or allows formats; only the last segment has one; other methods are left to the rest.
    '/api/report.json': words`/api/report.json`,
    '/list.json/*': words`/list.json /list.json/`,
    '/api/files/*': words`/api/files/secret.txt`,
    '/api/*': words`/api/admin.json/x /api/.env /api/orders.json /api/other.json /api/Other.json /api/other.json%20`,
    '/*': words`/assets/app.min.js`,
    'lax-reading': words`/api/admin.`
  })
  for (const path of ['/api/other.json', '/api/other.json%20', '/api/Other.json'])
    t.same(Object.keys(table.match('GET', path)), ['route', 'path'], path)
})

// RW-11, RW-42
t.test('a format that leaves a dot segment leads to no route above that would not admit the request', async t => {
  const table = await tableOf(t, '/api/* {roles: [Admin]}', '/api/open/*')
  answers(t, table, {
    '/api/open/* + /api/*': ['...', '...json', '%2E..json', '...json/', '...%20'].map(name => `/api/open/${name}`),
    '/api/open/*': words`/api/open/x/...json /api/open/..json /api/open/.env /api/open/a...json /api/open/....json`
  })
})

// RW-41; RFC 3875 §4.1.5
reads('a script on the way leads to no route that would not admit the request', {
  routes: `
    /* {public: true} ¦ /api/* ¦ /api/admin/* {roles: [Admin]} ¦ /wiki/index.php/* {roles: [Agente]}
    /wiki/* {roles: [Admin]} ¦ /npm/* {allowInPath: [extension, encodedSlash]} ¦ /npm/admin {roles: [Admin]}
    /cms/* {allowInPath: [encodedSlash, semicolon]} ¦ /cms/admin {roles: [Admin]} ¦ /run.php/:x ¦ /run.php/:x/y
    /list
  `,
  of: {
    '/* + /api/admin/*': words`
      /index.php/api/admin/x /index.php/api/admin /INDEX.PHP/Api/Admin
      /a.php/b.php/c.php/d.php/e.php/f.php/api/admin
    `,
    '/* + /api/* + /api/admin/*': words`/index.php/api/admin.json`,
    '/api/* + /api/admin/*': words`
      /api/index.php/admin/x /api/app.PHP/admin /api/v1.php8/admin /api/a.php/b.cgi/admin/ /api/index%2Ephp/admin
      /api/index.php%20/admin /api/index.php./admin /api/index.php+/ADMIN
    `,
    '/cms/* + /cms/admin': words`/cms/index.php%2Fadmin /cms/index.php;v=1/admin`,
    '/* + /api/*': words`/index.php/api/orders /api.php`,
    '/* + GET /auth/me': words`/index.php/auth/me`,
    'lax-reading': words`/wiki/index.php%20/Main_Page`,
    // No other route is there, the route spells the script out or allows extensions, or no script has that name.
    '/*': words`/index.php/Main_Page /index.php/auth/none /index.html/list`,
    '/wiki/index.php/*': words`/wiki/index.php/Main_Page`,
    '/run.php/:x': words`/run.php/list /run.php/a.b`,
    '/npm/*': words`/npm/index.php/admin`,
    '/api/*': words`/api/my.phpunit/admin`
  }
})

// RW-52; RFC 3875 §4.1.5
reads('a path below a script leads to no script that would not admit the request', {
  routes: `
    /* {public: true} ¦ /admin.php {roles: [Admin]} ¦ /Setup.php {roles: [Admin]} ¦ /cgi-bin/*
    /cgi-bin/report.cgi {roles: [Admin]} ¦ /tools/* {allowInPath: [extension]} ¦ /tools/run.php {roles: [Admin]}
    /jobs.php {methods: [POST], roles: [Admin]}
  `,
  of: {
    '/* + /admin.php': words`
      /admin.php/x /admin.php/x.css /admin.php/x/y/z /admin.php/index.php /admin.php/b.php/c /admin.php/%C3%A9
      /ADMIN.php/x /admin.ph%70/x /admin.php%20/x /admin.php./x
    `,
    '/* + /Setup.php': words`/setup.php/x`,
    '/cgi-bin/* + /cgi-bin/report.cgi': words`/cgi-bin/report.cgi/2026`,
    '/cgi-bin/*': words`/cgi-bin/other.cgi/2026`,
    '/tools/*': words`/tools/run.php/x`,
    '/*': words`/admin.phpunit/x /jobs.php/x`
  }
})

t.test('a script is read with and without its case, and so is a path without its format', async t => {
  const written = ['/* {roles: [Admin]}', '/app/index.php {roles: [Agente]}', '/api/*', '/api/Admin', '/api/admin']
  const table = await tableOf(t, '/:a/:b/*', ...written)
  answers(t, table, {
    '/:a/:b/* + /app/index.php': words`/APP/index.php/x`,
    '/api/* + /api/Admin + /api/admin': words`/api/Admin.json`,
    '/api/* + /api/admin': words`/api/ADMIN.json`
  })
  const deeper = await tableOf(t, '/:a/:b/x/*', ...written)
  t.equal(ask(deeper, 'GET', '/APP/index.php/x/y'), '/:a/:b/x/* + /* + /app/index.php')
})

t.test('a path that is one for other methods only without its format or script is refused', async t => {
  const table = await tableOf(t, '/x/:id', '/x {methods: [POST]}', '/:a/:b', '/admin {methods: [DELETE]}')
  answers(t, table, { 'lax-reading': words`/x/.json /index.php/admin`, '/:a/:b': words`/index.php/other /y/.json` })
})

// RT-04, RT-05
t.test('a reading with an encoded slash is not lost beside the one in which that slash separates', async t => {
  const slashes = 'allowInPath: [encodedSlash, semicolon]'
  const table = await tableOf(t, `/x/:y/:z {${slashes}}`, `/x/:id {roles: [Admin], ${slashes}}`)
  t.same(table.match('GET', '/x/;q/a%2Fb'), { refusal: 'bad-path', reason: 'lax-reading', public: false })
  t.match(table.match('GET', '/x/q/a%2Fb'), { refusal: undefined })
})

// RW-62
t.test('a directory leads to no index file that would not admit the request', async t => {
  const table = await tableOf(
    t,
    '/* {public: true}',
    '/admin/index.php {roles: [Admin]}',
    '/reports/*',
    '/reports/Default.aspx {roles: [Admin]}',
    '/shop',
    '/shop/index.html {roles: [Admin]}',
    '/tools/* {allowInPath: [extension]}',
    '/tools/index.html {roles: [Admin]}',
    '/api/:id {roles: [Admin]}',
    '/api/*'
  )
  answers(t, table, {
    '/* + /admin/index.php': words`/admin /admin/ /ADMIN/ /admin%20/ /%61dmin`,
    '/reports/* + /reports/Default.aspx': words`/reports /reports/`,
    'lax-reading': words`/Reports/`,
    '/*': words`/admin/x /other/`,
    '/reports/*': words`/reports/7`,
    // The route spells the directory out, or allows extensions; a parameter is no index file.
    '/shop': words`/shop/`,
    '/tools/*': words`/tools/`,
    '/api/*': words`/api/`
  })
})

// RW-62
t.test('the right to an index file is asked for below parameters and wide routes, and nowhere else', async t => {
  const table = await tableOf(
    t,
    '/docs/:name',
    '/docs/admin/index.html {roles: [Admin]}',
    '/docs/:name/list',
    '/docs/x/list/index.html {roles: [Admin]}',
    '/guides/:name/',
    '/guides/admin/index.html {roles: [Admin]}',
    '/files/*',
    '/files/index.html/* {roles: [Admin]}',
    '/files/sub/Default.htm/ {roles: [Admin]}',
    '/app/index.html/* {roles: [Admin]}',
    '/app/index.html/:id',
    '/:site/default.html/*'
  )
  answers(t, table, {
    '/docs/:name + /docs/admin/index.html': words`/docs/admin /docs/admin/`,
    '/guides/:name/ + /guides/admin/index.html': words`/guides/admin /guides/admin/`,
    '/files/* + /files/index.html/*': words`/files`,
    '/files/* + /files/sub/Default.htm/': words`/files/sub/`,
    '/docs/:name': words`/docs/other`,
    '/docs/:name/list': words`/docs/x/list`,
    '/guides/:name/': words`/guides/other/`,
    '/files/*': words`/files/sub/7 /files/7 /files/a%20b`,
    '/app/index.html/:id': words`/app/index.html/7`,
    'no-route': words`/none`
  })
  for (const path of ['/files/7', '/files/a%20b', '/a%23b/default.html/'])
    t.same(Object.keys(table.match('GET', path)), ['route', 'path'], path)
})

// RW-62
t.test('a directory with several index files needs the right to all of them, in every spelling', async t => {
  const names = ['/*', '/index.html', '/index.php {methods: [GET]}', '/a/b.c/index.html', '/A/b.c/Default.aspx/*']
  const table = await tableOf(t, ...names, '/:site/%C3%89/INDEX.htm', '/b/:x/:page')
  answers(t, table, {
    '/* + /index.html + GET /index.php': words`/`,
    '/* + /A/b.c/Default.aspx/* + /a/b.c/index.html': words`/a/b.c/ /a/B.C /A/b%2Ec/`,
    '/* + /:site/%C3%89/INDEX.htm': words`/x/%C3%89 /X/%C3%A9/`,
    '/*': words`/a/ /b/%C3%89`
  })
  t.equal(ask(table, 'POST', '/'), '/* + /index.html')
  const beside = await tableOf(t, '/*', '/a {roles: [Admin]}', '/a.json/index.html {roles: [Supervisor]}')
  t.equal(ask(beside, 'GET', '/a.json'), '/* + /a + /a.json/index.html', 'beside the other readings of the path')
})
