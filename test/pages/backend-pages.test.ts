// Pages of backends in a real browser: whose session /auth/session.js shows there, when it is renewed, and how it ends; and with two
// named hosts and PUBLIC_URL, one login for all, a cookie for each, and one end.
// OA-07, AD-22
import type { Page, Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { fillLogin, openContext, openPage } from '../support/browser.ts'
import { shiftClocks } from '../support/clocks.ts'
import { claimsOf } from '../support/login.ts'
import { maria as cloudMaria, startOidcProvider } from '../support/oidc-provider.ts'
import { expireToken, kept, logInAtProvider, putToken } from '../support/page-tabs.ts'
import { callbackOf, startBrowserWorld, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

const { postgres, ldap, browser } = await startBrowserWorld(t)

/** From a backend. */
const htmlResponse = (title: string, body: string) => {
  const html = `<!doctype html><title>${title}</title><link rel="icon" href="data:,">${body}`
  return `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${html.length}\r\n\r\n${html}`
}

/** In a pop-up, which closes itself. */
const logInThere = (popup: Page, username: string) =>
  Promise.all([popup.waitForEvent('close'), fillLogin(popup, username).catch(() => undefined)])

interface ServerPageOptions {
  readonly path?: string
  readonly warnSeconds?: number
  readonly env?: Record<string, string>
}

/** A server-rendered page behind a login as Maria, in a browser whose time and the gateway's are moved together. */
const openServerPage = async (t: Test, { path = '/app/report', warnSeconds = 300, env }: ServerPageOptions = {}) => {
  const clocks = shiftClocks(t)
  const upstream = await startRawUpstream(t)
  const script = `<script src="/auth/session.js" data-warn-seconds="${warnSeconds}" defer></script>`
  upstream.respond(({ headers }) => {
    const username = headers.find(([name]) => name === 'x-user-username')?.[1] ?? ''
    return htmlResponse(username, `<input id="draft">${script}`)
  })
  const world = await startPagesWorld(t, {
    ldap,
    postgres,
    env: { BROWSER_SESSION: 'true', JWT_EXPIRES_IN: '10m', BOOTSTRAP_ADMINS: 'ldap:maria,ldap:carlos', ...env },
    config: {
      upstreams: { app: { url: upstream.url } },
      routes: [{ path: '/app/*', upstream: 'app', browser: true }]
    }
  })
  const page = await (await openContext(t, browser, [world.origin])).newPage()
  await page.clock.install()
  await page.addInitScript("states = []; addEventListener('portaria:session', e => states.push(e.detail.state))")
  await page.goto(`${world.origin}${path}`)
  await fillLogin(page, 'maria')
  await page.locator('#draft').waitFor()
  return {
    world,
    page,
    /** Lets so many minutes pass, in the gateway and in the page. */
    async pass(minutes: number) {
      clocks.wallMs += minutes * 60_000
      await page.clock.fastForward(minutes * 60_000)
    }
  }
}

/** Its states since it was loaded, once there is one. */
const statesOf = async (page: Page): Promise<string[]> => {
  await page.waitForFunction('states.length > 0')
  return page.evaluate<string[]>('states')
}

t.test('a server-rendered page is reached by a login, and stays while its session ends and begins again', async t => {
  const { world, page, pass } = await openServerPage(t, { path: '/app/report?year=2026', warnSeconds: 60 })
  t.equal(page.url(), `${world.origin}/app/report?year=2026`)
  t.equal(await page.evaluate("document.cookie.includes('session')"), false, 'scripts see no session')
  await page.fill('#draft', 'half a sentence')
  await pass(9.1)
  await page.locator('portaria-session dialog[open]').waitFor()
  t.match(await page.locator('portaria-session h2').textContent(), /ends soon/)
  await page.keyboard.type(' and')
  await pass(1)
  await page.getByText('has ended').waitFor()
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.locator('portaria-session .main').click()])
  await popup.locator('#username').waitFor()
  await logInThere(popup, 'maria')
  await page.locator('portaria-session').waitFor({ state: 'detached' })
  t.equal(await page.inputValue('#draft'), 'half a sentence and', 'a warning takes no focus')
  t.equal(await page.evaluate('document.activeElement.id'), 'draft', 'which is given back')
})

t.test('a page that is used keeps its session beyond the life of a token, and so does one of ours', async t => {
  const { world, page, pass } = await openServerPage(t, { env: { SESSION_MAX: '8h' } })
  // Its access has changed while the gateway cannot read it, which says nothing about the session.
  await page.route('**/auth/me', route => route.fulfill({ status: 401, json: { code: 'GW_TOKEN_STALE' } }))
  await page.route('**/auth/refresh', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await Promise.all([page.waitForResponse('**/auth/refresh'), page.reload()])
  await page.unrouteAll()
  // A look that has joined the failed renewal looks again after a minute only.
  await until(async () => {
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    return page.evaluate<boolean>('states.length > 0')
  })
  t.equal((await statesOf(page))[0], 'active')
  await page.evaluate(
    "window.renewals = 0; addEventListener('portaria:session', e => { e.preventDefault(); if (e.detail.state === 'refreshed') window.renewals++ })"
  )
  for (const renewal of [1, 2, 3]) {
    await pass(6)
    await until(async () => {
      await page.locator('#draft').click()
      return Number(await page.evaluate('window.renewals')) >= renewal
    })
  }
  await page.reload()
  await page.locator('#draft').waitFor()
  t.equal(new URL(page.url()).pathname, '/app/report')

  await statesOf(page)
  /** What the page has been answered before, it has read. */
  const settled = () => page.evaluate("fetch('/auth/me').then(answer => answer.text())")
  let attempts = 0
  await page.route('**/auth/refresh', route => {
    attempts++
    return route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } })
  })
  await pass(6)
  for (let n = 0; n < 5; n++) {
    await page.locator('#draft').press('a')
    for (let i = 0; i < 3; i++) await settled()
  }
  t.equal(attempts, 1, 'what fails is not repeated at each key')
  await page.unrouteAll()

  await page.goto(`${world.origin}/auth/account`)
  await page.locator('#access-part dl').waitFor()
  for (const minutes of [0.1, 6, 6]) {
    await pass(minutes)
    const [renewed] = await Promise.all([page.waitForResponse('**/auth/refresh'), page.click('main h1')])
    t.equal(renewed.status(), 200)
    await renewed.finished()
    await settled()
  }
  await page.fill('#token-name', 'x')
  await pass(11)
  await page.click('#new-token .main')
  const question = page.locator('dialog[open] #log-in-again')
  await question.waitFor()
  for (const _ of ['once', 'twice']) await page.keyboard.press('Escape')
  await question.waitFor()
  t.equal(await page.inputValue('#token-name'), 'x', 'without a session it asks for a login, whatever key is pressed')
})

// RV-89
t.test('somebody else who logs in in the pop-up gets a page of their own, without what was begun', async t => {
  const { world, page, pass } = await openServerPage(t, { path: '/app/report?year=2026#part' })
  // As in a tab that was opened after the login.
  await page.evaluate('sessionStorage.clear()')
  await page.fill('#draft', 'half a sentence')
  await pass(11)
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.locator('portaria-session .main').click()])
  await logInThere(popup, 'carlos')
  await until(async () => (await page.title()) === 'carlos' && (await page.inputValue('#draft')) === '')
  t.equal(page.url(), `${world.origin}/app/report?year=2026`)
  t.same(await statesOf(page), ['active'])
})

// RV-88
t.test('a logout in another tab that had a login of its own ends the page too', async t => {
  const { world, page } = await openServerPage(t)
  const token = (await kept(page, 'authToken')) ?? ''
  const other = await page.context().newPage()
  await other.goto(`${world.origin}/auth/account`)
  await fillLogin(other, 'maria')
  await other.locator('#access-part dl').waitFor()
  t.not(claimsOf((await kept(other, 'authToken')) ?? '').jti, claimsOf(token).jti)
  await other.click('#logout')
  await page.getByText('has ended').waitFor()
  t.equal((await world.fetch('/auth/me', { token })).status, 401)
})

t.test('a token that has ended hides no session that the cookie holds', async t => {
  const { page } = await openServerPage(t)
  await expireToken(page, (await kept(page, 'authToken')) ?? '')
  await page.reload()
  t.same(await statesOf(page), ['active'])
  t.equal(await kept(page, 'authToken'), null)
})

t.test('a late answer about a token that has ended does not end the login that a pop-up brought meanwhile', async t => {
  const { page } = await openServerPage(t)
  const [token, held] = [(await kept(page, 'authToken')) ?? '', Promise.withResolvers<Route>()]
  await statesOf(page)
  const isByCookie = (route: Route) => route.request().headers().authorization === undefined
  await page.route('**/auth/me', route => (isByCookie(route) ? held.resolve(route) : route.continue()))
  await expireToken(page, token)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  const late = await held.promise
  await putToken(page, token)
  const [looked] = await Promise.all([
    page.waitForResponse(response => response.url().endsWith('/auth/me') && response.status() === 200),
    late.fulfill({ status: 401, json: { code: 'GW_UNAUTHENTICATED' } })
  ])
  await looked.finished()
  await page.evaluate(
    `fetch('/auth/me', { headers: { authorization: 'Bearer ${token}' } }).then(answer => answer.text())`
  )
  t.same(await statesOf(page), ['active'])
})

t.test('a page on a device whose clock is ahead neither ends nor renews its session too early', async t => {
  const { page } = await openServerPage(t, { env: { SESSION_MAX: '8h' } })
  const renewals: string[] = []
  page.on('request', request => {
    if (request.url().endsWith('/auth/refresh')) renewals.push(request.url())
  })
  for (const minutes of [7, 53]) {
    await page.clock.fastForward(minutes * 60_000)
    await page.reload()
    t.same(await statesOf(page), ['active'])
    await page.locator('#draft').press('a')
    t.same(await statesOf(page), ['active'], 'after it was used')
  }
  t.same(renewals, [])
})

/** An application at the root of each of two hosts, whose pages say who they are for. Chromium finds *.localhost by itself. */
const startHosts = async (t: Test, port?: number, env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(t)
  upstream.respond(({ headers, target }) => {
    const username = headers.find(([name]) => name === 'x-user-username')?.[1] ?? ''
    const script = '<script src="/auth/session.js" data-warn-seconds="1" defer></script>'
    return htmlResponse('App', `<h1>${username} ${target.split('?')[0]}</h1>${script}`)
  })
  const route = { path: '/*', upstream: 'app', browser: true }
  const world = await startPagesWorld(t, {
    ...{ ldap, postgres, ...(port === undefined ? {} : { port }) },
    // Somebody without access waits on the login page.
    env: {
      BROWSER_SESSION: 'true',
      BOOTSTRAP_ADMINS: `ldap:maria,ldap:carlos,cloudidp:${cloudMaria.subject}`,
      ...env
    },
    config: {
      upstreams: { app: { url: upstream.url } },
      routes: [
        { host: 'a.localhost', ...route },
        { host: 'b.localhost', ...route },
        { ...route, path: '/app/*' }
      ]
    }
  })
  const at = (host: string, path = '') => `${world.origin.replace('localhost', host)}${path}`
  const origins = [world.origin, at('a.localhost'), at('b.localhost')]
  return { at, origins }
}

/** Waits for exactly this address; as a text it would be a pattern. */
const arrive = (page: Page, address: string) => page.waitForURL(({ href }) => href === address)

const heading = (page: Page) => page.locator('h1').textContent()

const logOut = (page: Page) => page.evaluate(`fetch('/auth/logout', { method: 'POST' }).then(({ status }) => status)`)

t.test('one login opens both hosts, each by a cookie of its own, and leads back to the very page', async t => {
  const { at, origins } = await startHosts(t)
  const enter = async (username: string) => {
    const context = await openContext(t, browser, origins)
    const page = await context.newPage()
    const address = at('a.localhost', '/d/1?panes={%22a%22:1}')
    await page.goto(address)
    await fillLogin(page, username)
    await arrive(page, address)
    t.equal(await heading(page), `${username} /d/1`)
    await page.goto(at('b.localhost', '/x'))
    await arrive(page, at('b.localhost', '/x'))
    t.equal(await heading(page), `${username} /x`, 'without a click')
    const cookies = (await context.cookies()).filter(({ name }) => name === 'portaria_session')
    t.strictSame(cookies.map(({ domain }) => domain).sort(), ['a.localhost', 'b.localhost', 'localhost'])
    t.equal(new Set(cookies.map(({ value }) => value)).size, 3)
    t.same(await page.evaluate('document.cookie'), '', 'no script reads one')
  }
  await enter('maria')
  await enter('carlos')
})

t.test('tabs of two hosts that wait for a login at once each go on to their own page', async t => {
  const { at, origins } = await startHosts(t)
  const context = await openContext(t, browser, origins)
  const addresses = [at('a.localhost', '/one'), at('a.localhost', '/two'), at('b.localhost', '/three')]
  const tabs = new Map<string, Page>()
  for (const address of addresses) {
    const tab = await context.newPage()
    await tab.goto(address)
    await tab.locator('#username').waitFor()
    tabs.set(address, tab)
  }
  for (const [address, tab] of tabs) {
    await fillLogin(tab, 'maria')
    await arrive(tab, address)
    t.equal(await heading(tab), `maria ${new URL(address).pathname}`)
  }
  for (const [address, tab] of tabs) {
    await tab.goto(`${address}?again`)
    await arrive(tab, `${address}?again`)
    t.match(await heading(tab), /^maria /, 'without another login')
  }
})

t.test('a page of a named host logs in again in a pop-up, which closes itself, and stays as it is', async t => {
  const { at, origins } = await startHosts(t)
  const page = await openPage(t, browser, at('a.localhost', '/x'), { as: 'maria', origins })
  await arrive(page, at('a.localhost', '/x'))
  await page.evaluate(`document.title = 'unsaved'; window.states = []
    window.addEventListener('portaria:session', ({ detail }) => window.states.push(detail.state))`)
  t.equal(await logOut(page), 204)
  await page.evaluate(`new BroadcastChannel('portaria.session').postMessage({ kind: 'logout', userId: 0 })`)
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.locator('portaria-session .main').click()])
  await popup.locator('#username').waitFor()
  t.equal(new URL(popup.url()).hostname, 'localhost')
  await logInThere(popup, 'maria')
  await page.waitForFunction(`window.states.includes('active')`)
  t.equal(await page.evaluate('document.title'), 'unsaved')
  await page.reload()
  t.equal(await heading(page), 'maria /x')

  await page.goto(at('b.localhost', '/x'))
  await arrive(page, at('b.localhost', '/x'))
  const open = `void window.open('${at('a.localhost', '/auth/login?popup=done')}')`
  const [asked] = await Promise.all([page.waitForEvent('popup'), page.evaluate(open)])
  await asked.locator('#who').waitFor()
  t.notOk(asked.isClosed(), 'which would tell a page of another origin that somebody is logged in')
})

t.test('a login with the cloud provider leads back to the named host', async t => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackOf(port)] })
  const { at, origins } = await startHosts(t, port, { ...provider.environment })
  const page = await openPage(t, browser, at('b.localhost', '/d?x=1'), { origins: [...origins, provider.issuer] })
  await logInAtProvider(page)
  await arrive(page, at('b.localhost', '/d?x=1'))
  t.match(await heading(page), / \/d$/)
})
