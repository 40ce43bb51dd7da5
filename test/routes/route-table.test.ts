// Which route a request belongs to: specificity, methods, and the readings of lax backends.
import t, { type Test } from 'tap'
import { decide } from '../../gateway/routes/decide.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import { forwardedPath, ROUTE_DEFAULTS, type RouteTable, type WrittenRoute } from '../../gateway/routes/route.ts'
import { buildRouteTable, type RouteTableParts } from '../../gateway/routes/route-table.ts'
import { candidatesFor, createTrie, findRoute, type RouteTrie, shapeOf } from '../../gateway/routes/route-trie.ts'
import { askerOf } from '../support/askers.ts'
import { atOnce, tableOf } from '../support/route-files.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

/** The id of the route, or the refusal (with its reason). */
const ask = (table: RouteTable, method: string, path: string): string => {
  const match = table.match(method, path)
  if (match.refusal === undefined) return match.route.id
  return match.refusal === 'bad-path' ? match.reason : match.refusal
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

const decisionsOf = (table: RouteTable) => (who: string, path: string) =>
  decide(table.match('GET', path), askerOf(who), { cloudUnassignedMayPass: false }).decision

t.test('the most specific route wins: static over parameter over rest, from left to right', async t => {
  const table = await tableOf(
    t,
    '/api/*',
    '/api/orders/*',
    '/api/:kind/new',
    '/api/orders/:id',
    '/api/orders/new',
    '/:a/orders/x'
  )
  answers(t, table, {
    '/api/orders/new': words`/api/orders/new`,
    '/api/orders/:id': words`/api/orders/7 /api/orders/x`,
    '/api/orders/*': words`/api/orders/7/items /api/orders`,
    '/api/:kind/new': words`/api/people/new`,
    '/api/*': words`/api/people/old /api`,
    '/:a/orders/x': words`/web/orders/x`,
    'no-route': words`/web`
  })
})

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

t.test('where the most specific route lacks the method, the next wider one that has it serves', async t => {
  const table = await tableOf(t, '/api/*', '/api/:id {methods: [PUT]}', '/api/x {methods: [GET, DELETE]}')
  asks(t, table, { 'GET /api/x': 'GET,DELETE /api/x', 'PUT /api/x': 'PUT /api/:id', 'POST /api/x': '/api/*' })
})

t.test('a path without the method says which methods it has and whether all of them are public', async t => {
  const table = await tableOf(
    t,
    '/a {methods: [GET], public: true}',
    '/a {methods: [PUT]}',
    '/b {methods: [POST], public: true}'
  )
  t.same(table.match('DELETE', '/a'), { refusal: 'method', allowed: ['GET', 'HEAD', 'PUT'], public: false })
  t.same(table.match('GET', '/b'), { refusal: 'method', allowed: ['POST'], public: true })
  const wider = await tableOf(
    t,
    '/a/b {methods: [DELETE]}',
    '/a/:x {methods: [PUT, POST]}',
    '/:x/b {methods: [LINK]}',
    '/* {methods: [PATCH]}'
  )
  const allowedAt = (path: string) => {
    const match = wider.match('GET', path)
    return match.refusal === 'method' ? match.allowed.join() : match.refusal
  }
  t.equal(allowedAt('/a/b'), 'DELETE,LINK,PATCH,POST,PUT', 'every route that matches')
  t.equal(allowedAt('/a/c'), 'PATCH,POST,PUT')
  t.equal(allowedAt('/b/b'), 'LINK,PATCH')
  t.equal(allowedAt('/auth/b'), 'no-route', 'of the gateway alone')
})

// RT-11
t.test('TRACE, which shows what the gateway told the backend, needs a route that names it', async t => {
  // RW-48, RT-17
  const table = await tableOf(t, '/api/*', '/debug {methods: [TRACE]}', '/open/* {public: true}')
  asks(t, table, { 'TRACE /api/x': 'method', 'TRACE /open/x': 'method', 'TRACE /debug': 'TRACE /debug' })
  t.match(table.match('TRACE', '/open/x'), {
    allowed: ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT'],
    public: true
  })
  t.match(table.match('TRACE', '/api/x'), { public: false })
  t.equal(ask(table, 'TRACE', '/nothing'), 'no-route')
})

t.test('no route serves CONNECT, since a proxy behind would take its response for a tunnel', async t => {
  // RW-80, RT-15, RT-17
  const table = await tableOf(t, '/api/*', '/debug {methods: [TRACE]}', '/open/* {public: true}')
  asks(t, table, { 'CONNECT /api/x': 'method', 'CONNECT /open/x': 'method', 'CONNECT /debug': 'method' })
  t.match(table.match('CONNECT', '/open/x'), { public: true })
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
  asks(t, table, {
    'GET /api/search/a%20b': '/api/*',
    'GET /api/v1./x%20': '/api/*',
    'GET /api/admin/x.': '/api/admin/*'
  })
})

t.test('a reading for which only other methods are known is another route', async t => {
  const table = await tableOf(t, '/:any', '/admin {methods: [DELETE]}')
  asks(t, table, { 'GET /ADMIN': '/:any', 'DELETE /ADMIN': 'lax-reading', 'DELETE /admin': 'DELETE /admin' })
})

t.test('escapes of reserved characters do not lead past the route that is written without them', async t => {
  const table = await tableOf(t, '/api/*', '/api/@admin {roles: [Admin]}', '/relat\u00f3rios/*')
  asks(t, table, {
    'GET /api/%40admin': 'lax-reading',
    'GET /api/@admin': '/api/@admin',
    'GET /api/%40other': '/api/*'
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
t.test('letters that fold to i, s or k are read as these', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin/* {roles: [Admin]}', '/api/keys {roles: [Admin]}', '/api/users')
  answers(t, table, {
    'lax-reading': words`
      /api/adm%C4%B0n /api/ADM%C4%B0N/x /api/adm%C4%B1n/x /api/u%C5%BFers /api/%E2%84%AAeys /api/%E2%84%AAEY%C5%BF.
    `,
    '/api/*': words`/api/%C4%B0stanbul`
  })
})

// RW-55
t.test('a session in the path, which ASP.NET takes off it, hides no route', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin/* {roles: [Admin]}', '/api/keys {roles: [Admin]}', '/web/*')
  asks(t, table, {
    'GET /api/(S(x))/admin/7': 'lax-reading',
    'GET /api/(S(lit3py55t21z5v55vlm25s55))/admin': 'lax-reading',
    'GET /api/(A(x)F(y))/admin': 'lax-reading',
    'GET /api/(S())/admin': 'lax-reading',
    'GET /api/%28S%28x%29%29/admin': 'lax-reading',
    'GET /api/(S(x))/ke/(S(x))ys': 'lax-reading',
    [`GET /api/(${'A(%29'.repeat(1500)}/admin`]: '/api/*',
    [`GET /api/(${'A(%29'.repeat(1500)})/admin`]: 'lax-reading',
    'GET /api/ad/(S(x))min': 'lax-reading',
    'GET /api/(S(x))/ADMIN/7': 'lax-reading',
    'GET /web/(S(x))/orders': '/web/*',
    'GET /api/(S(x))/orders': '/api/*',
    'GET /api/Orders(7)/(s(x))/keys': '/api/*'
  })
})

// RW-86
t.test('a stream of NTFS, which Windows reads as the file or directory it belongs to, hides no route', async t => {
  const table = await tableOf(t, '/files/*', '/files/admin/* {roles: [Admin]}', '/files/keys.txt {roles: [Admin]}')
  asks(t, table, {
    'GET /files/keys.txt::$DATA': 'lax-reading',
    'GET /files/keys.txt::$data': 'lax-reading',
    'GET /files/keys.txt%3A%3a%24DATA': 'lax-reading',
    'GET /files/admin::$INDEX_ALLOCATION/x': 'lax-reading',
    'GET /files/admin:$i30:$index_allocation/x': 'lax-reading',
    'GET /files/ADMIN:$I30:$INDEX_ALLOCATION': 'lax-reading',
    [`GET /files/${':'.repeat(7000)}$x`]: '/files/*',
    'GET /files/other.txt::$DATA': '/files/*',
    'GET /files/admin:notes': '/files/*',
    'GET /files/$metadata': '/files/*'
  })
})

// RW-53
t.test('a capital sharp s is read as two letters s, as full case folding does', async t => {
  const table = await tableOf(t, '/api/*', '/api/access {roles: [Admin]}', '/api/stra%C3%9Fe {roles: [Admin]}')
  asks(t, table, {
    'GET /api/acce%E1%BA%9E': 'lax-reading',
    'GET /api/STRA%E1%BA%9EE': 'lax-reading',
    'GET /api/strasse': 'lax-reading',
    'GET /api/gro%E1%BA%9E': '/api/*'
  })
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
t.test('a plus is read as a blank too', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin {roles: [Admin]}', '/api/my%20files {roles: [Admin]}')
  answers(t, table, {
    'lax-reading': words`/api/admin+ /api/+admin/ /api/Admin+. /api/admin%2B /api/my+files /api/adm%C4%B0n+`,
    '/api/*': words`/api/a+b`
  })
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
    '/api/orders {methods: [POST], roles: [Admin]}'
  )
  const may = decisionsOf(table)
  const refused = words`
    /api/admin.json /api/ADMIN.json /api/admin.json/ /api/admin%2Ejson /api/admin.j%73on /api/adm%C4%B0n.json
    /api/admin+.json /api/admin%20.json /api/admin..json /api/admin.json+ /api/admin.json. /api/admin.tar.gz
    /api/admin.min.js/ /api/admin.%C3%A9 /api/x/own.xml
  `
  for (const path of refused) {
    t.equal(may('Agente', path), 400, path)
    t.equal(may('anonymous', path), 401, path)
  }
  t.equal(may('Admin', '/api/admin.json'), 'allow', 'the other route admits an Admin as well')
  t.equal(may('Admin', '/api/admin.json.'), 'allow')
  t.equal(may('Admin', '/api/admin.'), 400, 'a dot at the end alone is another matter')
  t.equal(may('Agente', '/api/report.json'), 'allow', 'a route says so')
  t.equal(may('Agente', '/api/files/secret.txt'), 'allow', 'a route allows formats')
  t.equal(may('anonymous', '/api.html'), 400, 'from a public route to a private one')
  t.equal(may('anonymous', '/assets/app.min.js'), 'allow')
  t.equal(may('anonymous', '/health.json'), 'allow', 'the gateway itself answers everybody there')
  t.equal(may('Agente', '/api/admin.json/x'), 'allow', 'only the last segment has a format')
  t.equal(may('Agente', '/api/.env'), 'allow')
  t.equal(may('Admin', '/api/orders.json'), 'allow', 'a route of other methods leaves this one to the wider route')
})

// RW-11, RW-42
t.test('a format that leaves a dot segment leads to no route above that would not admit the request', async t => {
  const table = await tableOf(t, '/api/* {roles: [Admin]}', '/api/open/*')
  const may = decisionsOf(table)
  for (const path of ['...', '...json', '%2E..json', '...json/', '...%20']) {
    t.equal(may('Agente', `/api/open/${path}`), 400, path)
  }
  t.equal(may('Admin', '/api/open/...json'), 'allow', 'the route above admits an Admin as well')
  t.equal(may('Agente', '/api/open/x/...json'), 'allow', 'the same route is above')
  for (const path of ['..json', '.env', 'a...json', '....json'])
    t.equal(may('Agente', `/api/open/${path}`), 'allow', path)
})

// RW-41; RFC 3875 §4.1.5
t.test('a script on the way leads to no route that would not admit the request', async t => {
  const table = await tableOf(
    t,
    '/* {public: true}',
    '/api/*',
    '/api/admin/* {roles: [Admin]}',
    '/wiki/index.php/* {roles: [Agente]}',
    '/wiki/* {roles: [Admin]}',
    '/npm/* {allowInPath: [extension, encodedSlash]}',
    '/npm/admin {roles: [Admin]}',
    '/cms/* {allowInPath: [encodedSlash, semicolon]}',
    '/cms/admin {roles: [Admin]}'
  )
  const may = decisionsOf(table)
  const toAdmin = words`
    /index.php/api/admin/x /index.php/api/admin /index.php/api/admin.json /api/index.php/admin/x /api/app.PHP/admin
    /api/v1.php8/admin /api/a.php/b.cgi/admin/ /a.php/b.php/c.php/d.php/e.php/f.php/api/admin /api/index%2Ephp/admin
    /api/index.php%20/admin /api/index.php./admin /api/index.php+/ADMIN /cms/index.php%2Fadmin
    /cms/index.php;v=1/admin
  `
  for (const path of toAdmin) {
    t.equal(may('Agente', path), 400, path)
    t.not(may('anonymous', path), 'allow', path)
  }
  t.equal(may('Admin', '/api/index.php/admin/x'), 'allow', 'the other route admits an Admin as well')
  t.equal(may('Admin', '/index.php/api/admin/x'), 400, 'on a public route no token is checked')
  t.equal(may('anonymous', '/index.php/api/orders'), 400, 'from a public route to a private one')
  t.equal(may('anonymous', '/index.php/Main_Page'), 'allow', 'no other route is there')
  t.equal(may('anonymous', '/api.php'), 400, 'the end of the last segment is a format')
  t.equal(may('Agente', '/wiki/index.php/Main_Page'), 'allow', 'the route spells the script out')
  t.equal(may('Agente', '/wiki/index.php%20/Main_Page'), 400, 'spelled so it is another route')
  t.equal(may('Agente', '/npm/index.php/admin'), 'allow', 'the route allows extensions')
  t.equal(may('Agente', '/api/my.phpunit/admin'), 'allow', 'no script has that name')
})

// RW-52; RFC 3875 §4.1.5
t.test('a path below a script leads to no script that would not admit the request', async t => {
  const table = await tableOf(
    t,
    '/* {public: true}',
    '/admin.php {roles: [Admin]}',
    '/Setup.php {roles: [Admin]}',
    '/cgi-bin/*',
    '/cgi-bin/report.cgi {roles: [Admin]}',
    '/tools/* {allowInPath: [extension]}',
    '/tools/run.php {roles: [Admin]}',
    '/jobs.php {methods: [POST], roles: [Admin]}'
  )
  const may = decisionsOf(table)
  const toScript = ['x', 'x.css', 'x/y/z', 'index.php', 'b.php/c', '%C3%A9'].map(rest => `/admin.php/${rest}`)
  const respelt = ['/ADMIN.php/x', '/admin.ph%70/x', '/admin.php%20/x', '/admin.php./x', '/setup.php/x']
  for (const path of [...toScript, ...respelt]) {
    for (const who of ['anonymous', 'Agente', 'Admin']) t.equal(may(who, path), 400, `${path}: no token is checked`)
  }
  t.equal(may('Agente', '/cgi-bin/report.cgi/2026'), 400)
  t.equal(may('Admin', '/cgi-bin/report.cgi/2026'), 'allow')
  t.equal(may('Agente', '/cgi-bin/other.cgi/2026'), 'allow')
  t.equal(may('anonymous', '/admin.phpunit/x'), 'allow', 'no script has that name')
  t.equal(may('Agente', '/tools/run.php/x'), 'allow', 'the route allows extensions')
  t.equal(may('anonymous', '/jobs.php/x'), 'allow', 'a route of other methods leaves this one to the wider route')
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
  const may = decisionsOf(table)
  for (const path of ['/admin', '/admin/', '/ADMIN/', '/admin%20/', '/%61dmin', '/reports', '/reports/']) {
    t.equal(may('Agente', path), 400, path)
    t.equal(may('Admin', path), path.startsWith('/reports') ? 'allow' : 400, `${path}: public routes know nobody`)
  }
  t.equal(may('anonymous', '/admin/'), 400)
  t.equal(may('Agente', '/Reports/'), 400)
  t.equal(may('anonymous', '/admin/x'), 'allow')
  t.equal(may('anonymous', '/other/'), 'allow')
  t.equal(may('Agente', '/reports/7'), 'allow')
  t.equal(may('Agente', '/shop/'), 'allow', 'the route spells the directory out')
  t.equal(may('Agente', '/tools/'), 'allow', 'the route allows extensions')
  t.equal(may('Agente', '/api/'), 'allow', 'a parameter is no index file')
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
  const may = (path: string) => decisionsOf(table)('Agente', path)
  for (const path of ['/docs/admin', '/docs/admin/', '/guides/admin', '/guides/admin/', '/files', '/files/sub/'])
    t.equal(may(path), 400, path)
  for (const path of ['/docs/other', '/docs/x/list', '/guides/other/', '/files/sub/7', '/app/index.html/7'])
    t.equal(may(path), 'allow', path)
  t.same(table.match('GET', '/none'), { refusal: 'no-route' })
  for (const path of ['/files/7', '/files/a%20b', '/a%23b/default.html/'])
    t.same(Object.keys(table.match('GET', path)), ['route', 'path'], path)
})

t.test('one index file is enough to be asked about, beside the other readings of a path', async t => {
  const table = await tableOf(t, '/*', '/a {roles: [Admin]}', '/a.json/index.html {roles: [Supervisor]}')
  const match = table.match('GET', '/a.json')
  const others = match.refusal === undefined ? match.alsoReadAs : undefined
  t.same(others?.map(({ path }) => path).sort(), ['/a', '/a.json/index.html'])
})

// RW-62
t.test('a directory with several index files needs the right to all of them, in every spelling', async t => {
  const names = ['/*', '/index.html', '/index.php {methods: [GET]}', '/a/b.c/index.html', '/A/b.c/Default.aspx/*']
  const table = await tableOf(t, ...names, '/:site/%C3%89/INDEX.htm', '/b/:x/:page')
  const others = (method: string, path: string) => {
    const match = table.match(method, path)
    return match.refusal === undefined ? match.alsoReadAs?.map(route => route.path).sort() : match.refusal
  }
  t.same(others('GET', '/'), ['/index.html', '/index.php'])
  t.same(others('POST', '/'), ['/index.html'])
  for (const path of ['/a/b.c/', '/a/B.C', '/A/b%2Ec/'])
    t.same(others('GET', path), ['/A/b.c/Default.aspx/*', '/a/b.c/index.html'], path)
  for (const path of ['/x/%C3%89', '/X/%C3%A9/']) t.same(others('GET', path), ['/:site/%C3%89/INDEX.htm'], path)
  t.equal(others('GET', '/a/'), undefined)
  t.equal(others('GET', '/b/%C3%89'), undefined, 'there a parameter takes every name')
})
