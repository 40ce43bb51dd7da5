// AD-22, HD-21, OA-01, OA-18, RT-28
import t from 'tap'
import { NAVIGATION, openHostBrowser } from '../support/host-browser.ts'
import { adminCall, claimsOf, jsonRequest, logIn, postClient, postLoginAgain } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { SAMPLE_PASSWORD } from '../support/openldap-people.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const postgres = await startPostgres(t)
const ldap = await startOpenLdap(t)

const upstream = await startRawUpstream(t)
const routesOf = (host: string) => [
  { host, path: '/*', upstream: 'app', browser: true },
  { host, path: '/live', upstream: 'app', browser: true, websocket: {} }
]
const world = await startPagesWorld(t, {
  ldap,
  postgres,
  env: { BROWSER_SESSION: 'true' },
  config: {
    upstreams: { app: { url: upstream.url } },
    routes: [{ path: '/app/*', upstream: 'app', browser: true }, ...routesOf('a.localhost'), ...routesOf('b.localhost')]
  }
})
const { port } = new URL(world.origin)
/** A page that opened this one as a pop-up cannot read its address. */
const UNREADABLE = { 'cross-origin-opener-policy': 'same-origin' }

const openBrowser = () => {
  const browser = openHostBrowser(world.origin, world.raw)
  return {
    ...browser,
    address: (host: string, path: string) => `http://${host}:${port}${path}`,
    enter: (host: string) => browser.open(`http://${host}:${port}/`),
    /** As a page of this host does it. */
    post(host: string, path: string) {
      const { origin } = new URL(`http://${host}:${port}`)
      const fields = { Origin: origin, 'Sec-Fetch-Site': 'same-origin', 'Content-Length': '0' }
      return browser.ask(origin + path, fields, 'POST')
    },
    /** As the login page does it. */
    async logIn(username: string) {
      const headers = { cookie: browser.cookieOf('localhost'), origin: world.origin }
      browser.keep('localhost', (await postLoginAgain(world, username, { headers })).headers.getSetCookie())
    }
  }
}

t.test('a named host gets its session from PUBLIC_URL by a code, and the person returns to the page', async t => {
  const browser = openBrowser()
  const page = browser.address('a.localhost', '/d/1?panes={%22a%22:1}&to=//evil')
  const asked = await browser.ask(page)
  t.equal(asked.status, 302)
  const login = new URL(asked.headers.location ?? '')
  t.equal(login.origin + login.pathname, `${world.origin}/auth/login`)
  t.equal(login.searchParams.get('returnTo'), page)
  t.match(asked.headers['set-cookie'], /^portaria_host_login=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=3600$/)

  const without = await browser.ask(browser.afterLogin(login.href))
  t.match(without, { status: 302, headers: { location: /^\/auth\/login\?again=1&returnTo=/ } }, 'nobody is logged in')
  await browser.logIn('maria')
  const made = await browser.ask(browser.afterLogin(login.href))
  t.equal(made.status, 302)
  t.match(made.headers.location, `http://a.localhost:${port}/auth/session?code=`)
  const taken = await browser.ask(made.headers.location ?? '')
  t.match(taken, { status: 302, headers: { location: '/d/1?panes={%22a%22:1}&to=//evil' } })

  t.equal((await browser.ask(page)).status, 200)
  const [own, there] = ['localhost', 'a.localhost'].map(host => claimsOf(browser.session(host)))
  t.match(there, { jti: own?.jti, sub: own?.sub, exp: own?.exp, auth_time: own?.auth_time, host: 'a.localhost' })
  t.equal(own?.host, undefined)
  const received = upstream.requests.at(-1)?.head ?? ''
  t.notMatch(received, /portaria_(?:session|host)/, 'no backend sees a cookie of the gateway')

  t.equal((await browser.ask(made.headers.location ?? '')).status, 400, 'once')
  t.equal((await world.logged(line => line.reason === 'host-code-replayed')).code, 'GW_OAUTH_STATE')
})

t.test('a code is of no use to another browser, on another host, or once the person has logged out', async t => {
  const [browser, stranger] = [openBrowser(), openBrowser()]
  await browser.logIn('maria')
  await stranger.ask(stranger.address('a.localhost', '/'))
  const codeFor = async (host: string) => {
    const { headers } = await browser.ask(browser.address(host, '/'))
    return (await browser.ask(browser.afterLogin(headers.location ?? ''))).headers.location ?? ''
  }
  const code = await codeFor('a.localhost')
  const refuses = async ({ ask }: typeof browser, address: string) => {
    const { status, headers } = await ask(address)
    t.strictSame([status, headers.location], [302, '/auth/session'], 'no page has an address with a code for scripts')
    t.equal((await ask(new URL('/auth/session', address).href)).status, 400)
  }
  await refuses(stranger, code)
  await browser.ask(browser.address('b.localhost', '/'))
  await refuses(browser, code.replace('//a.', '//b.'))
  await refuses(browser, code.replace('returnTo=%2F', 'returnTo=%2F%2Fevil.example'))
  // As a script does that wants a code of its own to be refused before it is looked at.
  const early = await browser.ask(code, { ...NAVIGATION, Cookie: `many=${'x'.repeat(20_000)}` })
  t.match(early, { status: 431, headers: UNREADABLE }, 'no pop-up has it either')
  t.equal((await browser.ask(code, NAVIGATION, 'HEAD')).status, 204, 'a scanner of links uses nothing up')
  t.equal((await browser.ask(code)).status, 302, 'and the browser that it was made for still can')

  const late = await codeFor('b.localhost')
  t.equal((await browser.post('localhost', '/auth/logout')).status, 204)
  t.match(await browser.ask(late), { status: 401, headers: UNREADABLE })
  t.equal(browser.session('b.localhost'), '')
})

t.test('a script of the host of PUBLIC_URL does not learn the code for a named host', async t => {
  const [browser, stranger] = [openBrowser(), openBrowser()]
  await browser.logIn('maria')
  const { headers } = await stranger.ask(stranger.address('a.localhost', '/'))
  const code = browser.afterLogin(headers.location ?? '')
  for (const mode of ['cors', 'no-cors', 'same-origin']) {
    const fields = { Accept: 'text/html', 'Sec-Fetch-Mode': mode, 'Sec-Fetch-Site': 'same-origin' }
    const answer = await browser.ask(code, fields)
    t.match([answer.status, answer.headers.location], [403, undefined], mode)
  }
})

t.test('only a login is taken to a named host: no access token, and no token of a service account', async t => {
  const maria = await logIn(world, 'maria')
  const make = (path: string, body: object) =>
    world.json<Record<string, string>>(path, jsonRequest('POST', maria.token, body))
  const rights = { profiles: ['Agente'], areas: ['Geral'], areaPrincipal: 'Geral' }
  const { clientId, clientSecret } = await make('/auth/admin/clients', { name: 'reports', ...rights })
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString()
  const { token: accessToken } = await make('/auth/tokens', { name: 'narrow', profiles: ['Admin'], expiresAt })
  const asked = await postClient(world, clientId, clientSecret)
  const { access_token: clientToken } = (await asked.json()) as Record<string, string>
  for (const token of [accessToken, clientToken]) {
    t.ok(token)
    const browser = openBrowser()
    const { headers } = await browser.ask(browser.address('a.localhost', '/'))
    const code = browser.afterLogin(headers.location ?? '')
    const answer = await browser.ask(code, { ...NAVIGATION, Cookie: `portaria_session=${token}` })
    t.match(answer, { status: 302, headers: { location: /^\/auth\/login\?again=1&/ } })
  }
})

t.test('the cookie of one host opens no other, and is no token anywhere else', async t => {
  const browser = openBrowser()
  await browser.logIn('carlos')
  for (const host of ['a.localhost', 'b.localhost']) t.equal((await browser.enter(host)).response.status, 200)
  const sessions = ['localhost', 'a.localhost', 'b.localhost'].map(host => [host, browser.session(host)] as const)
  for (const [from, token] of sessions) {
    for (const [to] of sessions) {
      const path = to === 'localhost' ? '/app/x' : '/x'
      const address = browser.address(to, path)
      const byCookie = await browser.ask(address, { Cookie: `portaria_session=${token}` })
      t.equal(byCookie.status, from === to ? 200 : 401, `${from} at ${to}`)
      if (from === 'localhost') continue
      const byHeader = await browser.ask(address, { Cookie: '', Authorization: `Bearer ${token}` })
      t.equal(byHeader.status, 401, `${from} as a token at ${to}`)
    }
    t.equal((await world.fetch('/auth/me', { token })).status, from === 'localhost' ? 200 : 401)
  }
  t.equal((await world.logged(line => line.reason === 'foreign-host')).status, 401)
})

t.test('two people in two browsers, or in turn in one, are seen by every host as themselves', async t => {
  const names = async (browser: ReturnType<typeof openBrowser>, host: string) => {
    const { status } = await browser.ask(browser.address(host, '/x'))
    return status === 200 ? upstream.requests.at(-1)?.headers.find(([name]) => name === 'x-user-username')?.[1] : status
  }
  const [one, two] = [openBrowser(), openBrowser()]
  await one.logIn('maria')
  await two.logIn('carlos')
  for (const host of ['a.localhost', 'b.localhost']) {
    await one.enter(host)
    await two.enter(host)
    t.strictSame([await names(one, host), await names(two, host)], ['maria', 'carlos'])
  }
  await one.logIn('carlos')
  t.equal(await names(one, 'a.localhost'), 302, 'the session of the person who was replaced has ended everywhere')
  await one.enter('a.localhost')
  t.equal(await names(one, 'a.localhost'), 'carlos')
})

t.test('logging out at any host ends the session at all of them, also after a second login', async t => {
  for (const where of ['localhost', 'a.localhost']) {
    const browser = openBrowser()
    const statusAt = async (host: string, path = '/x') => (await browser.ask(browser.address(host, path))).status
    for (const _login of ['first', 'second']) {
      await browser.logIn('maria')
      t.equal(await statusAt('a.localhost'), 302, 'what came before is replaced on every host')
      for (const host of ['a.localhost', 'b.localhost'])
        t.equal((await browser.enter(host)).response.status, 200, 'without another login')
    }
    t.equal((await browser.post(where, '/auth/logout')).status, 204)
    t.equal(browser.session(where), '')
    t.equal(await statusAt('localhost', '/app/x'), 302, where)
    for (const host of ['a.localhost', 'b.localhost']) t.equal(await statusAt(host), 302, `${host} after ${where}`)
  }
})

t.test('a stale session is renewed on its host by a navigation and by refresh, and stays of that host', async t => {
  const browser = openBrowser()
  await browser.logIn('ana')
  await browser.enter('a.localhost')
  const before = browser.session('a.localhost')
  const admin = openBrowser()
  await admin.logIn('maria')
  const token = admin.session('localhost')
  const { sub } = claimsOf(before)
  const change = (areas: string[]) =>
    adminCall(world, token)('PUT', `users/${sub}/access`, { profiles: ['Agente'], areas, areaPrincipal: 'Geral' })
  t.equal((await change(['Geral'])).status, 200)
  t.equal((await browser.ask(browser.address('a.localhost', '/x'))).status, 200)
  const renewed = claimsOf(browser.session('a.localhost'))
  t.match(renewed, { host: 'a.localhost', jti: claimsOf(before).jti, areas: ['Geral'] })

  const refreshed = await browser.post('a.localhost', '/auth/refresh')
  t.match(JSON.parse(refreshed.body), { token: '', user: { username: 'ana' } })
  t.match(claimsOf(browser.session('a.localhost')), { host: 'a.localhost' })
  t.equal((await browser.ask(browser.address('a.localhost', '/x'))).status, 200)
})

t.test('on a named host only its own origin changes something or opens a socket by cookie', async t => {
  const browser = openBrowser()
  await browser.logIn('maria')
  for (const host of ['a.localhost', 'b.localhost']) await browser.enter(host)
  const own = new URL(browser.address('a.localhost', '')).origin
  const foreign = [new URL(browser.address('b.localhost', '')).origin, world.origin, 'https://evil.example', 'null']
  const upgrade = {
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='
  }
  for (const origin of [own, ...foreign]) {
    const expected = origin === own ? 200 : 403
    const posted = await browser.ask(`${own}/x`, { Origin: origin, 'Content-Length': '0' }, 'POST')
    t.equal(posted.status, expected, `POST from ${origin}`)
    const socket = await browser.ask(`${own}/live`, { Origin: origin, ...upgrade })
    t.equal(socket.status === 403, origin !== own, `a socket from ${origin}: ${socket.status}`)
    if (origin !== own) {
      const bearer = { Cookie: '', Authorization: `Bearer ${browser.session('localhost')}`, Origin: origin }
      t.equal((await browser.ask(`${own}/live`, { ...bearer, ...upgrade })).status, 403, `by header from ${origin}`)
    }
  }
  const sibling = { Origin: own, 'Content-Length': '0', 'Sec-Fetch-Site': 'same-site' }
  t.equal((await browser.ask(`${own}/x`, sibling, 'POST')).status, 403)
})

t.test('no page of a sibling gets a code made, and addresses that are not on a named host are refused', async t => {
  const browser = openBrowser()
  await browser.logIn('maria')
  const ask = (returnTo: string, fields: Record<string, string> = {}) => {
    const query = new URLSearchParams({ returnTo, challenge: 'x'.repeat(43) })
    return browser.ask(`${world.origin}/auth/session?${query}`, { ...NAVIGATION, ...fields })
  }
  const good = `http://a.localhost:${port}/`
  t.equal((await ask(good, { 'Sec-Fetch-Site': 'same-origin' })).status, 302)
  for (const site of ['same-site', 'cross-site']) t.equal((await ask(good, { 'Sec-Fetch-Site': site })).status, 403)
  const { body } = await adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))('GET', 'openapi.json')
  t.same(Object.keys(body.paths['/auth/session'].get.responses), ['302', 'default'], 'and so it is described')
  // Others are generated in host-login.test.ts.
  for (const bad of [`http://a.localhost:${port}@evil.example`, 'http://evil.example/', `${world.origin}/app/`]) {
    const { status, headers } = await ask(bad)
    t.strictSame([status, headers.location], [400, undefined], bad)
  }
})

t.test('pages of the gateway are those of PUBLIC_URL; a login by a program on a named host sets no cookie', async t => {
  const browser = openBrowser()
  const at = (path: string) => browser.ask(browser.address('a.localhost', path))
  for (const path of ['/auth/account', '/auth/console', '/auth/apps'])
    t.match(await at(`${path}?x=1`), { status: 302, headers: { location: `${world.origin}${path}?x=1` } })
  for (const path of ['/auth/account', '/auth/oauth/cloudidp/start']) {
    const raw = await world.raw(`GET ${path}?x=é HTTP/1.1\r\nHost: a.localhost:${port}\r\nConnection: close\r\n\r\n`)
    t.equal(raw.headers.location, `${world.origin}${path}?x=%E9`, 'a Location is ASCII (RFC 3986 §2.1)')
  }
  const login = new URL((await at('/auth/login?returnTo=/d/1&again=1')).headers.location ?? '')
  t.strictSame(
    [login.origin, login.searchParams.get('returnTo'), login.searchParams.get('again')],
    [world.origin, `http://a.localhost:${port}/d/1`, '1']
  )
  for (const unusable of ['//evil.example/', '/d/%C3%A9']) {
    const { searchParams } = new URL((await at(`/auth/login?returnTo=${unusable}`)).headers.location ?? '')
    t.equal(searchParams.get('returnTo'), `http://a.localhost:${port}/`, `${unusable} would be refused after the login`)
  }

  const headers = { host: `a.localhost:${port}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ username: 'maria', password: SAMPLE_PASSWORD })
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const answer = await world.raw(
    `POST /auth/login HTTP/1.1\r\n${lines.join('')}Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
  )
  t.equal(answer.status, 200)
  t.equal(answer.headers['set-cookie'], undefined)
})
