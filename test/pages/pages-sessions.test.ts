// What our own pages show in every state of a session, and when it changes: here, in another tab, or at the provider.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { adminCall } from '../support/admin-call.ts'
import { fillLogin, openContext, openPage } from '../support/browser.ts'
import { signToken, TEST_SECRET } from '../support/gateway.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import {
  APP_CONFIG,
  claimsOf,
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
import { until } from '../support/until.ts'

const world = await startBrowserWorld(t, { env: { BROWSER_SESSION: 'true' }, config: APP_CONFIG })
const { postgres, ldap, browser } = world

const openTab = async (t: Test) => (await openContext(t, browser, [world.origin])).newPage()

// RV-85
t.test('a login that is too old for a token is asked for again, with a password', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  const nowS = Math.floor(Date.now() / 1000)
  const old = { ...claimsOf(token), iat: nowS - 1200, auth_time: nowS - 1200 }
  await putToken(page, await signToken(TEST_SECRET, {}, old))
  await page.goto(`${world.origin}/auth/account`)
  await page.fill('#token-name', 'my tool')
  await page.click('#new-token .main')
  await page.locator('#new-token a.button').click()
  await fillLogin(page, 'maria')
  await page.waitForURL(`${world.origin}/auth/account`)
  await page.fill('#token-name', 'my tool')
  await page.click('#new-token .main')
  await page.locator('#secret-value').waitFor()
  t.match(await page.inputValue('#secret-value'), /^pt_/)
})

// RV-88
t.test('a logout in one tab ends the same person in the others, and they say why', async t => {
  for (const path of ['/auth/console', '/auth/account', '/auth/apps'] as const) {
    const context = await openContext(t, browser, [world.origin])
    const [one, two] = [await context.newPage(), await context.newPage()]
    await logIn(one, world.origin)
    const token = await logIn(two, world.origin)
    await two.goto(`${world.origin}${path}`)
    t.equal(await seen(two), path.slice('/auth/'.length))
    await one.click('#logout')
    await two.locator('#username').waitFor()
    t.match(await two.locator('[role=status]').first().textContent(), /another tab/)
    await until(async () => (await world.fetch('/auth/me', { token })).status === 401, 'its login has ended')
  }
})

// RV-89
t.test('somebody else who logs in in the pop-up becomes the person of the page only when asked', async t => {
  const page = await openTab(t)
  const token = await logIn(page, world.origin)
  await page.goto(`${world.origin}/auth/console#/areas`)
  await page.locator('main form input').first().waitFor()
  await page.locator('main form input').first().fill('Half an area')
  await world.fetch('/auth/logout', { method: 'POST', token })
  await page.click('main form button')
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.click('#log-in-again')])
  await fillLogin(popup, 'carlos')
  await popup.locator('#open-as-me').waitFor()
  t.equal((JSON.parse((await kept(page, 'authUser')) ?? '{}') as { username: string }).username, 'maria')
  t.match(await page.locator('header .name').textContent(), /Maria/)
  await Promise.all([popup.waitForEvent('close'), popup.click('#open-as-me')])
  await page
    .getByText(/administra/i)
    .first()
    .waitFor()
  t.equal((JSON.parse((await kept(page, 'authUser')) ?? '{}') as { username: string }).username, 'carlos')
  t.equal(await page.locator('main form input').count(), 0, 'what was begun is gone')
  const areas = await world.fetch('/auth/admin/areas', { token: await world.tokenFor({ profiles: ['Admin'] }) })
  t.notMatch(await areas.text(), 'Half an area')
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
  const begun = await fetch(`${world.origin}/auth/oauth/cloudidp/start?page=1&again=1`, { redirect: 'manual' })
  t.equal(new URL(begun.headers.get('location') ?? '').searchParams.get('prompt'), 'login')
  const plain = await fetch(`${world.origin}/auth/oauth/cloudidp/start`, { redirect: 'manual' })
  t.equal(new URL(plain.headers.get('location') ?? '').searchParams.get('prompt'), null)
  const isLogout = (request: { url(): string }) => request.url().endsWith('/auth/logout')
  const [asked] = await Promise.all([page.waitForRequest(isLogout), page.click('#logout')])
  t.same(asked.postDataJSON(), { provider: true }, 'the provider is asked too')
})

// RV-90
t.test('a page whose script does not load says so in its HTML', async t => {
  for (const path of PAGES) {
    const page = await openTab(t)
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

/** Another change of Maria's access each time, so that her earlier tokens are stale. */
let changes = 0
const changeAccess = async (id: number) => {
  const call = adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))
  const profiles = ++changes % 2 === 0 ? ['Admin'] : ['Admin', 'Agente']
  const access = { profiles, areas: ['Geral'], areaPrincipal: 'Geral' }
  t.equal((await call('PUT', `users/${id}/access`, access)).status, 200)
}

/** Brings a tab into a state, and leaves it at a page of the gateway. */
const STATES: Record<string, (page: Page) => Promise<unknown>> = {
  'no session': page => page.goto(`${world.origin}/auth/login`),
  'token in this tab': page => logIn(page, world.origin),
  'cookie only': async page => {
    await logIn(page, world.origin)
    await page.evaluate('sessionStorage.clear()')
  },
  'stale token': async page => {
    const { sub } = claimsOf(await logIn(page, world.origin))
    await changeAccess(Number(sub))
  },
  'stale cookie only': async page => {
    const { sub } = claimsOf(await logIn(page, world.origin))
    await page.evaluate('sessionStorage.clear()')
    await changeAccess(Number(sub))
  },
  'expired token': async page => {
    const token = await logIn(page, world.origin)
    const nowS = Math.floor(Date.now() / 1000)
    await page.context().clearCookies()
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'expired token beside a cookie': async page => {
    const token = await logIn(page, world.origin)
    const nowS = Math.floor(Date.now() / 1000)
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'revoked token': async page => {
    const token = await logIn(page, world.origin)
    await world.fetch('/auth/logout', { method: 'POST', token })
  }
}

const ALL_FORM = { '/auth/login': 'form', '/auth/apps': 'form', '/auth/account': 'form', '/auth/console': 'form' }
const ALL_OPEN = {
  '/auth/login': 'person',
  '/auth/apps': 'apps',
  '/auth/account': 'account',
  '/auth/console': 'console'
}
/** A cookie opens applications, and so the list of them; the other pages need a token. */
const BY_COOKIE = { ...ALL_FORM, '/auth/login': 'person', '/auth/apps': 'apps' }

const EXPECTED: Record<string, Record<PagePath, string>> = {
  'no session': ALL_FORM,
  'token in this tab': ALL_OPEN,
  'cookie only': BY_COOKIE,
  'stale token': ALL_OPEN,
  'stale cookie only': BY_COOKIE,
  'expired token': ALL_FORM,
  'expired token beside a cookie': BY_COOKIE,
  'revoked token': ALL_FORM
}

// RV-83
t.test('each page in each state shows itself or the form, and the form leads to it', async t => {
  const rows: string[] = [`| state | ${PAGES.join(' | ')} |`]
  for (const [state, enter] of Object.entries(STATES)) {
    const cells: string[] = []
    for (const path of PAGES) {
      const page = await openTab(t)
      await enter(page)
      await page.goto('about:blank')
      await page.goto(`${world.origin}${path}`)
      const look = await seen(page)
      cells.push(look)
      t.equal(look, EXPECTED[state]?.[path], `${state} at ${path}`)
      if (look === 'form' && path !== '/auth/login') {
        await fillLogin(page, 'maria')
        await page.waitForURL(`${world.origin}${path}`)
        t.equal(await seen(page), path.slice('/auth/'.length), `the form leads back from ${state}`)
      }
      await page.context().close()
    }
    rows.push(`| ${state} | ${cells.join(' | ')} |`)
  }
  t.comment(rows.join('\n'))
})
