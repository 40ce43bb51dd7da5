// Two named hosts and PUBLIC_URL in Chromium: one login for all, a cookie for each, and one end.
// OA-07, AD-22
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { fillLogin, launchBrowser, openContext, openPage } from '../support/browser.ts'
import { maria as cloudMaria, startOidcProvider } from '../support/oidc-provider.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { logInAtProvider } from '../support/page-tabs.ts'
import { callbackOf, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const [postgres, ldap, browser] = await Promise.all([
  startPostgres(t),
  startOpenLdap(t, { lockoutThreshold: 0 }),
  launchBrowser(t)
])

/** An application at the root of each of two hosts, whose pages say who they are for. Chromium finds *.localhost by itself. */
const start = async (t: Test, port?: number, env: Record<string, string> = {}) => {
  const upstream = await startRawUpstream(t)
  upstream.respond(({ headers, target }) => {
    const username = headers.find(([name]) => name === 'x-user-username')?.[1] ?? ''
    const script = '<script src="/auth/session.js" data-warn-seconds="1" defer></script>'
    const html = `<!doctype html><title>App</title><link rel="icon" href="data:,"><h1>${username} ${target.split('?')[0]}</h1>${script}`
    return `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${html.length}\r\n\r\n${html}`
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
  const { at, origins } = await start(t)
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
  const { at, origins } = await start(t)
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
  const { at, origins } = await start(t, undefined)
  const page = await openPage(t, browser, at('a.localhost', '/x'), { as: 'maria', origins })
  await arrive(page, at('a.localhost', '/x'))
  await page.evaluate(`document.title = 'unsaved'; window.states = []
    window.addEventListener('portaria:session', ({ detail }) => window.states.push(detail.state))`)
  t.equal(await logOut(page), 204)
  await page.evaluate(`new BroadcastChannel('portaria.session').postMessage({ kind: 'logout', userId: 0 })`)
  const [popup] = await Promise.all([page.waitForEvent('popup'), page.locator('portaria-session .main').click()])
  await popup.locator('#username').waitFor()
  t.equal(new URL(popup.url()).hostname, 'localhost')
  await Promise.all([popup.waitForEvent('close'), fillLogin(popup, 'maria').catch(() => undefined)])
  await page.waitForFunction(`window.states.includes('active')`)
  t.equal(await page.evaluate('document.title'), 'unsaved')
  await page.reload()
  t.equal(await heading(page), 'maria /x')
})

t.test('a login with the cloud provider leads back to the named host', async t => {
  const port = await freePort()
  const provider = await startOidcProvider(t, { redirectUris: [callbackOf(port)] })
  const { at, origins } = await start(t, port, { ...provider.environment })
  const page = await openPage(t, browser, at('b.localhost', '/d?x=1'), { origins: [...origins, provider.issuer] })
  await logInAtProvider(page)
  await arrive(page, at('b.localhost', '/d?x=1'))
  t.match(await heading(page), / \/d$/)
})
