// What a request must bring beside a valid token, and where that token may stand: one step asked at a time.
import t from 'tap'
import { createAuthenticate } from '../../gateway/access/authenticate.ts'
import { createAuthorize } from '../../gateway/access/authorize.ts'
import { checkAddress, checkCertificate } from '../../gateway/access/check-connection.ts'
import { createCredentials } from '../../gateway/access/credentials.ts'
import { createLimitRate, createLimitRoute } from '../../gateway/access/limit-rate.ts'
import { createMatchRoute } from '../../gateway/access/match-route.ts'
import { socketToken, withoutPublicTokens } from '../../gateway/access/socket-token.ts'
import type { GatewayError } from '../../gateway/errors.ts'
import type { Limiter } from '../../gateway/limits/limiter.ts'
import type { Route, RouteRateLimit } from '../../gateway/routes/route.ts'
import type { Settings } from '../../gateway/settings/settings.ts'
import { parseNetwork } from '../../gateway/values/addresses.ts'
import { exchangeOf, identityOf, requestHost, routeOf } from '../support/exchanges.ts'
import { tableOf } from '../support/route-files.ts'

const reasonOf = (refusal: GatewayError | undefined) => refusal?.reason ?? 'passes'

t.test('a connection counts for the hosts of its certificate, unless a trusted proxy has checked that', async t => {
  const covers = (name: string) => name === 'gw.example'
  for (const [expected, asked] of [
    ['passes', { fields: ['Host', 'GW.example:8443'], covers }],
    ['misdirected', { fields: ['Host', 'other.example'], covers }],
    ['passes', { fields: ['Host', 'other.example'], covers, trusted: true }],
    ['passes', { fields: [], version: [1, 0], covers }],
    ['passes', { fields: ['Host', 'other.example'] }]
  ] as const)
    t.equal(reasonOf(checkCertificate(exchangeOf(asked))), expected, JSON.stringify(asked))
})

const from = ['192.0.2.0/24', '2001:db8::/32'].flatMap(text => parseNetwork(text) ?? [])

t.test('only clients of the networks of a route pass, whatever is checked first', async t => {
  const authorize = createAuthorize({ cloudUnassignedMayPass: false, revealReason: false, contact: undefined })
  for (const [peer, route, expected] of [
    ['192.0.2.1', { from }, 'passes'],
    ['2001:db8::7', { from }, 'passes'],
    ['198.51.100.1', { from }, 'address'],
    ['198.51.100.1', { from, public: true }, 'address'],
    ['198.51.100.1', {}, 'passes']
  ] as const) {
    const exchange = exchangeOf({ peer, route, identity: identityOf() })
    exchange.match = { route: routeOf(route), path: '/x' }
    t.equal(reasonOf(checkAddress(exchange)), expected, peer)
    t.equal(reasonOf(authorize(exchange)), expected, peer)
  }
  t.equal(checkAddress(exchangeOf({ peer: '198.51.100.1' })), undefined, 'no route has no networks')
})

t.test('the host that a request is for decides which routes apply, and a proxy names its own', async t => {
  const table = await tableOf(t, '/x {host: a.example}', '/y')
  const { matchPlain } = createMatchRoute(() => table, requestHost)
  const forwarded = ['Host', 'gw.example', 'X-Forwarded-Host', 'A.example']
  for (const [expected, host, asked] of [
    ['a.example/x', 'a.example:8443', { fields: ['Host', 'A.Example:8443'] }],
    ['no-route', 'gw.example', { fields: ['Host', 'gw.example'] }],
    ['no-route', 'gw.example', { fields: forwarded }],
    ['a.example/x', 'a.example', { fields: forwarded, trusted: true }]
  ] as const) {
    const exchange = exchangeOf({ ...asked, target: '/x' })
    matchPlain(exchange)
    t.same([exchange.match?.refusal ?? exchange.route?.id, exchange.host], [expected, host], asked.fields.join(' '))
  }
  const askedAbout = (host: string) => {
    const exchange = exchangeOf({ target: '/x' })
    exchange.forwardAuth = 'plain'
    exchange.host = host
    matchPlain(exchange)
    return exchange.refusal?.reason ?? exchange.match?.refusal
  }
  t.equal(askedAbout('a.example'), 'no-route', 'what is forwarded is never checked for a proxy')
  t.equal(askedAbout(''), 'forward-auth-host', 'the Host of the proxy is only the gateway')
})

// RV-28
t.test('a private path that is read as another is refused only after its token; a public one at once', async t => {
  const table = await tableOf(t, '/api/*', '/api/admin {roles: [Admin]}', '/open/* {public: true}', '/open/admin')
  const { matchPlain, matchUnusual } = createMatchRoute(() => table, requestHost)
  const refusedAt = (target: string) => {
    const exchange = exchangeOf({ target })
    matchPlain(exchange)
    matchUnusual(exchange)
    t.equal(exchange.match?.refusal, 'bad-path', target)
    return exchange.refusal?.reason
  }
  t.same([refusedAt('/api/ADMIN'), refusedAt('/open/ADMIN')], [undefined, 'lax-reading'])
})

t.test('authorize tells the kinds of tokens apart, and shows no method of a private path without one', async t => {
  const authorize = createAuthorize({ cloudUnassignedMayPass: false, revealReason: false, contact: undefined })
  for (const [kind, expected] of [
    ['login', 'passes'],
    ['personal', 'token-kind'],
    ['client', 'token-kind']
  ] as const) {
    const exchange = exchangeOf({ identity: identityOf({ kind }) })
    exchange.match = { route: routeOf({ tokenKinds: ['login'] }), path: '/x' }
    t.equal(reasonOf(authorize(exchange)), expected, kind)
  }
  for (const isPublic of [true, false]) {
    const exchange = exchangeOf()
    exchange.match = { refusal: 'method', routes: [routeOf({})], public: isPublic }
    t.match(authorize(exchange), { statusCode: isPublic ? 405 : 401, reason: isPublic ? 'method' : 'no-token' })
  }
})

// RV-109
t.test('a token of ours is refused where it would belong to the application', async t => {
  const token = `pt_${'a'.repeat(43)}`
  const asked: unknown[] = []
  const identify = createAuthenticate({
    verifiedTokens: {
      check(_text: string, { host }: { host?: string }) {
        asked.push(host)
        return identityOf()
      }
    } as never,
    revocationsTrusted: () => true,
    isOurs: () => false,
    tokenOf: () => 'of the cookie'
  })
  const check = (route: Partial<Route>, ...fields: string[]) => {
    const exchange = exchangeOf({ fields: ['Host', 'gw.example', ...fields], route })
    exchange.match = { route: routeOf(route), path: '/x' }
    exchange.sessionHost = 'a.example'
    return reasonOf(identify(exchange))
  }
  for (const [name, value, expected] of [
    ['Authorization', `Bearer ${token}`, 'token-for-application'],
    ['Sec-WebSocket-Protocol', `chat, ${token}`, 'token-for-application'],
    ['Authorization', 'Bearer of-the-application', 'passes'],
    ['X-Other', token, 'passes']
  ] as const) {
    t.equal(check({ ownAuthorization: true }, name, value), expected, `${name}: ${value}`)
    t.equal(check({}, name, value), 'passes', `${name}: ${value} on another route`)
  }
  t.same(new Set(asked), new Set(['a.example']), 'a cookie counts on its own host')
})

t.test('an upgrade passes on what the application offers, but no token of ours', async t => {
  const token = `pt_${'a'.repeat(43)}`
  const fields = ['Sec-WebSocket-Protocol', `chat, bearer,${token}`]
  const exchange = exchangeOf({ fields, target: `/x?access_token=${token}` })
  const route = { ownAuthorization: true, websocket: { tokenInQuery: true } } as never
  const offer = socketToken(exchange, route)
  t.same(offer, {
    token: undefined,
    subprotocols: ['chat', 'bearer', token],
    bearerOffered: false,
    query: `?access_token=${token}`
  })
  const isOurs = () => false
  t.same(withoutPublicTokens(offer, exchange, isOurs), { ...offer, subprotocols: ['chat', 'bearer'] })
  exchange.identity = identityOf()
  t.same(withoutPublicTokens(offer, exchange, isOurs), offer, 'whoever has a token offers what is meant')
})

t.test('a route counts by its own name, and by address, person or both', async t => {
  const taken: unknown[] = []
  const limiter = {
    take: (...counted: unknown[]) => {
      taken.push(counted)
      return { allowed: true, limit: 1, remaining: 0, resetMs: 1 }
    }
  } as unknown as Limiter
  const [known, unknown] = [identityOf(), undefined]
  const keyOf = async (by: RouteRateLimit['by'], identity: typeof known | undefined) => {
    const rateLimit = { max: 5, windowMs: 1000, by }
    await createLimitRoute(limiter)(
      exchangeOf({ peer: '2001:db8::7', route: { id: 'GET /x', rateLimit }, ...(identity && { identity }) })
    )
    return taken.pop()
  }
  const counted = (key: string) => ['route GET /x', key, 5, 1000]
  t.same(await keyOf('ip', known), counted('2001:db8::/64'))
  t.same(await keyOf('user', known), counted('u7'))
  t.same(await keyOf('both', known), counted('u7@2001:db8::/64'))
  for (const by of ['ip', 'user', 'both'] as const) t.same(await keyOf(by, unknown), counted('2001:db8::/64'), by)
  t.equal(await createLimitRoute(limiter)(exchangeOf({ route: {} })), undefined)
  t.equal(await createLimitRoute(limiter)(exchangeOf()), undefined)
  t.same(taken, [], 'without a limit nothing is counted')
  await createLimitRate(limiter, { max: 9, windowMs: 60_000 })(exchangeOf({ peer: '2001:db8::7' }))
  t.same(taken, [['global', '2001:db8::/64', 9, 60_000]])
})

const credentialsOf = (secret: string, previousSecrets: readonly string[] = [], browserSession = true) => {
  const urls = { publicUrl: 'https://gw.example', frontendUrl: 'https://gw.example', corsOrigins: [] }
  const settings = { ...urls, browserSession, jwt: { secret, previousSecrets } } as unknown as Settings
  const routes = () => ({ hosts: ['a.example'], namesHost: (name: string) => name === 'a.example' })
  const verifiedTokens = { identify: () => identityOf() }
  return createCredentials(settings, { verifiedTokens, tokens: {} } as never, routes, { policy: '', html: () => '' })
}

t.test('a token in Authorization counts before the cookie, and an upgrade has it where it offers it', async t => {
  const basic = (password: string) => `Basic ${Buffer.from(`maria:${password}`).toString('base64')}`
  const offering = (token: string | undefined) => ({ token, subprotocols: [], bearerOffered: false, query: '' })
  for (const [expected, authorization, route, offer] of [
    ['of-the-cookie', undefined, {}],
    ['x', 'Bearer x', {}],
    ['of-the-cookie', 'Bearer x', { ownAuthorization: true }],
    ['pt_x', basic('pt_x'), { basic: true }],
    [undefined, basic('pt_x'), {}],
    ['offered', 'Bearer x', {}, offering('offered')],
    [undefined, 'Bearer x', {}, offering(undefined)],
    ['of-the-cookie', undefined, {}, offering(undefined)]
  ] as const) {
    const sent = authorization === undefined ? [] : ['Authorization', authorization]
    const cookie = ['Cookie', '__Host-portaria_session=of-the-cookie']
    const exchange = exchangeOf({
      fields: ['Host', 'gw.example', ...cookie, ...sent],
      route: { browser: true, ...route }
    })
    exchange.offer = offer
    t.equal(credentialsOf('s').tokenOf(exchange), expected, `${authorization} ${JSON.stringify(route)} ${offer?.token}`)
  }
  const { answers, sessionCookie, renewCookie } = credentialsOf('s', [], false)
  t.same(
    [answers.loginAddress, sessionCookie, renewCookie],
    [undefined, undefined, undefined],
    'BROWSER_SESSION is off'
  )
  t.type(credentialsOf('s').answers.loginAddress, 'function')
})

t.test('a login that JWT_SECRET is changed during goes on', async t => {
  const [before, after] = [credentialsOf('old').hostLogin, credentialsOf('new', ['old']).hostLogin]
  const onHost = (target: string, cookie = '') => {
    const exchange = exchangeOf({ target, fields: ['Host', 'a.example', 'Cookie', cookie] })
    exchange.host = 'a.example'
    return exchange
  }
  const { address, setCookie } = before.begin(onHost('/d'), '/d')
  const challenge = new URL(address).searchParams.get('challenge') ?? ''
  const { pathname, search } = new URL(before.codeAddress(identityOf(), 'https://a.example/d', challenge) ?? '')
  t.match(after.redeem(onHost(pathname + search, setCookie), 'a.example'), { path: '/d' })
})
