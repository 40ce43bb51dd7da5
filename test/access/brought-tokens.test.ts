// Where a request's token may stand: the session cookie, an upgrade's subprotocol or query, the password of Basic.
import t from 'tap'
import { createBasicToken } from '../../gateway/access/credentials.ts'
import { createSessionCookie, ownCookies } from '../../gateway/access/session-cookie.ts'
import { socketToken } from '../../gateway/access/socket-token.ts'
import { Unauthenticated, Unavailable } from '../../gateway/errors.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { Identity } from '../../gateway/identity.ts'
import { exchangeOf, identityOf, ownHostsOf } from '../support/exchanges.ts'
import { words } from '../support/words.ts'

const reasonOf = <T>(ask: () => T): T | string => {
  try {
    return ask()
  } catch (error) {
    const { code, reason } = error as { code: string; reason: string }
    return `${code} ${reason}`
  }
}

const startSession = (
  publicUrl = 'https://gw.example',
  identities: Readonly<Record<string, Identity>> = {},
  ...named: string[]
) => {
  const replaced: string[] = []
  const session = createSessionCookie({
    publicUrl,
    ...ownHostsOf(publicUrl, ...named),
    verifiedTokens: {
      check: (token, options) =>
        (options?.allowStale === true ? identities[token] : undefined) ?? new Unauthenticated({ reason: 'x' })
    },
    outlived: () => undefined,
    endReplaced: async ({ tokenId }) => {
      if (tokenId === 'login-kept') throw new Unavailable({ reason: 'kept' })
      replaced.push(tokenId)
    }
  })
  return { session, replaced }
}

const cookie = (value: string, ...fields: string[]) => ['Host', 'gw.example', 'Cookie', value, ...fields]
const TEXT = 'Path=/; HttpOnly; SameSite=Lax'

t.test('the cookie is heard on browser routes and for questions about the session, and nowhere else', async t => {
  const { session } = startSession()
  const heard = (route: object | undefined, fields = cookie('__Host-portaria_session=abc')) =>
    reasonOf(() => session.tokenOf(exchangeOf({ fields, ...(route === undefined ? {} : { route }) })))
  t.equal(heard({ browser: true }), 'abc')
  t.equal(heard({}), undefined)
  t.equal(heard(undefined), undefined)
  for (const path of ['/auth/me', '/auth/refresh', '/auth/logout']) {
    t.equal(heard({ path, upstream: undefined }), 'abc', path)
    t.equal(heard({ path }), undefined, `${path} of a backend`)
  }
  for (const path of ['/auth/admin/users', '/auth/login', '/health'])
    t.equal(heard({ path, upstream: undefined }), undefined, path)
  t.equal(
    heard({ browser: true }, cookie('__Host-portaria_session=abc', 'Authorization', 'Basic x')),
    undefined,
    'Authorization alone is checked when it is sent'
  )
  const other = cookie('__Host-portaria_session=abc', 'Authorization', 'Basic x')
  t.equal(heard({ browser: true, ownAuthorization: true }, other), 'abc', 'unless it is of the application')
  t.equal(heard({ browser: true }, cookie('__Host-portaria_session=pt_x')), undefined, 'no access token in a cookie')
})

t.test('a session cookie is read part by part, once each', async t => {
  const { session } = startSession()
  const read = (value: string) =>
    reasonOf(() => session.tokenOf(exchangeOf({ fields: cookie(value), route: { browser: true } })))
  const name = '__Host-portaria_session'
  for (const [value, token] of [
    [`${name}=a`, 'a'],
    [`x=1; ${name}=a;y=2`, 'a'],
    [` ${name} = a `, 'a'],
    [`\t${name}\t=\ta\t; x=1`, 'a'],
    [`${name}=a; ${name}_1=b; ${name}_2=c`, 'abc'],
    [`${name}_2=c; ${name}_1=b; ${name}=a`, 'abc'],
    [`${name}=a; ${name}_3=d`, 'a'],
    [`${name}_1=b`, undefined],
    [`${name}=`, ''],
    [`${name}=a=b`, 'a=b'],
    [`x=1; x=2; ${name}=a`, 'a'],
    ['portaria_session=a', undefined],
    [`x${name}=a`, undefined],
    [`${name}`, undefined],
    ['=x', undefined],
    // AD-14: browsers see no `__Host-` after U+00A0, and take such a cookie from a sibling domain.
    [`\xa0${name}=a`, undefined],
    [`\xa0${name}=b; ${name}=a`, 'a'],
    // AD-14: somebody else has set one of them.
    [`${name}=a; ${name}=b`, 'GW_BAD_REQUEST two-session-cookies'],
    [`${name}=a; ${name}_1=b; ${name}_1=c`, 'GW_BAD_REQUEST two-session-cookies']
  ] as const) {
    t.equal(read(value), token, value)
  }
  const plain = startSession('http://gw.example').session
  const onHttp = (value: string) => plain.tokenOf(exchangeOf({ fields: cookie(value), route: { browser: true } }))
  t.equal(onHttp('portaria_session=a; portaria_session_1=b'), 'ab')
  t.equal(onHttp('__Host-portaria_session=a'), undefined, 'without TLS the name has no prefix')
  t.equal(session.tokenOf(exchangeOf({ route: { browser: true } })), undefined)
  const ofPublicUrl = () => session.loginOf(exchangeOf({ fields: cookie(`${name}=a; ${name}=a`) }))
  t.equal(reasonOf(ofPublicUrl), 'GW_BAD_REQUEST two-session-cookies')
})

// [method, is the gateway's own, Sec-Fetch-Site, Origin, others, what becomes of it]
const CROSS = 'GW_BAD_ORIGIN cookie-cross-site'
const ORIGIN = 'GW_BAD_ORIGIN cookie-origin'
const ORIGINS: readonly (readonly [string, boolean, string | undefined, string | undefined, string])[] = [
  ['GET', false, undefined, undefined, 'a'],
  ['GET', false, 'cross-site', undefined, 'a'],
  ['GET', false, 'none', undefined, 'a'],
  ['HEAD', false, 'same-site', undefined, 'a'],
  ['OPTIONS', false, 'cross-site', undefined, 'a'],
  ['GET', true, undefined, undefined, 'a'],
  ['GET', true, 'same-origin', undefined, 'a'],
  ['GET', true, 'none', undefined, 'a'],
  ['GET', true, 'cross-site', undefined, CROSS],
  ['GET', true, 'same-site', undefined, CROSS],
  ['POST', false, 'same-origin', undefined, 'a'],
  ['POST', false, 'same-origin', 'https://gw.example', 'a'],
  ['POST', false, 'same-origin', 'https://other.example', ORIGIN],
  ['POST', false, 'cross-site', 'https://gw.example', CROSS],
  ['POST', false, 'none', 'https://gw.example', CROSS],
  ['POST', false, undefined, 'https://gw.example', 'a'],
  ['POST', false, undefined, undefined, ORIGIN],
  ['POST', false, 'same-site', undefined, CROSS],
  ['DELETE', false, undefined, 'null', ORIGIN],
  // RV-110: a form of a page with Referrer-Policy: no-referrer.
  ['POST', false, 'same-origin', 'null', 'a'],
  ['POST', false, 'cross-site', 'null', CROSS],
  ['POST', false, 'none', 'null', CROSS],
  ['DELETE', true, undefined, 'https://other.example', ORIGIN]
]

t.test('the cookie speaks for a person only where no other site may be behind the request', async t => {
  const { session } = startSession()
  const own = { path: '/auth/me', upstream: undefined }
  const ask = (method: string, route: object, ...further: (string | undefined)[]) => {
    const fields = cookie('__Host-portaria_session=a', ...further.filter(each => each !== undefined))
    return reasonOf(() => session.tokenOf(exchangeOf({ method, fields, route })))
  }
  const named = (name: string, value: string | undefined) => (value === undefined ? [] : [name, value])
  for (const [method, isOwn, site, origin, expected] of ORIGINS) {
    const fields = [...named('Sec-Fetch-Site', site), ...named('Origin', origin)]
    t.equal(ask(method, isOwn ? own : { browser: true }, ...fields), expected, `${method} ${isOwn} ${fields.join(' ')}`)
  }
  const external = { browser: true, upstream: undefined, external: true }
  t.equal(ask('GET', external, 'Sec-Fetch-Site', 'cross-site'), 'a', 'checked for a proxy, a link may open it')
  // RW-85, RW-87: the last three are what a proxy leaves of an upgrade when it asks, or a client sends over HTTP/2.
  for (const upgrade of [
    ['Upgrade', 'WebSocket'],
    ['Sec-Fetch-Mode', 'websocket'],
    ['Sec-WebSocket-Version', '13'],
    ['Sec-WebSocket-Key', 'AQIDBAUGBwgJCgsMDQ4PEA==']
  ]) {
    t.equal(ask('GET', { browser: true }, ...upgrade), ORIGIN, upgrade.join())
    t.equal(ask('GET', { browser: true }, ...upgrade, 'Sec-Fetch-Site', 'cross-site'), CROSS, upgrade.join())
    t.equal(ask('GET', { browser: true }, ...upgrade, 'Origin', 'https://gw.example'), 'a', upgrade.join())
  }
  t.equal(ask('GET', { browser: true }, 'Upgrade', 'h2c'), 'a')
  const twice = ['Sec-Fetch-Site', 'same-origin', 'Origin', 'null', 'Origin', 'null']
  t.equal(ask('POST', { browser: true }, ...twice), ORIGIN)
  t.equal(ask('GET', { browser: true }, 'Sec-Fetch-Mode', 'navigate'), 'a')
})

t.test('a token becomes as many cookies as it needs, and more than browsers keep becomes none', async t => {
  const { session } = startSession()
  const name = '__Host-portaria_session'
  const set = (length: number) => session.begin(exchangeOf(), 'x'.repeat(length))
  const gone = (at: number) => `${name}${at === 0 ? '' : `_${at}`}=; ${TEXT}; Secure; Max-Age=0`
  t.same(await set(3), [`${name}=xxx; ${TEXT}; Secure`, gone(1), gone(2)])
  t.same(
    (await set(3801)).map(line => [line.split('=')[0], line.split(/[=;]/)[1]?.length]),
    [
      [name, 3800],
      [`${name}_1`, 1],
      [`${name}_2`, 0]
    ]
  )
  t.equal((await set(3800))[1], gone(1))
  t.equal((await set(11_400))[2], `${name}_2=${'x'.repeat(3800)}; ${TEXT}; Secure`)
  t.same(await set(11_401), [gone(0), gone(1), gone(2)])
  t.same(session.end(), [gone(0), gone(1), gone(2)])
  t.same(startSession('http://gw.example').session.end()[1], `portaria_session_1=; ${TEXT}; Max-Age=0`)
})

t.test('a login that replaces somebody else ends theirs; the same person or nobody ends nothing', async t => {
  const identities = {
    a: identityOf({ subject: '1', tokenId: 'login-a' }),
    b: identityOf({ subject: '1', tokenId: 'login-b' }),
    c: identityOf({ subject: '2', tokenId: 'login-c' }),
    kept: identityOf({ subject: '3', tokenId: 'login-kept' })
  }
  const begin = async (before: string | undefined, now: string) => {
    const { session, replaced } = startSession('https://gw.example', identities)
    const fields = before === undefined ? [] : cookie(`__Host-portaria_session=${before}`)
    const set = await session.begin(exchangeOf({ fields }), now)
    t.match(set[0], new RegExp(`^__Host-portaria_session=${now};`))
    return replaced
  }
  t.same(await begin('a', 'c'), ['login-a'])
  t.same(await begin('a', 'b'), [])
  t.same(await begin('unknown', 'c'), [])
  t.same(await begin(undefined, 'c'), [])
  t.same(await begin('a', 'unknown'), ['login-a'])

  const { session, replaced } = startSession('https://gw.example', identities)
  const failing = session.begin(exchangeOf({ fields: cookie('__Host-portaria_session=kept') }), 'c')
  await t.rejects(failing, { code: 'GW_UNAVAILABLE' })
  t.same(replaced, ['login-c'], 'a login that cannot end another one fails, and no session of it is left')
  const renew = (brought: string | undefined, tokenId: string | undefined) => {
    const fields = brought === undefined ? [] : cookie(`__Host-portaria_session=${brought}`)
    const identity = tokenId === undefined ? {} : { identity: identityOf({ tokenId }) }
    return session.renew(exchangeOf({ fields, ...identity }), 'new').length
  }
  t.same(
    [renew('a', 'login-a'), renew('a', 'login-b'), renew(undefined, 'login-a'), renew('unknown', 'login-a')],
    [3, 0, 0, 0]
  )
  const elsewhere = identityOf({ tokenId: 'login-a', host: 'a.example' })
  const atA = exchangeOf({ fields: cookie('__Host-portaria_session=a'), identity: elsewhere })
  t.equal(session.renew(atA, 'new').length, 0, 'of another host')
  t.equal(renew('a', undefined), 0)
  t.equal(renew(undefined, undefined), 0)

  const isByCookie = (fields: string[]) => {
    const exchange = exchangeOf({ fields: ['Host', 'gw.example', ...fields], route: { browser: true } as never })
    session.tokenOf(exchange)
    return session.isByCookie(exchange)
  }
  const held = ['Cookie', '__Host-portaria_session=7']
  t.same([isByCookie(held), isByCookie(['Authorization', 'x', ...held]), isByCookie([])], [true, false, false])
})

t.test('a navigation without a session goes to the login and comes back; nothing else does', async t => {
  const { session } = startSession()
  const html = ['Accept', 'text/html']
  const to = (target: string, parts: object = {}) =>
    session.loginAddress(exchangeOf({ target, fields: html, route: { browser: true }, ...parts }))
  t.equal(to('/a%20b?c=d&e'), '/auth/login?returnTo=%2Fa%2520b%3Fc%3Dd%26e')
  t.equal(to('/a b'), '/auth/login?returnTo=%2F')
  t.equal(to('/a', { route: {} }), undefined)
  t.equal(to('/a', { route: undefined }), undefined)
  t.equal(to('/a', { route: { browser: true }, fields: [] }), undefined)
  t.equal(to('/a', { method: 'POST' }), undefined)
  t.equal(to('/a', { method: 'POST', fields: [...html, 'Sec-Fetch-Mode', 'navigate'] }), undefined)
  t.equal(to('/a?\xe9'), '/auth/login?returnTo=%2Fa%3F%25E9')
  t.equal(to('/a', { method: 'HEAD' }), '/auth/login?returnTo=%2Fa')
  t.equal(to('/a', { fields: [...html, 'X-Requested-With', 'XMLHttpRequest'] }), undefined)
  for (const target of ['//evil.example', '/\\evil.example', `/${'a'.repeat(6137)}`, `/?${'%'.repeat(2046)}`, 'x'])
    t.equal(to(target), '/auth/login?returnTo=%2F', target.slice(0, 20))
  t.equal(to(`/${'a'.repeat(6136)}`)?.length, '/auth/login?returnTo=%2F'.length + 6136)
  const named = startSession('https://gw.example', {}, 'a.example').session
  const asked = Object.assign(exchangeOf({ target: '/d?x', fields: html, route: { browser: true } }), {
    host: 'a.example',
    forwardAuth: 'plain'
  } as const)
  t.equal(named.loginAddress(asked), '/auth/login?returnTo=%2Fd%3Fx')
  t.equal(asked.setCookies, undefined, 'not every proxy relays it')
})

t.test('cookies of the gateway are known by their names, those of others are not', async t => {
  for (const name of words`portaria_session __Host-portaria_session portaria_login_a __Host-portaria_login_a
    portaria_host_login __Host-portaria_host_login`)
    t.ok(ownCookies.has(name), name)
  for (const name of words`portaria xportaria_login_ a__Host-portaria_login_ portaria_login xportaria_host_login session`)
    t.notOk(ownCookies.has(name), name)
})

t.test('cookies that could be the session are known in any spelling of the prefix', async t => {
  const session = words`portaria_session __Host-portaria_session __secure-PORTARIA_session_2 portaria_session_9`
  const others = words`xportaria_session portaria_sessions portaria_session_10 __x-portaria_session portaria_session_`
  t.same([...session, ...others, ''].filter(ownCookies.has), session)
})

const upgrade = (fields: readonly string[], query: string, tokenInQuery: boolean | undefined) => {
  const exchange: Exchange = exchangeOf({ fields, target: `/x${query}` })
  exchange.query = query
  return reasonOf(() =>
    socketToken(exchange, {
      websocket: tokenInQuery === undefined ? undefined : ({ tokenInQuery } as never),
      ownAuthorization: false,
      public: false
    })
  )
}
const offers = (...values: string[]) => values.flatMap(value => ['Sec-WebSocket-Protocol', value])

t.test('the token of an upgrade is taken out of wherever it stands', async t => {
  const bearer = ['Authorization', 'Bearer abc']
  for (const [fields, token, subprotocols, bearerOffered] of [
    [[], undefined, [], false],
    [bearer, 'abc', [], false],
    [offers('chat, bearer ,abc,v2'), 'abc', ['chat', 'v2'], true],
    [[...offers('chat'), 'X-Other', 'v3', 'sec-websocket-PROTOCOL', 'bearer,abc'], 'abc', ['chat'], true],
    [offers('bearer,bearer'), 'bearer', [], true]
  ] as const)
    t.same(upgrade(fields, '?a=1', true), { token, subprotocols, bearerOffered, query: '?a=1' }, fields.join(' '))
  for (const [query, token, rest] of [
    ['?access_token=abc', 'abc', ''],
    ['?access_token=a.B-9_', 'a.B-9_', ''],
    ['?a=1&access_token=abc&b=2', 'abc', '?a=1&b=2'],
    ['?access%5Ftoken=abc&a', 'abc', '?a'],
    ['?%zz=1&access_token=abc', 'abc', '?%zz=1'],
    ['?access_+token=abc', undefined, '?access_+token=abc'],
    ['?access+token=abc', undefined, '?access+token=abc']
  ] as const) {
    t.match(upgrade(offers('chat'), query, true), { token, query: rest, bearerOffered: false }, query)
    for (const allowed of [false, undefined])
      t.match(upgrade([], query, allowed), { token: undefined, query }, `${query} where it may not stand`)
  }
  t.match(upgrade([...offers('bearer,abc'), ...bearer], '?access_token=abc', true), { token: 'abc', query: '' })
})

t.test('a malformed source, or two that disagree, are refused', async t => {
  for (const [fields, query, expected] of [
    [offers('bearer'), '', 'bearer-subprotocol'],
    [offers('bearer,'), '', 'bearer-subprotocol'],
    [offers('bearer,a,bearer,a'), '', 'bearer-subprotocol'],
    [[], '?access_token', 'token-in-query'],
    [[], '?access_token=', 'token-in-query'],
    [[], '?access_token=a&access_token=a', 'token-in-query'],
    [[], '?access_token=a%20b', 'token-in-query'],
    [[], '?access_token=!a', 'token-in-query'],
    [[], '?access_token=a!', 'token-in-query'],
    [[], '?access_token=a=b', 'token-in-query'],
    [[], '?access_token=pt_abc', 'token-in-query'],
    [['Authorization', 'Bearer a'], '?access_token=b', 'tokens-disagree'],
    [[...offers('bearer,a'), 'Authorization', 'Bearer b'], '', 'tokens-disagree'],
    [offers('bearer,a'), '?access_token=b', 'tokens-disagree']
  ] as const) {
    t.equal(upgrade(fields, query, true), `GW_BAD_REQUEST ${expected}`, `${fields.join(' ')} ${query}`)
  }
})

t.test('the password of Basic may be an access token where the route allows it and no other site asks', async t => {
  const tokenOf = createBasicToken(ownHostsOf('https://gw.example/').hosts)
  const basic = (text: string, scheme = 'Basic ') => `${scheme}${Buffer.from(text).toString('base64')}`
  const ask = (sent: readonly string[], further: readonly string[] = [], route: object = { basic: true }) => {
    const fields = [...sent.flatMap(value => ['Authorization', value]), ...further]
    return reasonOf(() => tokenOf(exchangeOf({ fields, route })))
  }
  const [good, foreign] = [basic('m:pt_x'), 'GW_BAD_ORIGIN basic-cross-site']
  for (const [expected, ...sent] of [
    ['pt_x', good],
    ['pt_x', basic('maria:pt_x', 'bASIC   ')],
    ['pt_x:y', basic('maria:pt_x:y')],
    // Without a colon all of it.
    ['pt_x', basic('pt_x')],
    [undefined, basic('maria:secret')],
    [undefined, basic('pt_x:secret')],
    [undefined, basic('maria:pt_x', 'Bearer ')],
    [undefined, `x${good}`],
    [undefined, `${good}!`],
    [undefined, 'Basic ='],
    [undefined, 'Basic'],
    [undefined, good, good],
    [undefined]
  ] as const)
    t.equal(ask(sent), expected, sent.join())
  t.equal(ask([good], [], {}), undefined, 'not on other routes')
  t.equal(tokenOf(exchangeOf({ fields: ['Authorization', good] })), undefined)
  for (const [name, value, expected] of [
    ['Origin', 'https://gw.example', 'pt_x'],
    ['Origin', 'https://other.example', foreign],
    ['Origin', 'null', foreign],
    ['Sec-Fetch-Site', 'same-origin', 'pt_x'],
    ['Sec-Fetch-Site', 'none', 'pt_x'],
    ['Sec-Fetch-Site', 'same-site', foreign],
    ['Sec-Fetch-Site', 'cross-site', foreign]
  ] as const)
    t.equal(ask([good], [name, value]), expected, `${name}: ${value}`)
  const nullOrigin = (site: string) => ask([good], ['Origin', 'null', 'Sec-Fetch-Site', site])
  t.same(['same-origin', 'none', 'cross-site'].map(nullOrigin), ['pt_x', foreign, foreign], 'pages without a referrer')
})
