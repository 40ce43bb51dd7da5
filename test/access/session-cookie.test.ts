// A session cookie opens browser routes for its person, from our own origin, and nothing else.
import t from 'tap'
import { postLoginAgain } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'

const postgres = await startPostgres(t)
const ldap = await startOpenLdap(t)

const NAVIGATION = 'Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n'

const start = async (test: Parameters<typeof startRawUpstream>[0], env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(test)
  const world = await startPagesWorld(test, {
    ldap,
    postgres,
    env: { BROWSER_SESSION: 'true', ...env },
    config: {
      upstreams: { app: { url: upstream.url } },
      routes: [
        { path: '/app/*', upstream: 'app', browser: true },
        { path: '/admin-app/*', upstream: 'app', browser: true, roles: ['Admin'] },
        { path: '/api/*', upstream: 'app' },
        { path: '/live', upstream: 'app', browser: true, websocket: {} },
        { path: '/red/*', upstream: 'app', browser: true, ownAuthorization: true, websocket: {} }
      ]
    }
  })
  return { world, upstream, origin: world.origin }
}

type Started = Awaited<ReturnType<typeof start>>

const started = await start(t)
const { world, upstream, origin } = started

/** As raw bytes: `fetch` here writes Sec-Fetch-Mode itself. */
const ask = (head: string, fields: string) => world.raw(`${head} HTTP/1.1\r\nHost: gw\r\n${fields}\r\n`)

const logIn = async (username = 'maria', headers: Record<string, string> = {}, at: Started['world'] = world) => {
  const answer = await postLoginAgain(at, username, { headers })
  const body = (await answer.json()) as { token: string; user: { id: number } }
  const setCookies = answer.headers.getSetCookie()
  return { ...body, setCookies, cookie: cookieOf(setCookies) }
}

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
  const there = await logIn('maria', {}, secure.world)
  t.equal(there.setCookies[0], `__Host-portaria_session=${there.token}; Path=/; HttpOnly; SameSite=Lax; Secure`)
  const off = await start(t, { BROWSER_SESSION: 'false' })
  t.same((await logIn('maria', {}, off.world)).setCookies, [], 'off unless asked for')
})

// HD-21, AD-22
t.test('the cookie opens browser routes alone, and never goes upstream', async t => {
  const { cookie } = await logIn()
  t.equal((await world.fetch('/app/page', { headers: { cookie: `theme=dark; ${cookie}` } })).status, 200)
  const fields = upstream.requests.at(-1)?.headers ?? []
  t.same(
    fields.filter(([name]) => name.toLowerCase() === 'cookie').map(([, value]) => value),
    ['theme=dark']
  )
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
  const refused: [string, string][] = [
    ['GET /app/x', 'Accept: */*\r\n'],
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

// RV-111
t.test('a navigation that a service worker repeats is one too', async t => {
  const repeated = 'Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: empty\r\n'
  const page = await ask('GET /app/x?y=1', repeated)
  t.match(page, { status: 302, headers: { location: `/auth/login?returnTo=${encodeURIComponent('/app/x?y=1')}` } })
  const { cookie } = await logIn('carlos')
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
  t.equal((await upgrade('bearer, its-own')).status, 502, 'passes on to a backend that speaks no WebSocket')
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
  t.equal((await upgrade(origin)).status, 502, 'passes on to a backend that speaks no WebSocket')
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

// OA-18
t.test('a login over the session of somebody else ends that session', async t => {
  const carlos = await logIn('carlos')
  const maria = await logIn('maria', { cookie: carlos.cookie, origin })
  t.not(maria.token, carlos.token)
  t.equal((await world.fetch('/auth/me', { token: carlos.token })).status, 401)
  const again = await logIn('maria', { cookie: maria.cookie, origin })
  t.equal((await world.fetch('/auth/me', { token: maria.token })).status, 200, 'another tab of the same person goes on')
  t.equal((await world.fetch('/auth/me', { token: again.token })).status, 200)
})
