// The steps before forwarding, each asked by itself: what it lets pass, and with which word it refuses.
import t from 'tap'
import { createAuthenticate } from '../../gateway/access/authenticate.ts'
import { checkCertificate, createAuthorize } from '../../gateway/access/authorize.ts'
import { bearerTokenOf } from '../../gateway/access/credentials.ts'
import { createLimitRate } from '../../gateway/access/limit-rate.ts'
import { createMatchRoute, onlyOf } from '../../gateway/access/match-route.ts'
import { originAllowed } from '../../gateway/access/socket-token.ts'
import { type GatewayError, TokenExpired, TokenStale } from '../../gateway/errors.ts'
import { beginForwardAuth } from '../../gateway/forward/forward-auth.ts'
import { GATEWAY_NAME } from '../../gateway/http/exchange.ts'
import type { Verdict } from '../../gateway/limits/limiter.ts'
import { loadRoutes } from '../../gateway/route-files/load.ts'
import { ownRoutes } from '../../gateway/routes/own-routes.ts'
import type { Route, RouteMatch } from '../../gateway/routes/route.ts'
import { exchangeOf, identityOf, requestHost, routeOf } from '../support/exchanges.ts'
import { routeFolder, tableOf } from '../support/route-files.ts'

const NO_ROUTE: RouteMatch = { refusal: 'no-route' }

const outcome = (error: { code: string; statusCode: number; reason: string | undefined } | undefined) =>
  error === undefined ? 'passes' : `${error.statusCode} ${error.code} ${error.reason}`

/** What `authenticate` makes of a match, and whether it asks for a token, stale or not. */
const authenticate = (
  parts: Partial<Route> | RouteMatch | undefined,
  { checked = identityOf() as unknown, hasToken = true, trusted = true } = {}
) => {
  let asked: unknown
  const exchange = exchangeOf()
  if (parts !== undefined && 'refusal' in parts) exchange.match = parts
  else if (parts !== undefined) {
    exchange.route = routeOf(parts)
    exchange.match = { route: exchange.route, path: '/x' }
  }
  const step = createAuthenticate({
    verifiedTokens: {
      check(text: string, { allowStale }: { allowStale: boolean }) {
        asked = [text, allowStale]
        return checked
      }
    } as never,
    revocationsTrusted: () => trusted,
    isOurs: () => false,
    tokenOf: () => (hasToken ? 'a-token' : undefined)
  })
  return { outcome: outcome(step(exchange)), identity: exchange.identity?.tokenId, asked }
}

t.test('authenticate lets pass what is public, and asks everybody else for a valid token', async t => {
  const untouched = { outcome: 'passes', identity: undefined, asked: undefined }
  t.same(authenticate({ public: true }), untouched)
  t.same(authenticate({ socketio: {} as never }), untouched)
  t.same(authenticate({ refusal: 'method', routes: [routeOf({})], public: true }), untouched)
  t.same(authenticate({ refusal: 'bad-path', reason: 'backslash', public: true }), untouched)
  const identified = { outcome: 'passes', identity: 'token-1', asked: ['a-token', false] }
  t.same(authenticate({}), identified)
  t.same(authenticate({ refusal: 'method', routes: [routeOf({})], public: false }), identified)
  t.same(authenticate(NO_ROUTE), identified)
  t.same(authenticate({ refusal: 'bad-path', reason: 'backslash', public: false }), identified)
  t.match(authenticate(undefined, { hasToken: false }), { outcome: '401 GW_UNAUTHENTICATED no-token' })
})

t.test('without a token, with a bad one, from another network or with old revocations nothing passes', async t => {
  for (const [expected, identity, parts] of [
    ['401 GW_UNAUTHENTICATED no-token', undefined, { hasToken: false }],
    ['401 GW_TOKEN_EXPIRED expired', undefined, { checked: new TokenExpired({ reason: 'expired' }) }],
    ['401 GW_UNAUTHENTICATED foreign-address', undefined, { checked: identityOf({ addresses: ['198.51.100.0/24'] }) }],
    ['passes', 'token-1', { checked: identityOf({ addresses: ['192.0.2.0/24'] }) }],
    ['passes', 'token-1', { checked: identityOf({ addresses: [] }) }],
    ['503 GW_UNAVAILABLE revocations-too-old', 'token-1', { trusted: false }],
    ['401 GW_TOKEN_STALE stale', undefined, { checked: new TokenStale({ reason: 'stale' }) }],
    [
      '503 GW_UNAVAILABLE revocations-too-old',
      undefined,
      { checked: new TokenStale({ reason: 'stale' }), trusted: false }
    ]
  ] as const)
    t.match(authenticate({}, parts), { outcome: expected, identity }, expected)
})

t.test('a public route refuses a token of this gateway wherever it cannot be taken out', async t => {
  const ours = `eyJ.x.${'s'.repeat(43)}`
  const step = createAuthenticate({
    verifiedTokens: {} as never,
    revocationsTrusted: () => true,
    isOurs: token => token === ours,
    tokenOf: () => undefined
  })
  const check = (asked: Parameters<typeof exchangeOf>[0], destination = '') => {
    const exchange = exchangeOf({ ...asked, route: { public: true } })
    if (exchange.route !== undefined) exchange.match = { route: exchange.route, path: '/x' }
    exchange.destination = destination
    return outcome(step(exchange))
  }
  const refused = '400 GW_BAD_REQUEST token-in-path'
  t.equal(check({}, '/y'), 'passes')
  t.equal(check({ target: `/x/${ours}` }), refused)
  t.equal(check({}, `/y/${ours}`), refused)
  t.equal(check({ fields: ['Host', ours] }), refused)
  t.equal(check({ fields: ['Host', 'gw.example', 'X-Forwarded-Host', ours], trusted: true }), refused)
})

t.test('only the questions about oneself may be asked with a stale token', async t => {
  for (const [path, allowStale] of [
    ['/auth/refresh', true],
    ['/auth/logout', true],
    ['/auth/me', false],
    ['/auth/admin/users', false],
    ['/health', false]
  ] as const)
    t.match(authenticate({ path, upstream: undefined }), { asked: ['a-token', allowStale] }, path)
  t.match(authenticate({ path: '/auth/refresh' }), { asked: ['a-token', false] }, 'of a backend')
})

const OPTIONS = { cloudUnassignedMayPass: false, revealReason: false, contact: undefined }

t.test('authorize refuses with the code of the decision, and reveals a reason only where it may', async t => {
  const check = (
    match: RouteMatch | undefined,
    options: { revealReason?: boolean; contact?: string } = {},
    who = identityOf()
  ) => {
    const exchange = exchangeOf({ identity: who })
    exchange.match = match
    return createAuthorize({ ...OPTIONS, ...options })(exchange)
  }
  const to = (parts: Partial<Route>): RouteMatch => ({ route: routeOf(parts), path: '/x' })

  t.equal(check(to({})), undefined)
  t.equal(outcome(check(undefined)), '404 GW_NO_ROUTE no-route')
  t.equal(outcome(check({ refusal: 'no-route' })), '404 GW_NO_ROUTE no-route')
  t.equal(outcome(check({ refusal: 'bad-path', reason: 'semicolon', public: true })), '400 GW_BAD_PATH semicolon')
  const method = check({ refusal: 'method', routes: [routeOf({ methods: new Set(['GET']) })], public: false })
  t.equal(outcome(method), '405 GW_METHOD_NOT_ALLOWED method')
  t.same(method?.headers, { allow: 'GET, HEAD' })

  const admin = to({ roles: ['Admin', 'Supervisor'] })
  t.equal(outcome(check(admin)), '403 GW_FORBIDDEN role-missing')
  t.equal(check(admin)?.message, 'Your access does not allow this')
  t.equal(check(admin, { revealReason: true })?.message, 'One of these profiles is needed: Admin, Supervisor')
  t.equal(
    check(admin, { revealReason: true, contact: 'ops@corp.example' })?.message,
    'One of these profiles is needed: Admin, Supervisor. Ask ops@corp.example'
  )
  t.equal(check(admin, { contact: 'ops@corp.example' })?.message, 'Your access does not allow this')

  const written = check({ ...to({}), alsoWrites: [admin] } as RouteMatch, { revealReason: true })
  t.equal(outcome(written), '403 GW_FORBIDDEN destination')
  t.equal(written?.message, 'Your access does not allow this', 'profiles would not open what it writes to')

  const client = identityOf({ kind: 'client' })
  const kind = check(to({ tokenKinds: ['login'], roles: ['Admin'] }), { revealReason: true }, client)
  t.equal(outcome(kind), '403 GW_FORBIDDEN token-kind')
  const outside = check(to({ from: [], roles: ['Admin'] }), { revealReason: true })
  t.equal(outcome(outside), '403 GW_FORBIDDEN address')
  for (const { message, profiles } of [kind, outside] as GatewayError[])
    t.same([message, profiles], ['Your access does not allow this', undefined], 'no profile would help')

  const { user } = identityOf()
  const nobodyYet = identityOf({ user: { ...user, accessStatus: 'unassigned' } })
  const assigned = to({ requireAssigned: true, roles: ['Agente'] })
  t.equal(outcome(check(assigned, {}, nobodyYet)), '403 GW_UNASSIGNED unassigned')
  t.equal(check(assigned, {}, nobodyYet)?.message, 'An administrator must first give you access')
  t.equal(check(assigned, { revealReason: true }, nobodyYet)?.message, 'A profile and an area are needed')
})

t.test('a bearer token is found in every spelling of its scheme', async t => {
  const ask = (value?: string) =>
    bearerTokenOf(exchangeOf({ fields: value === undefined ? [] : ['Authorization', value] }))
  for (const [value, token] of [
    ['Bearer abc.def', 'abc.def'],
    ['bearer abc.def', 'abc.def'],
    ['Bearer  xyz', 'xyz'],
    ['bearer  xyz', 'xyz'],
    ['BEARER q=', 'q='],
    ['Bearer', undefined],
    ['Bearer  ', undefined],
    ['Bearer a b', 'a b'],
    ['bearer a b', undefined],
    ['Bearerabc', undefined],
    ['Basic abc', undefined],
    [undefined, undefined]
  ] as const)
    t.equal(ask(value), token, value ?? 'none')
})

t.test('of an upgrade exactly one listed Origin passes; none passes only without a cookie', async t => {
  const allowed = ['https://a.example', 'https://b.example', 'null']
  const check = (sent: string[], byCookie = false) => originAllowed({ sent, allowed, byCookie })
  t.equal(check([]), true)
  t.equal(check([], true), false)
  for (const byCookie of [true, false]) {
    t.equal(check(['https://b.example'], byCookie), true)
    t.equal(check(['null'], byCookie), false)
    t.equal(check(['https://c.example'], byCookie), false)
    t.equal(check(['https://A.example'], byCookie), false)
    t.equal(check(['https://a.example', 'https://a.example'], byCookie), false)
  }
})

const verdictOf = (parts: Partial<Verdict> = {}): Verdict => ({
  allowed: true,
  limit: 10,
  remaining: 5,
  resetMs: 1500,
  ...parts
})

t.test('the answer speaks of the tightest limit, and a refusal says for how long', async t => {
  const step = (verdict: Verdict | Promise<Verdict>) =>
    createLimitRate({ take: () => verdict } as never, { max: 1, windowMs: 1 })
  const exchange = exchangeOf()
  const [wide, tight] = [verdictOf({ remaining: 5 }), verdictOf({ remaining: 4 })]
  t.equal(await step(wide)(exchange), undefined)
  t.equal(exchange.limit, wide)
  t.equal(await step(tight)(exchange), undefined)
  t.equal(exchange.limit, tight)
  t.equal(await step(wide)(exchange), undefined)
  t.equal(exchange.limit, tight)
  t.equal(await step(verdictOf({ remaining: 4, limit: 9 }))(exchange), undefined)
  t.equal(exchange.limit, tight, 'as tight as before changes nothing')

  const over = verdictOf({ allowed: false, remaining: 7, resetMs: 1001 })
  const refusal = await step(Promise.resolve(over))(exchange)
  t.equal(outcome(refusal), '429 GW_RATE_LIMITED rate-limit')
  t.same(refusal?.headers, { 'retry-after': '2' })
  t.equal(exchange.limit, over)
  t.same((await step(verdictOf({ allowed: false, resetMs: 0 }))(exchangeOf()))?.headers, { 'retry-after': '1' })
})

const HEADS: readonly (readonly [expected: string, version: string, ...fields: string[]])[] = [
  ['passes', '1.1', 'Host', 'gw.example:8080'],
  ['505 GW_BAD_REQUEST http-version', '1.2', 'Host', 'a'],
  ['505 GW_BAD_REQUEST http-version', '2.0', 'Host', 'a'],
  ['505 GW_BAD_REQUEST http-version', '0.9', 'Host', 'a'],
  ['400 GW_BAD_REQUEST host-count', '1.1'],
  ['400 GW_BAD_REQUEST host-count', '1.1', 'Host', 'a', 'Host', 'a'],
  ['400 GW_BAD_REQUEST host-count', '1.0', 'Host', 'a', 'Host', 'a'],
  ['passes', '1.0'],
  ['passes', '1.0', 'Host', 'a'],
  ['400 GW_BAD_REQUEST two-authorizations', '1.1', 'Host', 'a', 'Authorization', 'x', 'Authorization', 'x'],
  ['passes', '1.1', 'Host', 'a', 'Authorization', 'x'],
  ['508 GW_BAD_REQUEST loop', '1.1', 'Host', 'a', 'X-Portaria-Via', `abc, ${GATEWAY_NAME}`],
  ['passes', '1.1', 'Host', 'a', 'X-Portaria-Via', 'abc'],
  ['passes', '1.1', 'Host', 'a', 'Transfer-Encoding', 'Chunked'],
  ['501 GW_BAD_REQUEST transfer-coding', '1.1', 'Host', 'a', 'Transfer-Encoding', 'gzip, chunked'],
  ['400 GW_BAD_REQUEST transfer-encoding', '1.0', 'Host', 'a', 'Transfer-Encoding', 'chunked'],
  [
    '400 GW_BAD_REQUEST transfer-encoding',
    '1.1',
    'Host',
    'a',
    ...Array(2).fill(['Transfer-Encoding', 'chunked']).flat()
  ]
]
const HOSTS = {
  good: ['a', 'A-1.example', '10.0.0.1:80', '[2001:db8::1]:443', '[::ffff:1.2.3.4]', 'a%2Fb', 'x_y~z', 'a:99999'],
  bad: 'a b¦user@a¦a/b¦a?b¦a#b¦[::1¦::1¦a:¦a:x¦a:123456¦a,b¦a%2¦[g]¦é¦[]¦%gg¦a:1 ¦'.split('¦')
}

t.test('a head that two readers could take for different requests is refused before its path is read', async t => {
  const table = await tableOf(t, '/x')
  const { matchPlain } = createMatchRoute(() => table, requestHost)
  const check = (version: string, ...fields: string[]) => {
    const [major = 0, minor = 0] = version.split('.').map(Number)
    const exchange = exchangeOf({ fields, version: [major, minor], target: '/x' })
    matchPlain(exchange)
    t.equal(exchange.match === undefined, exchange.refusal !== undefined, 'only what passes is matched')
    return outcome(exchange.refusal)
  }
  for (const [expected, ...sent] of HEADS) t.equal(check(...sent), expected, sent.join(' '))
  for (const host of HOSTS.good) t.equal(check('1.1', 'Host', host), 'passes', host)
  for (const host of HOSTS.bad) t.equal(check('1.1', 'Host', host), '400 GW_BAD_REQUEST host-malformed', host)
})

t.test('a target is matched in origin form, or in absolute form under the Host that was sent', async t => {
  const table = await tableOf(t, '/x/:id', '/')
  const { matchPlain, matchUnusual } = createMatchRoute(() => table, requestHost)
  const check = (target: string, host = 'Gw.example') => {
    const exchange = exchangeOf({ fields: ['Host', host], target })
    exchange.query = ''
    exchange.path = ''
    matchPlain(exchange)
    const plain = exchange.match !== undefined
    const refusal = matchUnusual(exchange)
    const result = refusal === undefined ? exchange.route?.path : String(refusal.reason)
    return [result, exchange.path, exchange.query, plain]
  }
  t.same(check('/x/1'), ['/x/:id', '/x/1', '', true])
  t.same(check('/x/1?a=/b?c'), ['/x/:id', '/x/1', '?a=/b?c', true])
  t.same(check('/x/1?'), ['/x/:id', '/x/1', '?', true])
  t.same(check('/x/%41?q'), ['/x/:id', '/x/A', '?q', false])
  t.same(check('http://gw.example/x/1?q'), ['/x/:id', '/x/1', '?q', true])
  t.same(check('HTTPS://GW.EXAMPLE/x/1'), ['/x/:id', '/x/1', '', true])
  t.same(check('http://gw.example'), ['/', '/', '', true])
  t.same(check('http://gw.example?q'), ['/', '/', '?q', true])
  for (const target of ['http://other.example/x/1', 'x/1', '*', 'ftp://gw.example/x/1', 'xhttp://gw.example/x/1'])
    t.equal(check(target)[0], 'target-form', target)
  t.equal(check('http://gw.example/x\n/1')[0], 'target-form')
  t.equal(check('/x/1#y')[0], 'fragment')
  t.equal(check('/x/1?q#y')[0], 'fragment')
  t.equal(check('/nothing')[0], undefined, 'no route is no fault of the path')
  t.equal(check('/x/a%5cb')[0], 'backslash')
  t.equal(check(`/x/${'a'.repeat(8192 - 3)}`)[0], '/x/:id')
  t.equal(check(`/x/${'a'.repeat(8192 - 2)}`)[0], 'target-too-long')
  const noHost = exchangeOf({ fields: [], version: [1, 0], target: 'http://gw.example/x/1' })
  matchPlain(noHost)
  t.equal(noHost.refusal?.reason, 'target-form')
})

t.test('a faulty request is not matched, and a preflight is matched by the method it asks for', async t => {
  const table = await tableOf(
    t,
    '/x {methods: [PUT]}',
    '/x {methods: [OPTIONS], public: true}',
    '/y {methods: [OPTIONS]}'
  )
  let asked = 0
  const { matchPlain, matchUnusual } = createMatchRoute(() => {
    asked++
    return table
  }, requestHost)
  const exchange = exchangeOf({ fields: [], target: '/x' })
  matchPlain(exchange)
  t.equal(matchUnusual(exchange), exchange.refusal)
  t.equal(exchange.refusal?.reason, 'host-count')
  const kept = new TokenExpired({ reason: 'kept' })
  const checked = exchangeOf({ target: '/x' })
  checked.refusal = kept
  matchPlain(checked)
  t.equal(checked.refusal, kept)
  t.equal(asked, 0)

  const fields = ['Host', 'a', 'Origin', 'https://a.example', 'Access-Control-Request-Method', 'put']
  const preflight = exchangeOf({ method: 'OPTIONS', fields, target: '/x' })
  matchPlain(preflight)
  t.equal(preflight.route?.id, 'PUT /x', 'whoever may ask for OPTIONS')
  matchUnusual(preflight)
  t.equal(asked, 1, 'matched once')
  const options = exchangeOf({ method: 'OPTIONS', target: '/y' })
  matchPlain(options)
  t.equal(options.route?.path, '/y')
})

t.test('of routes for proxies that ask and routes for requests, neither exists for the other', async t => {
  const [own, asked] = [routeOf({ public: false }), routeOf({ external: true, public: true })]
  const methods = (routes: readonly Route[], isPublic = false): RouteMatch => ({
    refusal: 'method',
    routes,
    public: isPublic
  })
  const found: RouteMatch = { route: own, path: '/x' }
  t.same(onlyOf(found, false), found)
  t.same(onlyOf(found, true), NO_ROUTE)
  t.same(onlyOf(NO_ROUTE, false), NO_ROUTE)
  t.same(onlyOf(methods([own, asked]), false), methods([own]))
  t.same(onlyOf(methods([own, asked]), true), methods([asked], true))
  t.same(onlyOf(methods([own, routeOf({ public: true })]), false).refusal, 'method')
  t.match(onlyOf(methods([own, routeOf({ public: true })]), false), { public: false }, 'one of them is private')
  t.same(onlyOf(methods([own]), true), NO_ROUTE)
})

t.test('a proxy that asks about a preflight is answered by the public route of either method', async t => {
  const routes = [
    '{ path: /asked, external: true, public: true, methods: [PUT] }',
    '{ path: /options, external: true, methods: [PUT] }',
    '{ path: /options, external: true, public: true, methods: [OPTIONS] }',
    '{ path: /none, external: true, methods: [PUT] }',
    '{ path: /none, external: true, methods: [OPTIONS] }'
  ]
  const folder = await routeFolder(t, { 'a.yaml': `routes: [${routes}]` })
  const { table } = await loadRoutes(folder, ownRoutes())
  const { matchPlain } = createMatchRoute(() => table, requestHost)
  const matched = (path: string) => {
    const named = ['X-Forwarded-Method', 'OPTIONS', 'X-Forwarded-Uri', path, 'X-Forwarded-Host', 'app.example']
    const asks = ['Origin', 'https://a.example', 'Access-Control-Request-Method', 'PUT']
    const exchange = exchangeOf({ target: '/auth/forward', fields: ['Host', 'gw', ...named, ...asks], trusted: true })
    t.equal(beginForwardAuth(exchange), undefined)
    matchPlain(exchange)
    return exchange.route?.id
  }
  t.equal(matched('/asked'), 'PUT /asked')
  t.equal(matched('/options'), 'OPTIONS /options')
  t.equal(matched('/none'), 'PUT /none')
})

t.test('a certificate must be for the Host that is sent, if one is', async t => {
  const check = (parts: Parameters<typeof exchangeOf>[0]) =>
    outcome(checkCertificate(exchangeOf({ covers: () => false, ...parts })))
  t.equal(check({}), '421 GW_BAD_REQUEST misdirected')
  t.equal(check({ covers: () => true }), 'passes')
  t.equal(check({ covers: undefined }), 'passes')
  t.equal(check({ trusted: true }), 'passes')
  t.equal(check({ fields: [], version: [1, 0] }), 'passes')
})
