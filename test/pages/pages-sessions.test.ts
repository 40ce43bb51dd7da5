// What our own pages show in every state of a session, and what happens to them when it changes elsewhere.
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { fillLogin, launchBrowser, openContext } from '../support/browser.ts'
import { signToken, TEST_SECRET } from '../support/gateway.ts'
import { maria as cloudMaria, startOidcProvider } from '../support/oidc-provider.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { callbackOf, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const [postgres, ldap, browser] = await Promise.all([
  startPostgres(t),
  startOpenLdap(t, { lockoutThreshold: 0 }),
  launchBrowser(t)
])

const world = await startPagesWorld(t, { ldap, postgres, env: { BROWSER_SESSION: 'true' } })

const PAGES = ['/auth/login', '/auth/account', '/auth/console'] as const
type PagePath = (typeof PAGES)[number]

const kept = (page: Page, key: string): Promise<string | null> => page.evaluate(`sessionStorage.getItem('${key}')`)
const claimsOf = (token: string): Record<string, unknown> & { jti: string } =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())

/** What a person sees, in one word. */
const seen = async (page: Page): Promise<string> => {
  const looks: readonly (readonly [string, string])[] = [
    ['dialog', 'dialog #log-in-again'],
    ['form', '#username'],
    ['person', '#who'],
    ['account', '#access-part dl'],
    ['console', 'nav a[href="#/people"]']
  ]
  let found = ''
  await until(
    async () => {
      for (const [word, selector] of looks) {
        if (found === '' && (await page.locator(selector).count()) > 0) found = word
      }
      return found !== ''
    },
    () => `something is shown at ${page.url()}`
  )
  return found
}

const logIn = async (page: Page, username = 'maria') => {
  await page.goto(`${world.origin}/auth/login?again=1`)
  await fillLogin(page, username)
  await page.locator('#who').waitFor()
  return (await kept(page, 'authToken')) ?? ''
}

const putToken = (page: Page, token: string) => page.evaluate(`sessionStorage.setItem('authToken', '${token}')`)

/** Another change of Maria's access each time, so that her earlier tokens are stale. */
let changes = 0
const changeAccess = async (id: number) => {
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const profiles = ++changes % 2 === 0 ? ['Admin'] : ['Admin', 'Agente']
  const { status } = await world.fetch(`/auth/admin/users/${id}/access`, {
    method: 'PUT',
    token,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ profiles, areas: ['Geral'], areaPrincipal: 'Geral' })
  })
  t.equal(status, 200)
}

/** Brings a tab into a state, and leaves it at a page of the gateway. */
const STATES: Record<string, (page: Page, context: BrowserContext) => Promise<unknown>> = {
  'no session': page => page.goto(`${world.origin}/auth/login`),
  'token in this tab': page => logIn(page),
  'cookie only': async page => {
    await logIn(page)
    await page.evaluate('sessionStorage.clear()')
  },
  'stale token': async page => {
    const { sub } = claimsOf(await logIn(page))
    await changeAccess(Number(sub))
  },
  'expired token': async (page, context) => {
    const token = await logIn(page)
    const nowS = Math.floor(Date.now() / 1000)
    await context.clearCookies()
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'expired token beside a cookie': async page => {
    const token = await logIn(page)
    const nowS = Math.floor(Date.now() / 1000)
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'revoked token': async page => {
    const token = await logIn(page)
    await world.fetch('/auth/logout', { method: 'POST', token })
  }
}

const EXPECTED: Record<string, Record<PagePath, string>> = {
  'no session': { '/auth/login': 'form', '/auth/account': 'form', '/auth/console': 'form' },
  'token in this tab': { '/auth/login': 'person', '/auth/account': 'account', '/auth/console': 'console' },
  'cookie only': { '/auth/login': 'person', '/auth/account': 'form', '/auth/console': 'form' },
  'stale token': { '/auth/login': 'person', '/auth/account': 'account', '/auth/console': 'console' },
  'expired token': { '/auth/login': 'form', '/auth/account': 'form', '/auth/console': 'form' },
  'expired token beside a cookie': { '/auth/login': 'person', '/auth/account': 'form', '/auth/console': 'form' },
  'revoked token': { '/auth/login': 'form', '/auth/account': 'form', '/auth/console': 'form' }
}

// RV-83
t.test('each page in each state shows itself or the form, and the form leads to it', async t => {
  const rows: string[] = [`| state | ${PAGES.join(' | ')} |`]
  for (const [state, enter] of Object.entries(STATES)) {
    const cells: string[] = []
    for (const path of PAGES) {
      const { context, faults, newPage } = await openContext(browser, [world.origin])
      const page = await newPage()
      await enter(page, context)
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
      t.same(faults, [], `${state} at ${path}`)
      await context.close()
    }
    rows.push(`| ${state} | ${cells.join(' | ')} |`)
  }
  t.comment(rows.join('\n'))
})

const start = (test: Parameters<typeof startPagesWorld>[0], options: Parameters<typeof startPagesWorld>[1] = {}) =>
  startPagesWorld(test, { ldap, postgres, ...options })

// RV-85
t.test('a login that is too old for a token is asked for again, with a password', async t => {
  const { context, faults, newPage } = await openContext(browser, [world.origin])
  const page = await newPage()
  const token = await logIn(page)
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
  await page.locator('#token-value').waitFor()
  t.match(await page.inputValue('#token-value'), /^pt_/)
  t.same(faults, [])
  await context.close()
})

// RV-88
t.test('a logout in one tab ends the same person in the others, and they say why', async t => {
  for (const path of ['/auth/console', '/auth/account'] as const) {
    const { context, faults, newPage } = await openContext(browser, [world.origin])
    const [one, two] = [await newPage(), await newPage()]
    await logIn(one)
    const token = await logIn(two)
    await two.goto(`${world.origin}${path}`)
    t.equal(await seen(two), path.slice('/auth/'.length))
    await one.click('#logout')
    await two.locator('#username').waitFor()
    t.match(await two.locator('[role=status]').first().textContent(), /another tab/)
    await until(async () => (await world.fetch('/auth/me', { token })).status === 401, 'its login has ended')
    t.same(faults, [])
    await context.close()
  }
})

// RV-89
t.test(
  'somebody else who logs in in the pop-up does not become the person of the page without being asked',
  async t => {
    const { context, faults, newPage } = await openContext(browser, [world.origin])
    const page = await newPage()
    const token = await logIn(page)
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
    t.same(faults, [])
    await context.close()
  }
)

// RV-86, RV-87
t.test('a cloud login that one of our pages began comes back to it, and its logout asks the provider', async t => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackOf(port)] })
  const world = await start(t, {
    port,
    env: {
      ...provider.environment,
      FRONTEND_URL: 'https://frontend.example',
      CLOUDIDP_SUCCESS_REDIRECT_URL: 'https://frontend.example/login'
    }
  })
  const { context, faults, newPage } = await openContext(browser, [world.origin, provider.issuer])
  const page = await newPage()
  await page.goto(`${world.origin}/auth/account`)
  await page.click('#cloud')
  await page.locator(`input[value="${cloudMaria.username}"]`).check()
  await page.locator('input[type=password]').fill(cloudMaria.password)
  await page.locator('button').click()
  await page.waitForURL(`${world.origin}/auth/account`)
  t.equal(await seen(page), 'account')
  const begun = await fetch(`${world.origin}/auth/oauth/cloudidp/start?page=1&again=1`, { redirect: 'manual' })
  t.equal(new URL(begun.headers.get('location') ?? '').searchParams.get('prompt'), 'login')
  const plain = await fetch(`${world.origin}/auth/oauth/cloudidp/start`, { redirect: 'manual' })
  t.equal(new URL(plain.headers.get('location') ?? '').searchParams.get('prompt'), null)
  const isLogout = (request: { url(): string }) => request.url().endsWith('/auth/logout')
  const [asked] = await Promise.all([page.waitForRequest(isLogout), page.click('#logout')])
  t.same(asked.postDataJSON(), { provider: true }, 'the provider is asked too')
  t.same(faults, [])
  await context.close()
})

// RV-90
t.test('a page whose script does not load says so in its HTML', async t => {
  for (const path of PAGES) {
    const { context, newPage } = await openContext(browser, [world.origin])
    const page = await newPage()
    await page.route(/\/auth\/assets\/render\./, route => route.abort())
    await page.goto(`${world.origin}${path}`)
    await page.getByText('did not load completely').waitFor()
    await page.unroute(/\/auth\/assets\/render\./)
    await page.getByText('Reload', { exact: true }).click()
    t.equal(await seen(page), 'form')
    await context.close()
  }
})
