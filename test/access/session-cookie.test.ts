// A session cookie opens browser routes for its person, from our own origin, and nothing else; it is renewed while it is
// used, never beyond SESSION_MAX, and goes on without a click when its access has changed.
import type { Socket } from 'node:net'
import t from 'tap'
import { claimsOf, jsonRequest, postLoginAgain, refreshLogin } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { signToken } from '../support/signed-tokens.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)
const ldap = await startOpenLdap(t)

const HOUR = 3600
const NAVIGATION = 'Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n'

const start = async (test: Parameters<typeof startRawUpstream>[0], env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(test)
  const world = await startPagesWorld(test, {
    ldap,
    postgres,
    env: { BROWSER_SESSION: 'true', JWT_EXPIRES_IN: '1h', SESSION_MAX: '8h', ...env },
    config: {
      upstreams: {
        app: { url: upstream.url },
        shared: { url: upstream.url, sharedCache: true, responseHeaders: { set: { 'CDN-Cache-Control': 'max-age=9' } } }
      },
      routes: [
        { path: '/app/*', upstream: 'app', browser: true },
        { path: '/app/secret/*', upstream: 'app', browser: true, roles: ['Admin'] },
        { path: '/read', methods: ['GET'], upstream: 'app', browser: true },
        { path: '/shared/*', upstream: 'shared', browser: true },
        { path: '/admin-app/*', upstream: 'app', browser: true, roles: ['Admin'] },
        { path: '/auditors/*', upstream: 'app', browser: true, roles: ['Supervisor'] },
        { path: '/api/*', upstream: 'app' },
        { path: '/live', upstream: 'app', browser: true, websocket: {} },
        { path: '/red/*', upstream: 'app', browser: true, ownAuthorization: true, websocket: {} }
      ]
    }
  })
  return { ...world, upstream }
}
type Started = Awaited<ReturnType<typeof start>>

const world = await start(t)
const { upstream, origin } = world
const withoutMax = await start(t, { SESSION_MAX: '' })

const nowS = () => Math.floor(Date.now() / 1000)

/** As raw bytes: `fetch` here writes Sec-Fetch-Mode itself. */
const ask = (head: string, fields: string) => world.raw(`${head} HTTP/1.1\r\nHost: gw\r\n${fields}\r\n`)

/** A login, and copies of its token as they would be if it had begun earlier. */
const logIn = async (at: Started = world, username = 'maria') => {
  const answer = await postLoginAgain(at, username)
  const { token, user } = (await answer.json()) as { token: string; user: { id: number } }
  const setCookies = answer.headers.getSetCookie()
  const aged = (claims: Record<string, unknown>) => signToken(TEST_SECRET, {}, { ...claimsOf(token), ...claims })
  return { token, user, setCookies, cookie: cookieOf(setCookies), aged }
}
const refresh = (world: Started, token: string) => world.fetch('/auth/refresh', { method: 'POST', token })

/** What a browser would send back. */
const cookieOf = (setCookies: readonly string[]): string =>
  setCookies
    .filter(field => !/Max-Age=0/.test(field))
    .map(field => field.split(';', 1)[0])
    .join('; ')

const codeOf = async (answer: Response): Promise<string> => {
  const text = await answer.text()
  return text.startsWith('{') ? ((JSON.parse(text) as { code?: string }).code ?? '') : ''
}

// AD-14, CF-14
t.test('a login sets the token as a cookie that scripts cannot read and that ends with the browser', async t => {
  const { token, setCookies } = await logIn()
  t.equal(setCookies[0], `portaria_session=${token}; Path=/; HttpOnly; SameSite=Lax`)
  const secure = await start(t, { PUBLIC_URL: 'https://portaria.example' })
  const there = await logIn(secure)
  t.equal(there.setCookies[0], `__Host-portaria_session=${there.token}; Path=/; HttpOnly; SameSite=Lax; Secure`)
  const off = await start(t, { BROWSER_SESSION: 'false' })
  t.same((await logIn(off)).setCookies, [], 'off unless asked for')
})

// HD-21, AD-22
t.test('the cookie opens browser routes alone, and never goes upstream', async t => {
  const { cookie } = await logIn()
  t.equal((await world.fetch('/app/page', { headers: { cookie: `theme=dark; ${cookie}` } })).status, 200)
  const fields = upstream.requests.at(-1)?.headers ?? []
  const cookies = fields.filter(([name]) => name.toLowerCase() === 'cookie').map(([, value]) => value)
  t.same(cookies, ['theme=dark'])
  t.ok(fields.some(([name, value]) => name === 'x-user-username' && value === 'maria'))
  t.notMatch(JSON.stringify(upstream.requests), /eyJ/, 'no token in whatever spelling')
  for (const path of ['/api/x', '/auth/admin/users', '/unknown']) {
    t.equal((await world.fetch(path, { headers: { cookie } })).status, 401, path)
  }
  const me = await world.fetch('/auth/me', { headers: { cookie, 'sec-fetch-site': 'same-origin' } })
  t.equal(me.status, 200)
  t.match(me.headers.get('portaria-session-expires'), /^\d{10}$/)
  t.teardown(() => upstream.respond(() => OK))
  upstream.respond(
    () =>
      'HTTP/1.1 200 OK\r\nSet-Cookie: portaria_session=evil; Path=/\r\nSet-Cookie: __Host-Portaria_Session=evil\r\nSet-Cookie: mine=1\r\nContent-Length: 0\r\n\r\n'
  )
  const answer = await world.fetch('/app/page', { headers: { cookie } })
  t.same(answer.headers.getSetCookie(), ['mine=1'], 'a backend cannot set it')
})

t.test('a navigation without a session goes to the login page and back; a script gets 401 as JSON', async t => {
  const page = await ask('GET /app/a%20b?q=1&r=%2F', NAVIGATION)
  t.equal(page.status, 302)
  const location = new URL(page.headers.location ?? '', origin)
  t.equal(location.pathname, '/auth/login')
  t.equal(location.searchParams.get('returnTo'), '/app/a%20b?q=1&r=%2F')
  t.equal(page.headers['cache-control'], 'no-store')
  const inApp = await ask('GET /app/x', `${NAVIGATION}X-Requested-With: com.example.app\r\n`)
  t.equal(inApp.status, 302, 'as the WebView of Android sends it')
  const inPlainApp = await ask('GET /app/x', 'Accept: text/html\r\nX-Requested-With: com.example.app\r\n')
  t.equal(inPlainApp.status, 302, 'as the WebView of Android sends it over plain HTTP')
  const refused: [string, string][] = [
    ['GET /app/x', 'Accept: */*\r\n'],
    ['GET /app/x', 'Accept: application/json, text/html; level=1; Q=0.0\r\n'],
    ['GET /app/x', 'Accept: text/html\r\nSec-Fetch-Mode: cors\r\nSec-Fetch-Dest: empty\r\n'],
    ['GET /app/x', 'Accept: text/html\r\nX-Requested-With: XMLHttpRequest\r\n'],
    ['GET /app/x', 'Accept: text/html\r\nSec-Fetch-Dest: iframe\r\n'],
    ['POST /app/x', NAVIGATION],
    ['GET /api/x', NAVIGATION]
  ]
  for (const [head, fields] of refused) {
    const answer = await ask(head, fields)
    t.equal(answer.status, 401, `${head} ${fields}`)
    t.equal(answer.headers.location, undefined)
  }
  t.match((await ask('GET /app/x', 'Accept: */*\r\n')).body, /"GW_UNAUTHENTICATED"/)
})

// RV-28
t.test('a path or a method that a browser route refuses is asked for a session like all others of it', async t => {
  for (const path of ['/app/SECRET/x', '/app/NOTHING/x']) {
    const page = await ask(`GET ${path}?q=1`, NAVIGATION)
    t.same([page.status, page.headers.location], [302, `/auth/login?returnTo=${encodeURIComponent(path)}%3Fq%3D1`])
  }
  const { cookie } = await logIn()
  t.equal((await world.fetch('/app/SECRET/x', { headers: { cookie } })).status, 400, 'not 401: there is a session')
  const remove = (from: string) => world.fetch('/read', { method: 'DELETE', headers: { cookie, origin: from } })
  const own = await remove(origin)
  t.same([own.status, own.headers.get('allow')], [405, 'GET, HEAD'])
  t.equal((await remove('https://evil.example')).status, 403)
})

// RV-111
t.test('a navigation that a service worker repeats is one too', async t => {
  const repeated = 'Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: empty\r\n'
  const page = await ask('GET /app/x?y=1', repeated)
  t.match(page, { status: 302, headers: { location: `/auth/login?returnTo=${encodeURIComponent('/app/x?y=1')}` } })
  const bare = await ask('GET /app/x?y=1', 'Accept: */*\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: empty\r\n')
  t.equal(bare.status, 302, 'whatever it accepts')
  const { cookie } = await logIn(world, 'carlos')
  const refused = await ask('GET /admin-app/x', `${repeated}Cookie: ${cookie}\r\n`)
  t.match(refused, { status: 403, headers: { 'content-type': 'text/html; charset=utf-8' } })
})

// RV-109
t.test('on a route with ownAuthorization, the application has Authorization and the cookie says who asks', async t => {
  const { cookie, token } = await logIn()
  const seen = () => Object.fromEntries(upstream.requests.at(-1)?.headers.map(([n, v]) => [n.toLowerCase(), v]) ?? [])
  for (const authorization of ['Bearer app-token-of-its-own', 'Basic Z3Vlc3Q6Z3Vlc3Q=', 'Digest username="x"']) {
    const answer = await world.fetch('/red/flows', { headers: { cookie, authorization } })
    t.equal(answer.status, 200, authorization)
    t.match(seen(), { authorization, 'x-user-username': 'maria' })
    t.notMatch(seen().cookie ?? '', /portaria_session/)
    t.equal((await world.fetch('/red/flows', { headers: { authorization } })).status, 401, 'without a session')
    t.equal((await world.fetch('/app/x', { headers: { cookie, authorization } })).status, 401, 'on other routes')
  }
  const count = upstream.requests.length
  const basic = `Basic ${Buffer.from(`x:${token}`).toString('base64')}`
  for (const authorization of [`Bearer ${token}`, token, basic, `Bearer pt_${'a'.repeat(43)}`]) {
    const answer = await world.fetch('/red/flows', { headers: { cookie, authorization } })
    t.equal(answer.status, 400, 'a token of ours never reaches the application')
    t.equal(await codeOf(answer), 'GW_BAD_REQUEST')
  }
  const upgrade = (subprotocols: string) =>
    world.raw(
      `GET /red/comms HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: ${subprotocols}\r\nCookie: ${cookie}\r\nOrigin: ${origin}\r\n\r\n`
    )
  t.equal((await upgrade(`bearer, ${token}`)).status, 400)
  t.equal(upstream.requests.length, count)
  t.equal((await upgrade('bearer, its-own')).status, 200, 'passes on to a backend that ignores the upgrade')
  t.match(seen(), { 'sec-websocket-protocol': 'bearer, its-own' })
})

// AD-02, OA-24
t.test('what changes something by cookie must come from our own origin', async t => {
  const { cookie, token } = await logIn()
  const post = (path: string, headers: Record<string, string>) => world.fetch(path, { method: 'POST', headers })
  const foreign = await post('/app/save', { cookie, origin: 'https://evil.example' })
  t.same([foreign.status, await codeOf(foreign)], [403, 'GW_BAD_ORIGIN'])
  t.equal((await post('/app/save', { cookie, origin })).status, 200)
  t.equal((await post('/auth/logout', { cookie, origin: 'https://evil.example' })).status, 403)
  t.equal((await world.fetch('/auth/me', { headers: { cookie, 'sec-fetch-site': 'cross-site' } })).status, 403)
  t.equal((await post('/app/save', { authorization: `Bearer ${token}` })).status, 200, 'a header needs no Origin')
  const upgrade = (from: string) =>
    world.raw(
      `GET /live HTTP/1.1\r\nHost: gw\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nCookie: ${cookie}\r\nOrigin: ${from}\r\n\r\n`
    )
  t.match(await upgrade('https://evil.example'), { status: 403, body: /GW_BAD_ORIGIN/ })
  t.equal((await upgrade(origin)).status, 200, 'passes on to a backend that ignores the upgrade')
})

t.test('a refresh by cookie renews the cookie and shows scripts no token; logout ends it', async t => {
  const { cookie, token } = await logIn()
  const post = (path: string, headers: Record<string, string>) =>
    world.fetch(path, { method: 'POST', headers: { origin, 'sec-fetch-site': 'same-origin', ...headers } })
  const refreshed = await post('/auth/refresh', { cookie })
  t.equal(refreshed.status, 200)
  t.match(await refreshed.json(), { token: '', user: { username: 'maria' } })
  const renewed = cookieOf(refreshed.headers.getSetCookie())
  t.match(renewed, /^portaria_session=eyJ/)
  const byHeader = await post('/auth/refresh', { authorization: `Bearer ${token}` })
  t.match(await byHeader.json(), { token: /^eyJ/ })
  t.same(byHeader.headers.getSetCookie(), [], 'a login that no cookie keeps sets none')
  const out = await post('/auth/logout', { cookie: renewed })
  t.equal(out.status, 204)
  t.ok(out.headers.getSetCookie().every(field => /^portaria_session(?:_\d)?=; .*Max-Age=0$/.test(field)))
  const after = await ask('GET /app/x', `${NAVIGATION}Cookie: ${renewed}\r\n`)
  t.equal(after.status, 302, 'the cookie opens nothing any more')
})

t.test('a browser that remembers Basic credentials for the host can log out', async t => {
  const { cookie, token } = await logIn()
  const basic = `Basic ${Buffer.from('maria:remembered').toString('base64')}`
  const ask = (path: string, authorization: string, method = 'GET') =>
    world.fetch(path, { method, headers: { authorization, cookie, origin } })
  t.equal((await ask('/auth/me', 'Bearer of-somebody')).status, 401, 'other credentials are used alone')
  t.match(await (await ask('/auth/me', basic)).json(), { username: 'maria' })
  t.equal((await ask('/auth/tokens', basic)).status, 401, 'where no cookie counts, nothing does')
  const out = await ask('/auth/logout', basic, 'POST')
  t.equal(out.status, 204)
  t.match(out.headers.getSetCookie().join(), 'Max-Age=0')
  t.equal((await world.fetch('/api/x', { token })).status, 401)
})

t.test('a logout ends the login in the cookie too, if the same person has logged in again meanwhile', async t => {
  const [first, second, other] = [await logIn(), await logIn(), await logIn(world, 'carlos')]
  const out = (token: string, cookie: string) =>
    world.fetch('/auth/logout', { method: 'POST', token, headers: { origin, 'sec-fetch-site': 'same-origin', cookie } })
  t.equal((await out(first.token, other.cookie)).status, 204)
  t.equal((await world.fetch('/auth/me', { token: other.token })).status, 200, 'not that of somebody else')
  t.equal((await world.fetch('/auth/me', { token: second.token })).status, 200)
  const third = await logIn()
  t.equal((await out(third.token, second.cookie)).status, 204)
  for (const { token } of [second, third]) t.equal((await world.fetch('/auth/me', { token })).status, 401)
})

t.test('a login whose cookie has expired here ends with it if it goes on elsewhere, as on other hosts', async t => {
  const statusOf = async ({ token }: { token: string }) => (await world.fetch('/auth/me', { token })).status
  const left = async ({ aged }: Awaited<ReturnType<typeof logIn>>, hours: number) => {
    const began = nowS() - hours * HOUR
    return `portaria_session=${await aged({ auth_time: began, iat: began, exp: began + HOUR })}`
  }
  const [first, second] = [await logIn(), await logIn()]
  const over = await postLoginAgain(world, 'carlos', { headers: { cookie: await left(first, 9) } })
  t.equal(over.status, 200)
  t.equal(await statusOf(first), 200, 'beyond SESSION_MAX there is nothing to end')
  const next = await postLoginAgain(world, 'carlos', { headers: { cookie: await left(first, 2) } })
  t.equal(next.status, 200)
  t.equal(await statusOf(first), 401, 'somebody else has logged in in its place')
  const [third, fourth] = [await logIn(), await logIn()]
  const headers = { origin, 'sec-fetch-site': 'same-origin', cookie: await left(third, 2) }
  t.equal((await world.fetch('/auth/logout', { method: 'POST', token: fourth.token, headers })).status, 204)
  t.strictSame([await statusOf(third), await statusOf(second)], [401, 200])
})

/** Seconds for which the end of a login is remembered. */
const revocationLeft = async (world: Started, token: string): Promise<number> => {
  const [row] = await postgres.query(
    'SELECT extract(epoch FROM expires_at - now())::float8 AS left FROM revocations WHERE jti = $1',
    [claimsOf(token).jti],
    world.postgres.url
  )
  return Number(row?.left)
}

const expOf = async (answer: Response): Promise<number> =>
  claimsOf(((await answer.json()) as { token: string }).token).exp - nowS()

t.test('without SESSION_MAX a refresh keeps the end of the token', async t => {
  const world = withoutMax
  const { aged } = await logIn(world)
  const left = await expOf(await refresh(world, await aged({ iat: nowS() - 3000, exp: nowS() + 600 })))
  t.ok(left <= 600 && left > 570, `${left}`)
  const me = await world.fetch('/auth/me', { token: await aged({ iat: nowS() - 3000, exp: nowS() + 600 }) })
  t.equal(me.headers.get('portaria-session-renews'), null)
})

t.test('what ends a login ends its renewed tokens, for as long as they could live, wherever it was ended', async t => {
  const logout = (at: Started) => (token: string) => at.fetch('/auth/logout', { method: 'POST', token })
  for (const [how, end, leastLeftS, seenBy] of [
    ['a logout with the old copy', logout(world), 7.9 * HOUR, world],
    ['a logout at an instance without SESSION_MAX', logout(withoutMax), 3500, withoutMax],
    [
      'the list of sessions',
      async () => world.fetch('/auth/sessions', { method: 'DELETE', token: (await logIn(world)).token }),
      3500,
      world
    ]
  ] as const) {
    const { aged } = await logIn(world)
    const old = await aged({ iat: nowS() - 3000, exp: nowS() + 600 })
    const { token } = await refreshLogin(world, old)
    t.equal((await end(old)).status, 204, how)
    for (const instance of [world, withoutMax])
      await until(async () => (await instance.fetch('/auth/me', { token })).status === 401, `${how}: refused by all`)
    const left = await revocationLeft(seenBy, token)
    t.ok(left > leastLeftS, `${how}: ${left}`)
    t.equal((await refresh(world, token)).status, 401, how)
  }
})

t.test('ending all other sessions includes those that only the clock of the database takes for expired', async t => {
  const [{ token: other }, { token }] = [await logIn(world), await logIn(world)]
  const expire = "UPDATE sessions SET expires_at = now() - interval '10 seconds' WHERE jti = $1"
  await postgres.query(expire, [claimsOf(other).jti])
  t.equal((await world.fetch('/auth/sessions', { method: 'DELETE', token })).status, 204)
  t.equal((await refresh(world, other)).status, 401)
})

t.test('an open stream goes on with the session that has been renewed, and ends with it', async t => {
  const world = await start(t, { JWT_EXPIRES_IN: '8s' })
  const [{ token: old }, { token: left }] = [await logIn(world), await logIn(world)]
  world.upstream.respond(() => 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
  const open = async (token: string) => {
    const response = await world.fetch('/app/events', { token })
    const state = { isOpen: true }
    void response.text().then(
      () => (state.isOpen = false),
      () => (state.isOpen = false)
    )
    return state
  }
  const [kept, dropped] = [await open(old), await open(left)]
  let token = old
  await until(async () => {
    token = (await refreshLogin(world, token)).token
    return !dropped.isOpen
  }, 'the stream that was not renewed has ended')
  t.equal((await world.fetch('/auth/me', { token: old })).status, 401, 'its token has expired')
  t.ok(kept.isOpen)
  const live = await postgres.query('SELECT 1 FROM sessions WHERE jti = $1 AND expires_at > now()', [
    claimsOf(left).jti
  ])
  t.same(live, [], 'nor is the session listed')
  t.equal((await world.fetch('/auth/logout', { method: 'POST', token })).status, 204)
  await until(() => !kept.isOpen, 'logged out')
})

t.test('a cookie is renewed at half of its life by whatever uses it', async t => {
  const { token, aged } = await logIn(world)
  const ask = (cookie: string, path = '/app/x') =>
    world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\nCookie: portaria_session=${cookie}\r\nAccept: */*\r\n\r\n`)
  for (let i = 0; i < 3; i++) t.equal((await ask(token)).headers['set-cookie'], undefined, 'before half of it')
  const old = await aged({ auth_time: nowS() - 1900, iat: nowS() - 1900, exp: nowS() + 1700 })
  t.teardown(() => upstream.respond(() => OK))
  const asked = Promise.withResolvers<Socket>()
  upstream.respond(({ target }) => (target === '/app/slow' ? asked.resolve : OK))
  const slow = ask(old, '/app/slow')
  const backend = await asked.promise
  let answer = await ask(old)
  await until(async () => {
    answer = await ask(old)
    return answer.headers['set-cookie'] !== undefined
  })
  t.equal(answer.status, 200)
  backend.write(OK)
  t.match(String((await slow).headers['set-cookie']), /^portaria_session=eyJ/, 'nobody has to ask twice')
  const [, renewed = ''] =
    /portaria_session=(eyJ[^;]+); Path=\/; HttpOnly/.exec(String(answer.headers['set-cookie'])) ?? []
  t.match(claimsOf(renewed), { jti: claimsOf(token).jti, auth_time: claimsOf(old).auth_time })
  t.ok(claimsOf(renewed).exp > nowS() + 3500)
  t.equal((await ask(renewed)).headers['set-cookie'], undefined)
  const byHeader = await world.raw(
    `GET /app/x HTTP/1.1\r\nHost: gw\r\nAuthorization: Bearer ${old}\r\nCookie: portaria_session=${old}\r\n\r\n`
  )
  t.equal(byHeader.headers['set-cookie'], undefined, 'Authorization is what counts')

  upstream.respond(() => 'HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nContent-Length: 0\r\n\r\n')
  const shared = { 'cache-control': 'public, max-age=60', 'cdn-cache-control': 'max-age=9' }
  t.match((await ask(renewed, '/shared/x')).headers, shared)
  const carrying = (await ask(old, '/shared/x')).headers
  t.match(String(carrying['set-cookie']), /^portaria_session=eyJ/)
  t.equal(carrying['cache-control'], 'private, max-age=60', 'no shared cache keeps a session cookie')
  t.equal(carrying['cdn-cache-control'], undefined)
})

t.test('a slow response does not put the cookie of a login that has ended over that of the next one', async t => {
  const { aged } = await logIn(world)
  const old = await aged({ auth_time: nowS() - 1900, iat: nowS() - 1900, exp: nowS() + 1700 })
  const cookie = `portaria_session=${old}`
  const asked = Promise.withResolvers<Socket>()
  t.teardown(() => upstream.respond(() => OK))
  upstream.respond(({ target }) => (target === '/app/slow' ? asked.resolve : OK))
  const slow = ask('GET /app/slow', `Cookie: ${cookie}\r\n`)
  const backend = await asked.promise
  await until(async () => (await ask('GET /app/x', `Cookie: ${cookie}\r\n`)).headers['set-cookie'] !== undefined)
  t.equal((await postLoginAgain(world, 'ana', { headers: { cookie } })).status, 200)
  backend.write(OK)
  const { status, headers } = await slow
  t.match([status, headers['set-cookie']], [200, undefined])
})

// RV-112
t.test('a navigation by a cookie whose access has changed goes on with the new access, without a click', async t => {
  const admin = await logIn(world)
  const { token, user } = await logIn(world, 'carlos')
  const ask = (path: string, fields: string) =>
    world.raw(`GET ${path} HTTP/1.1\r\nHost: gw\r\nCookie: portaria_session=${token}\r\n${fields}\r\n`)
  t.equal((await ask('/auditors/x', NAVIGATION)).status, 403)
  const access = { profiles: ['Supervisor'], areas: ['Geral'], areaPrincipal: 'Geral' }
  const change = await world.fetch(`/auth/admin/users/${user.id}/access`, jsonRequest('PUT', admin.token, access))
  t.equal(change.status, 200, await change.text())
  t.match(await ask('/auditors/x', 'Accept: */*\r\n'), { status: 401, body: /GW_TOKEN_STALE/ })
  const page = await ask('/auditors/x', NAVIGATION)
  t.equal(page.status, 200)
  t.match(String(page.headers['set-cookie']), /^portaria_session=eyJ/)
  t.match(Object.fromEntries(world.upstream.requests.at(-1)?.headers ?? []), { 'x-user-profiles': 'Supervisor' })
  const send = (origin: string) =>
    world.raw(
      `POST /auditors/form HTTP/1.1\r\nHost: gw\r\nCookie: portaria_session=${token}\r\n${NAVIGATION}Origin: ${origin}\r\nContent-Length: 3\r\n\r\na=b`
    )
  t.equal((await send(world.origin)).status, 200)
  t.match(world.upstream.requests.at(-1), { method: 'POST', body: 'a=b' }, 'nor is a form lost')
  t.equal((await send('https://other.example')).status, 403)
  await world.fetch(`/auth/admin/users/${user.id}/revoke`, { method: 'POST', token: admin.token })
  t.equal((await ask('/auditors/x', NAVIGATION)).status, 302, 'a revoked one is not renewed')
})
