// People log in, wait, come back and stay logged in, in a real browser.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { adminCall } from '../support/admin-call.ts'
import { axeFindings, fillLogin, openContext, openPage } from '../support/browser.ts'
import { type Clocks, shiftClocks } from '../support/clocks.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import { only } from '../support/only.ts'
import { kept, logInAtProvider } from '../support/page-tabs.ts'
import { callbackOf, type PagesWorldOptions, startBrowserWorld, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { until } from '../support/until.ts'

/** For tests that need no settings of their own. */
const world = await startBrowserWorld(t)
const { postgres, ldap, browser } = world

const start = (test: Parameters<typeof startPagesWorld>[0], options: PagesWorldOptions = {}) =>
  startPagesWorld(test, { ldap, postgres, ...options })

const grant = async (id: number, profiles: string[]) => {
  const call = adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))
  await call('PUT', `users/${id}/access`, { profiles, areas: ['Geral'], areaPrincipal: 'Geral' })
}

/** Lets so many minutes pass, in the gateway and in the page. */
const controlTime = async (clocks: Clocks, page: Page) => {
  await page.clock.install()
  return async (minutes: number) => {
    clocks.wallMs += minutes * 60_000
    await page.clock.fastForward(minutes * 60_000)
  }
}

t.test('a wrong password is answered in words; the right one shows who is here, in this tab alone', async t => {
  const page = await world.open(t, '/auth/login')
  t.same(await page.locator('#password').getAttribute('autocomplete'), 'current-password')
  await fillLogin(page, 'maria', 'wrong')
  t.match(await page.locator('[role=alert]').textContent(), /incorrect/)
  await fillLogin(page, 'maria')
  t.equal(await page.locator('#who').textContent(), 'Maria da Silva')
  t.match(await kept(page, 'authToken'), /^eyJ/)
  t.match(JSON.parse((await kept(page, 'authUser')) ?? ''), { username: 'maria', profiles: only('Admin') })
  t.same(await page.evaluate('Object.keys(localStorage)'), [], 'nothing outlives the tab') // AD-15
  t.same(await page.context().cookies(), [], 'and no cookie, unless asked for')
  await page.reload()
  t.equal(await page.locator('#who').textContent(), 'Maria da Silva', 'a reload stays logged in')
  t.same(await axeFindings(page), [])
})

t.test('a login is asked to lead to another origin, and stays on this one', async t => {
  const page = await world.open(t, '/auth/login', { as: 'maria' })
  await page.locator('#who').waitFor()
  for (const text of [
    '//evil.example',
    '/\\evil.example',
    '/\t/evil.example',
    'https:evil.example',
    'javascript:alert(1)'
  ]) {
    await page.goto(`${world.origin}/auth/login?returnTo=${encodeURIComponent(text)}`)
    await page.locator('#who').waitFor()
    t.equal(new URL(page.url()).pathname, '/auth/login', text)
    t.equal(await page.locator('a.button.main').count(), 0, 'nor is it offered')
  }
})

t.test('a login beyond the limit says how long to wait, in whichever language the reader chooses', async t => {
  const { origin } = await start(t, { postgres: await startPostgres(t), env: { LOGIN_FAILURES_PER_IP: '1' } })
  const page = await openPage(t, browser, `${origin}/auth/login`)
  const said = (words: RegExp) => page.locator('[role=alert]', { hasText: words }).waitFor()
  await fillLogin(page, 'maria', 'wrong')
  await said(/incorrect/)
  await fillLogin(page, 'maria', 'wrong')
  await said(/^Too many attempts\. Wait [1-5] min and try again\.$/)
  t.same(await axeFindings(page), [])
  await page.getByRole('button', { name: 'Português' }).click()
  await said(/^Foram muitas tentativas\. Espere [1-5] min e tente de novo\.$/)
})

// AD-17
t.test('somebody unassigned waits, and is let in as soon as an Admin gives access', async t => {
  const page = await world.open(t, '/auth/login', { as: 'carlos', locale: 'pt-BR' })
  await page.locator('[data-state=unassigned]').waitFor()
  t.match(await page.locator('h1').textContent(), /liberação/)
  t.same(await axeFindings(page), [])
  await grant((JSON.parse((await kept(page, 'authUser')) ?? '') as { id: number }).id, ['Agente'])
  await page.locator('[data-state=assigned]').waitFor()
  t.match(JSON.parse((await kept(page, 'authUser')) ?? ''), { accessStatus: 'assigned', profiles: only('Agente') })
})

// OA-10, OA-18
t.test('a cloud login is taken by the tab that began it, and by no other', async t => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackOf(port)] })
  const world = await start(t, { port, env: { ...provider.environment } })
  const address = `${world.origin}/auth/login?returnTo=%2Fauth%2Fconsole`
  const page = await openPage(t, browser, address, { origins: [provider.issuer] })
  await logInAtProvider(page)
  t.equal(await page.locator('#who').textContent(), 'Maria Souza')
  t.equal(new URL(page.url()).hash, '', 'the address holds no token')
  const token = (await kept(page, 'authToken')) ?? ''
  const user = (await kept(page, 'authUser')) ?? ''
  const payload = Buffer.from(JSON.stringify({ token, user: JSON.parse(user) })).toString('base64url')
  const other = await page.context().newPage()
  await other.goto(`${world.origin}/auth/login#auth=${payload}`)
  await other.locator('#username').waitFor()
  t.equal(await kept(other, 'authToken'), null, 'a link logs nobody in')
  t.equal(new URL(other.url()).hash, '')
  t.match(await other.locator('[role=alert]').textContent(), /was not started in this tab/)
})

/** A server-rendered page behind a login, in a browser whose time and the gateway's are moved together. */
const openServerPage = async (t: Test, content: string, path: string, env: Record<string, string> = {}) => {
  const clocks = shiftClocks(t)
  const upstream = await startRawUpstream(t)
  const html = `<!doctype html><title>App</title>${content}`
  upstream.respond(() => `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${html.length}\r\n\r\n${html}`)
  const world = await start(t, {
    env: { BROWSER_SESSION: 'true', JWT_EXPIRES_IN: '10m', ...env },
    config: {
      upstreams: { app: { url: upstream.url } },
      routes: [{ path: '/app/*', upstream: 'app', browser: true }]
    }
  })
  const page = await (await openContext(t, browser, [world.origin])).newPage()
  const pass = await controlTime(clocks, page)
  await page.goto(`${world.origin}${path}`)
  await fillLogin(page, 'maria')
  return { world, page, pass }
}

t.test('a server-rendered page is reached by a login, and stays while its session ends and begins again', async t => {
  const content = '<input id="draft"><script src="/auth/session.js" data-warn-seconds="60" defer></script>'
  const { world, page, pass } = await openServerPage(t, content, '/app/report?year=2026')
  await page.locator('#draft').waitFor()
  t.equal(page.url(), `${world.origin}/app/report?year=2026`)
  t.equal(await page.evaluate("document.cookie.includes('session')"), false, 'scripts see no session')
  await page.fill('#draft', 'half a sentence')
  await pass(9.1)
  await page.locator('portaria-session dialog[open]').waitFor()
  t.match(await page.locator('portaria-session h2').textContent(), /ends soon/)
  await pass(1)
  await page.getByText('has ended').waitFor()
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.locator('portaria-session .main').click()])
  await popup.locator('#username').waitFor()
  await Promise.all([popup.waitForEvent('close'), fillLogin(popup, 'maria').catch(() => undefined)])
  await page.locator('portaria-session').waitFor({ state: 'detached' })
  t.equal(await page.inputValue('#draft'), 'half a sentence')
})

t.test('a page that is used keeps its session beyond the life of a token', async t => {
  const content = '<p id="text">x</p><script src="/auth/session.js" defer></script>'
  const { page, pass } = await openServerPage(t, content, '/app/report', { SESSION_MAX: '8h' })
  await page.locator('#text').waitFor()
  // Its access has changed while the gateway cannot read it, which says nothing about the session.
  await page.addInitScript("states = []; addEventListener('portaria:session', e => states.push(e.detail.state))")
  await page.route('**/auth/me', route => route.fulfill({ status: 401, json: { code: 'GW_TOKEN_STALE' } }))
  await page.route('**/auth/refresh', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await Promise.all([page.waitForResponse('**/auth/refresh'), page.reload()])
  await page.unrouteAll()
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await until(async () => (await page.evaluate('states.length')) !== 0)
  t.equal(await page.evaluate('states[0]'), 'active')
  await page.evaluate(
    "window.renewals = 0; addEventListener('portaria:session', e => { e.preventDefault(); if (e.detail.state === 'refreshed') window.renewals++ })"
  )
  for (const renewal of [1, 2, 3]) {
    await pass(6)
    await until(async () => {
      await page.locator('#text').click()
      return Number(await page.evaluate('window.renewals')) >= renewal
    })
  }
  await page.reload()
  await page.locator('#text').waitFor()
  t.equal(new URL(page.url()).pathname, '/app/report')
})
