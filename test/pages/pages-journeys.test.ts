// People log in, wait, come back and stay logged in, in a real browser.
import type { Route } from 'playwright-core'
import t from 'tap'
import { axeFindings, fillLogin, openPage } from '../support/browser.ts'
import { adminCall } from '../support/login.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import { only } from '../support/only.ts'
import { kept, logInAtProvider } from '../support/page-tabs.ts'
import { callbackOf, type PagesWorldOptions, startBrowserWorld, startPagesWorld } from '../support/pages-world.ts'
import { freePort } from '../support/ports.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

/** For tests that need no settings of their own. */
const world = await startBrowserWorld(t)
const { postgres, ldap, browser } = world

const start = (test: Parameters<typeof startPagesWorld>[0], options: PagesWorldOptions = {}) =>
  startPagesWorld(test, { ldap, postgres, ...options })

const grant = async (id: number, profiles: string[]) => {
  const call = adminCall(world, await world.tokenFor({ profiles: ['Admin'] }))
  await call('PUT', `users/${id}/access`, { profiles, areas: ['Geral'], areaPrincipal: 'Geral' })
}

t.test('a wrong password is answered in words; the right one shows who is here, in this tab alone', async t => {
  const page = await world.open(t, '/auth/login')
  await page.locator('#username').waitFor()
  const away = { status: 503, json: { code: 'GW_UNAVAILABLE' } }
  const questions = /\/auth\/(config|me)$/
  await page.route(questions, route => route.fulfill(away))
  await page.evaluate("sessionStorage.setItem('authToken', 'kept')")
  await page.reload()
  await page.locator('[role=alert]', { hasText: 'not available right now' }).waitFor()
  await page.unroute(questions)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await page.locator('#username').waitFor()
  t.same(await page.locator('[role=alert]').allTextContents(), [], 'the gateway is back')
  await page.evaluate('sessionStorage.clear()')
  t.same(await page.locator('#password').getAttribute('autocomplete'), 'current-password')
  await fillLogin(page, 'maria', 'wrong')
  t.match(await page.locator('[role=alert]').textContent(), /incorrect/)
  await fillLogin(page, 'maria')
  t.equal(await page.locator('#who').textContent(), 'Maria da Silva')
  t.match(await kept(page, 'authToken'), /^eyJ/)
  t.match(JSON.parse((await kept(page, 'authUser')) ?? ''), { username: 'maria', profiles: only('Admin') })
  await page.route(questions, route => route.fulfill(away))
  await page.reload()
  await page.locator('[role=alert]', { hasText: 'not available right now' }).waitFor()
  await page.unroute(questions)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await page.locator('#who').waitFor()
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
    '/\t/evil.example',
    ...words`//evil.example /\evil.example https:evil.example javascript:alert(1)`
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
  /** The page looks for access at once when it is shown again. */
  const look = () => page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  const looks: Route[] = []
  await page.route('**/auth/refresh', route => looks.push(route), { times: 1 })
  await look()
  await until(() => looks.length > 0)
  await page.click('#logout')
  await fillLogin(page, 'carlos')
  await page.locator('[data-state=unassigned]').waitFor()
  await (looks[0] as Route).fulfill({ status: 401, json: { code: 'GW_TOKEN_REVOKED' } })
  // Every look is answered alike: the page may take one of its own beside the one that is asked for here.
  await page.route('**/auth/refresh', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await look()
  const away = page.locator('[role=alert]', { hasText: 'indisponível' })
  await away.waitFor()
  await page.unroute('**/auth/refresh')
  await look()
  await away.waitFor({ state: 'detached' })
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

  await other.goto(`${world.origin}/auth/login`)
  // The provider would send somebody who has a session there straight back.
  await other.route('**/cloudidp/start?*', route => route.fulfill({ body: 'the login page of the provider' }))
  await Promise.all([other.waitForURL('**/cloudidp/start?*'), other.click('#cloud')])
  await other.goto(address)
  await other.locator('#cloud').waitFor()
  await other.goto(`${world.origin}/auth/login?left#auth=${payload}`)
  await other.locator('#who, [role=alert]').first().waitFor()
  t.equal(await kept(other, 'authToken'), null, 'nor in a tab that has left the cloud login that it began')

  await Promise.all([other.waitForURL('**/cloudidp/start?*'), other.click('#cloud')])
  const { searchParams } = new URL(other.url())
  t.match(searchParams.get('page'), /^\d{20,40}$/)
  for (const name of ['', '&page=', '&page=1', `&page=${'0'.repeat(30)}`]) {
    await other.goto(`${world.origin}/auth/login?at=${name.length}#auth=${payload}${name}`)
    await other.locator('#who, [role=alert]').first().waitFor()
    t.equal(await kept(other, 'authToken'), null, 'nor in one that another page leads there')
    t.equal(new URL(other.url()).hash, '')
    await Promise.all([other.waitForURL('**/cloudidp/start?*'), other.click('#cloud')])
  }
})
