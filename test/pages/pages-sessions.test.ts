// What our own pages show in every state of a session, and when it changes: here, in another tab, or at the provider.
import type { Page, Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, fillLogin, openContext, openPage, putLogin } from '../support/browser.ts'
import { adminCall, claimsOf } from '../support/login.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import {
  APP_CONFIG,
  expireToken,
  kept,
  logIn,
  logInAtProvider,
  PAGES,
  type PagePath,
  putToken,
  seen
} from '../support/page-tabs.ts'
import { callbackOf, startBrowserWorld, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { signToken } from '../support/signed-tokens.ts'
import { TEST_SECRET } from '../support/test-secret.ts'
import { until } from '../support/until.ts'

const world = await startBrowserWorld(t, { env: { BROWSER_SESSION: 'true' }, config: APP_CONFIG })
const { postgres, ldap, browser } = world

const openTab = async (t: Test) => (await openContext(t, browser, [world.origin])).newPage()

// RV-85
t.test('a login that is too old for a token is asked for again, with a password', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  const longAgo = Math.floor(Date.now() / 1000) - 1200
  await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: longAgo, auth_time: longAgo }))
  const makeToken = async () => {
    await page.fill('#token-name', 'my tool')
    await page.click('#new-token .main')
  }
  await page.goto(`${world.origin}/auth/account`)
  await makeToken()
  await page.locator('#new-token a.button').click()
  await fillLogin(page, 'maria')
  await page.waitForURL(`${world.origin}/auth/account`)
  await makeToken()
  await page.locator('.secret .value').waitFor()
  t.match(await page.inputValue('.secret .value'), /^pt_/)
})

// RV-88
t.test('a logout in one tab ends the same person in the others, and they say why', async t => {
  const context = await openContext(t, browser, [world.origin])
  const [one, two] = [await context.newPage(), await context.newPage()]
  for (const path of ['/auth/console', '/auth/account', '/auth/apps'] as const) {
    await logIn(one, world.origin)
    const token = await logIn(two, world.origin)
    await two.goto(`${world.origin}${path}`)
    t.equal(await seen(two), path.slice('/auth/'.length))
    await one.click('#logout')
    await two.locator('#username').waitFor()
    t.match(await two.locator('[role=status]').first().textContent(), /another tab/)
    await until(async () => (await world.fetch('/auth/me', { token })).status === 401, 'its login has ended')
    if (path !== '/auth/apps') continue
    await two.evaluate("sessionStorage.setItem('portaria.loggedOut', '1')")
    await logIn(one, world.origin)
    await two.goto(`${world.origin}/auth/login`)
    t.equal(await seen(two), 'person')
    t.equal(await kept(two, 'portaria.loggedOut'), null, 'a login page that has found a session says nothing later')
  }
})

t.test('a logout ends the session in the cookie, although the token of the tab has expired', async t => {
  const context = await openContext(t, browser, [world.origin])
  const page = await context.newPage()
  for (const path of PAGES) {
    const token = await putLogin(page, world.origin, 'maria')
    await page.goto(`${world.origin}${path}`)
    await page.locator('#logout').waitFor()
    await expireToken(page, token)
    await page.click('#logout')
    await page.locator('#username').waitFor()
    const next = await context.newPage()
    await next.goto(`${world.origin}/auth/apps`)
    t.equal(await seen(next), 'form', path)
    await next.close()
  }
})

t.test('a logout that cannot reach the gateway says so, and ends nothing', async t => {
  const context = await openContext(t, browser, [world.origin])
  const [page, other] = [await context.newPage(), await context.newPage()]
  const token = await logIn(page, world.origin)
  await other.goto(`${world.origin}/auth/apps`)
  t.equal(await seen(other), 'apps')
  await page.route('**/auth/logout', route => route.abort())
  for (const path of PAGES) {
    await page.goto(`${world.origin}${path}`)
    await page.click('#logout')
    await page.locator('[role=alert]', { hasText: 'could not be reached' }).waitFor()
    t.equal(await kept(page, 'authToken'), token, path)
    t.same(await axeFindings(page), [])
  }
  t.equal(await seen(other), 'apps', 'no other tab ends')
  await page.unrouteAll()
  await page.click('#logout')
  for (const tab of [page, other]) await tab.locator('#username').waitFor()
})

// RV-89
t.test('somebody else who logs in in the pop-up becomes the person of the page only when asked', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  await page.goto(`${world.origin}/auth/console#/areas`)
  await page.fill('#area-name', 'Half an area')
  await world.fetch('/auth/logout', { method: 'POST', token })
  await page.click('main form button')
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#log-in-again')])
  const ownerOfPage = async () => JSON.parse((await kept(page, 'authUser')) ?? '{}').username
  await fillLogin(popup, 'carlos')
  await popup.locator('h1:focus').getByText('belongs to somebody else').waitFor()
  t.equal(await ownerOfPage(), 'maria')
  t.match(await page.locator('header .name').textContent(), /Maria/)
  // It closes while it is clicked, which a click may take for its own failure.
  await Promise.all([popup.waitForEvent('close'), popup.click('#open-as-me').catch(() => undefined)])
  await page.locator('a[href="/auth/account"].main').waitFor()
  t.equal(await ownerOfPage(), 'carlos')
  t.equal(await page.locator('#area-name').count(), 0, 'what was begun is gone')
  const areas = await world.fetch('/auth/admin/areas', { token: await world.tokenFor({ profiles: ['Admin'] }) })
  t.notMatch(await areas.text(), 'Half an area')
})

t.test('what has been chosen stays when the session ends and the same person logs in again', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  await page.goto(`${world.origin}/auth/console#/people`)
  await page.locator('tbody tr').first().waitFor()
  await page.click('#select-page')
  await world.fetch('/auth/logout', { method: 'POST', token })
  const late: Route[] = []
  await page.route('**/auth/admin/areas?*', route => late.push(route), { times: 1 })
  await page.click('#bulk-open')
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#log-in-again')])
  await popup.locator('#username').waitFor()
  await Promise.all([popup.waitForEvent('close'), fillLogin(popup, 'maria').catch(() => undefined)])
  await page.getByLabel('Agente', { exact: true }).waitFor()
  await late[0]?.fulfill({ status: 401, json: { code: 'GW_TOKEN_REVOKED' } })
  await page.evaluate("fetch('/auth/me').then(answer => answer.text())")
  t.equal(await page.locator('dialog').count(), 0)
})

// RV-86, RV-87
t.test('a cloud login that one of our pages began comes back to it, and its logout asks the provider', async t => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackOf(port)] })
  const world = await startPagesWorld(t, {
    ldap,
    postgres,
    port,
    env: {
      ...provider.environment,
      FRONTEND_URL: 'https://frontend.example',
      CLOUDIDP_SUCCESS_REDIRECT_URL: 'https://frontend.example/login'
    }
  })
  const page = await openPage(t, browser, `${world.origin}/auth/account`, { origins: [provider.issuer] })
  const logInThere = async () => {
    await logInAtProvider(page)
    await page.waitForURL(`${world.origin}/auth/account`)
    t.equal(await seen(page), 'account')
  }
  await logInThere()
  await page.goto(`${world.origin}/auth/login?again=1&returnTo=%2Fauth%2Faccount`)
  await logInThere()
  for (const [query, prompt] of [
    ['?page=1&again=1', 'login'],
    ['', null]
  ]) {
    const begun = await fetch(`${world.origin}/auth/oauth/cloudidp/start${query}`, { redirect: 'manual' })
    t.equal(new URL(begun.headers.get('location') ?? '').searchParams.get('prompt'), prompt)
  }

  const owned = await page.context().newPage()
  await owned.goto(`${world.origin}/auth/login?again=1`)
  await fillLogin(owned, 'maria')
  await owned.locator('#who').waitFor()
  const open = "void window.open('/auth/login?popup=1')"
  const [popup] = await Promise.all([owned.waitForEvent('popup'), owned.evaluate(open)])
  await popup.click('#cloud')
  await popup.locator('#log-in-as-owner').click()
  const isStart = (request: { url(): string }) => request.url().includes('/cloudidp/start')
  const [begun] = await Promise.all([popup.waitForRequest(isStart), popup.click('#cloud')])
  t.match(begun.url(), /[?&]again=1$/, 'the session that somebody else has there does not log in as them once more')
  await popup.close()

  const isLogout = (request: { url(): string }) => request.url().endsWith('/auth/logout')
  const toProvider = { status: 200, json: { logoutUrl: `${provider.issuer}/end` } }
  await page.route('**/auth/logout', route => route.fulfill(toProvider), { times: 1 })
  let logouts = 0
  page.on('request', request => {
    if (isLogout(request)) logouts++
  })
  const isThere = (request: { url(): string }) => request.url().startsWith(provider.issuer)
  const [asked] = await Promise.all([
    page.waitForRequest(isLogout),
    page.waitForRequest(isThere),
    page.dblclick('#logout')
  ])
  t.same(asked.postDataJSON(), { provider: true }, 'the provider is asked too')
  t.equal(logouts, 1, 'a double click does not lead away from there')

  // Headless Chromium keeps no page for "Back"; one that is kept is told the same.
  await owned.goto(`${world.origin}/auth/account`)
  await owned.route('**/auth/logout', route => route.fulfill(toProvider))
  await owned.route(`${provider.issuer}/**`, route => route.fulfill({ status: 204 }))
  await Promise.all([owned.waitForRequest(isThere), owned.click('#logout')])
  await owned.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
  await Promise.all([owned.waitForRequest(isLogout), owned.click('#logout')])
})

// RV-90
t.test('a page whose script does not load says so in its HTML', async t => {
  const page = await openTab(t)
  for (const path of PAGES) {
    await page.route(/\/auth\/assets\/\w+\.\w+\.js$/, route => route.abort())
    await page.goto(`${world.origin}${path}`)
    await page.getByText('did not load completely').waitFor()
    await page.unroute(/\/auth\/assets\/\w+\.\w+\.js$/)
    await page.getByText('Reload', { exact: true }).click()
    t.equal(await seen(page), 'form')
  }
})

t.test('a page that fails while it is drawn says so', async t => {
  const page = await openTab(t)
  await logIn(page, world.origin)
  // What no gateway answers: profiles that are no list.
  await page.route('**/auth/me', route => route.fulfill({ json: { id: 1, name: 'A', username: 'a', profiles: 7 } }))
  for (const path of PAGES) {
    await page.goto(`${world.origin}${path}`)
    await page.locator('[role=alert]', { hasText: 'Something went wrong on this page' }).waitFor()
    t.equal(await page.locator('main').count(), 1, path)
  }
})

/** Logs in, and makes what a tab has of that login out of date. */
const logInThen = (then: (token: string, page: Page) => Promise<unknown>) => async (page: Page) =>
  then(await putLogin(page, world.origin, 'maria'), page)
const forgetToken = (page: Page) => page.evaluate('sessionStorage.clear()')
const expire = (token: string, page: Page) => expireToken(page, token)
/** Another change of Maria's access each time, so that her earlier tokens are stale. */
let changes = 0
const changeAccess = async (token: string) => {
  const call = adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))
  const profiles = ++changes % 2 === 0 ? ['Admin'] : ['Admin', 'Agente']
  const access = { profiles, areas: ['Geral'], areaPrincipal: 'Geral' }
  t.equal((await call('PUT', `users/${claimsOf(token).sub}/access`, access)).status, 200)
}

t.test('a stale token stays while the gateway cannot refresh it', async t => {
  const page = await openTab(t)
  await changeAccess(await logIn(page, world.origin))
  await page.route('**/auth/refresh', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await Promise.all([page.waitForResponse('**/auth/refresh'), page.goto(`${world.origin}/auth/account`)])
  await page.unrouteAll()
  await page.waitForLoadState('networkidle')
  await page.reload()
  t.equal(await seen(page), 'account')

  await forgetToken(page)
  await page.route('**/auth/refresh', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await page.goto(`${world.origin}/auth/apps`)
  await page.locator('[role=alert]').waitFor()
  t.equal(new URL(page.url()).pathname, '/auth/apps')
  await page.unrouteAll()
  await page.reload()
  t.equal(await seen(page), 'apps', 'a cookie alone is as good')
})

t.test('a late answer about an earlier login does not end the one that a page got meanwhile', async t => {
  const page = await openTab(t)
  await putLogin(page, world.origin, 'maria')
  const late: Route[] = []
  await page.route('**/auth/me', route => late.push(route), { times: 1 })
  await page.goto(`${world.origin}/auth/account`)
  await until(() => late.length > 0)
  const token = await putLogin(await page.context().newPage(), world.origin, 'maria')
  await putToken(page, token)
  await late[0]?.fulfill({ status: 401, json: { code: 'GW_TOKEN_REVOKED' } })
  t.equal(await seen(page), 'account')
  t.equal(await kept(page, 'authToken'), token)
})

t.test('a late answer about the cookie does not end the login that a pop-up has brought meanwhile', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  await page.goto(`${world.origin}/auth/apps`)
  t.equal(await seen(page), 'apps')
  await expireToken(page, token)
  const late: Route[] = []
  await page.route('**/auth/refresh', route => late.push(route), { times: 1 })
  const other = await page.context().newPage()
  const newToken = await putLogin(other, world.origin, 'maria')
  await other.evaluate("new BroadcastChannel('portaria.session').postMessage({ kind: 'login', userId: 0 })")
  await until(() => late.length > 0)
  await putToken(page, newToken)
  const isRead = page.waitForResponse('**/auth/apps')
  await late[0]?.fulfill({ status: 401, json: { code: 'GW_TOKEN_REVOKED' } })
  await isRead
  t.equal(await seen(page), 'apps')
  t.equal(await kept(page, 'authToken'), newToken)
})

t.test('a page for which a cookie is enough goes on with it when the token of its tab ends', async t => {
  const context = await openContext(t, browser, [world.origin])
  const [page, other] = [await context.newPage(), await context.newPage()]
  const token = await logIn(page, world.origin)
  await page.goto(`${world.origin}/auth/apps`)
  t.equal(await seen(page), 'apps')
  await expireToken(page, token)
  await other.goto(`${world.origin}/auth/login`)
  const isAnswered = page.waitForResponse(answer => answer.url().endsWith('/auth/refresh'))
  await other.evaluate("new BroadcastChannel('portaria.session').postMessage({ kind: 'login', userId: 0 })")
  await isAnswered
  await until(async () => (await kept(page, 'authToken')) === null)
  t.equal(await seen(page), 'apps')
  await page.click('#logout')
  await page.locator('#username').waitFor()

  await fillLogin(page, 'ana')
  await page.locator('[data-state=unassigned]').waitFor()
  const { id } = JSON.parse((await kept(page, 'authUser')) ?? '') as { id: number }
  await expireToken(page, (await kept(page, 'authToken')) ?? '')
  const look = () => page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await look()
  await until(async () => (await kept(page, 'authToken')) === null)
  const call = adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))
  await call('PUT', `users/${id}/access`, { profiles: ['Agente'], areas: ['Geral'], areaPrincipal: 'Geral' })
  await look()
  await page.locator('[data-state=assigned]').waitFor()
})

type Look = Record<PagePath, string>
const FORMS: Look = { '/auth/login': 'form', '/auth/apps': 'form', '/auth/account': 'form', '/auth/console': 'form' }
/** A cookie opens applications, and so the list of them; the other pages need a token. */
const BY_COOKIE: Look = { ...FORMS, '/auth/login': 'person', '/auth/apps': 'apps' }
const OPEN: Look = { ...BY_COOKIE, '/auth/account': 'account', '/auth/console': 'console' }

/** Brings a tab into a state; what each page shows then. */
const STATES: [state: string, enter: (page: Page) => Promise<unknown>, looks: Look][] = [
  ['no session', async () => undefined, FORMS],
  ['token in this tab', logInThen(async () => undefined), OPEN],
  ['cookie only', logInThen((_, page) => forgetToken(page)), BY_COOKIE],
  ['stale token', logInThen(changeAccess), OPEN],
  ['stale cookie only', logInThen((token, page) => forgetToken(page).then(() => changeAccess(token))), BY_COOKIE],
  [
    'expired token',
    logInThen((token, page) =>
      page
        .context()
        .clearCookies()
        .then(() => expire(token, page))
    ),
    FORMS
  ],
  ['expired token beside a cookie', logInThen(expire), BY_COOKIE],
  ['revoked token', logInThen(token => world.fetch('/auth/logout', { method: 'POST', token })), FORMS]
]

// RV-83
t.test('each page in each state shows itself or the form, and the form leads to it', async t => {
  const context = await openContext(t, browser, [world.origin])
  for (const [state, enter, looks] of STATES) {
    for (const path of PAGES) {
      await context.clearCookies()
      const page = await context.newPage()
      await enter(page)
      await page.goto(`${world.origin}${path}`)
      t.equal(await seen(page), looks[path], `${state} at ${path}`)
      if (looks[path] === 'form' && path !== '/auth/login') {
        await fillLogin(page, 'maria')
        await page.waitForURL(`${world.origin}${path}`)
        t.equal(await seen(page), path.slice('/auth/'.length), `the form leads back from ${state}`)
      }
      await page.close()
    }
  }
})
