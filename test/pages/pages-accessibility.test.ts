// Whoever reads with a screen reader, in the dark or in another language, gets the same login page and refusals.
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, fillLogin, launchBrowser, openContext } from '../support/browser.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'

const postgres = await startPostgres(t)
const ldap = await startOpenLdap(t, { lockoutThreshold: 0 })
const browser = await launchBrowser(t)
const world = await startPagesWorld(t, {
  ldap,
  postgres,
  env: { BROWSER_SESSION: 'true' },
  config: {
    upstreams: { app: { url: 'http://127.0.0.1:9' } },
    routes: [{ path: '/reports', upstream: 'app', browser: true, roles: ['Supervisor'] }]
  }
})

const PHONE = { width: 390, height: 844 }
const LOOKS = [
  { colorScheme: 'light', locale: 'en-GB' },
  { colorScheme: 'dark', locale: 'en-GB', viewport: PHONE },
  { colorScheme: 'light', locale: 'pt-BR', viewport: PHONE },
  { colorScheme: 'dark', locale: 'pt-BR' }
] as const

/** What is wrong with the page as it looks now: for axe-core, and by its width. */
const findings = async (page: Page): Promise<string[]> => {
  const fits = await page.evaluate('document.documentElement.scrollWidth <= innerWidth')
  return [...(await axeFindings(page)), ...(fits ? [] : ['wider than its window'])]
}

for (const look of LOOKS) {
  t.test(`axe-core finds nothing on the login page, ${look.colorScheme}, ${look.locale}`, async t => {
    const { context, faults, newPage } = await openContext(browser, [world.origin], look)
    const page = await newPage()
    await page.goto(`${world.origin}/auth/login`)
    await page.locator('#username').waitFor()
    t.equal(await page.locator('html').getAttribute('lang'), look.locale === 'pt-BR' ? 'pt-BR' : 'en')
    t.same(await findings(page), [], 'the form')
    await fillLogin(page, 'maria', 'wrong')
    await page.locator('[role=alert]', { hasText: /\w/ }).waitFor()
    await page.locator('form[aria-busy=false]').waitFor()
    t.same(await findings(page), [], 'an error')
    await fillLogin(page, 'maria')
    await page.locator('[data-state=assigned]').waitFor()
    t.same(await findings(page), [], 'logged in')
    await page.click('#logout')
    await page.locator('#username').waitFor()
    t.same(await findings(page), [], 'logged out')
    await fillLogin(page, 'carlos')
    await page.locator('[data-state=unassigned]').waitFor()
    t.same(await findings(page), [], 'waiting for access')
    t.same(faults, [])
    await context.close()
  })
}

t.test('somebody who navigates where they may not go gets a page that axe-core finds nothing on', async t => {
  for (const look of LOOKS) {
    const { context, faults, newPage } = await openContext(browser, [world.origin], look)
    const page = await newPage()
    await page.goto(`${world.origin}/reports`)
    await page.locator('#username').waitFor()
    const refused = page.waitForResponse(`${world.origin}/reports`)
    await fillLogin(page, 'maria')
    const answer = await refused
    t.equal(answer.status(), 403)
    await page.locator('#request-id').waitFor()
    t.equal(await page.locator('#request-id').textContent(), answer.headers()['x-request-id'])
    t.notMatch(answer.headers()['content-security-policy'], /unsafe/)
    t.same(await findings(page), [], `${look.colorScheme} ${look.locale}`)
    t.same(faults, [])
    await context.close()
  }
})
