// What a request must bring beside a valid token, and where that token may stand: one step asked at a time.
import t from 'tap'
import { createCredentials } from '../../gateway/access/credentials.ts'
import { createLimitRate, createLimitRoute } from '../../gateway/access/limit-rate.ts'
import { socketToken, withoutPublicTokens } from '../../gateway/access/socket-token.ts'
import type { Limiter } from '../../gateway/limits/limiter.ts'
import type { RouteRateLimit } from '../../gateway/routes/route.ts'
import type { Settings } from '../../gateway/settings/settings.ts'
import { exchangeOf, identityOf } from '../support/exchanges.ts'

t.test('an upgrade passes on what the application offers; on a public route, no token of ours', async t => {
  const token = `pt_${'a'.repeat(43)}`
  const offered = (protocols: string, flags: object) => {
    const exchange = exchangeOf({
      fields: ['Sec-WebSocket-Protocol', protocols, 'Authorization', 'Bearer other'],
      target: '/x?access_token=foreign'
    })
    const route = { ownAuthorization: false, public: false, websocket: { tokenInQuery: true }, ...flags } as never
    return { exchange, offer: socketToken(exchange, route) }
  }
  const isOurs = () => false
  for (const flags of [{ ownAuthorization: true }, { public: true }]) {
    const { exchange, offer } = offered(`chat, bearer,${token}, v2`, flags)
    t.same(offer, {
      token: undefined,
      subprotocols: ['chat', 'bearer', token, 'v2'],
      bearerOffered: false,
      query: '?access_token=foreign'
    })
    const left = { ...offer, subprotocols: ['chat', 'v2'], bearerOffered: true }
    t.same(withoutPublicTokens(offer, exchange, isOurs), left, 'browsers require an answer to what they offered')
    exchange.identity = identityOf()
    t.same(withoutPublicTokens(offer, exchange, isOurs), offer, 'whoever has a token offers what is meant')
  }
  for (const foreign of ['bearer, their-own, chat', 'bearer', `chat, ${'b'.repeat(50)}`]) {
    const { exchange, offer } = offered(foreign, { public: true })
    t.same(withoutPublicTokens(offer, exchange, isOurs), offer, foreign)
  }
  const { exchange, offer } = offered(`${token}, chat`, { public: true })
  t.match(withoutPublicTokens(offer, exchange, isOurs), { subprotocols: ['chat'], bearerOffered: false })
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
  const verifiedTokens = { check: () => identityOf() }
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
  const steps = [answers.loginAddress, sessionCookie, renewCookie]
  t.same(steps, [undefined, undefined, undefined], 'BROWSER_SESSION is off')
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
