// Whoever tried too often is told so in words of their own language, and how long to wait.
import t from 'tap'
import { axeFindings, launchBrowser, openContext } from '../support/browser.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'

const ldap = await startOpenLdap(t, { lockoutThreshold: 0 })
const browser = await launchBrowser(t)

const LANGUAGES = [
  {
    locale: 'en-GB',
    refused: /incorrect/,
    throttled: /^Too many attempts\. Wait [1-5] min and try again\.$/,
    other: { name: 'Português', words: /^Foram muitas tentativas\. Espere [1-5] min/ }
  },
  {
    locale: 'pt-BR',
    refused: /incorretos/,
    throttled: /^Foram muitas tentativas\. Espere [1-5] min e tente de novo\.$/,
    other: { name: 'English', words: /^Too many attempts\. Wait [1-5] min/ }
  }
]

for (const { locale, refused, throttled, other } of LANGUAGES) {
  t.test(`a login beyond the limit says how long to wait, in ${locale}`, async t => {
    const postgres = await startPostgres(t)
    const world = await startPagesWorld(t, { ldap, postgres, env: { LOGIN_FAILURES_PER_IP: '1' } })
    const { context, faults, newPage } = await openContext(browser, [world.origin], { locale })
    const page = await newPage()
    await page.goto(`${world.origin}/auth/login`)
    await page.locator('#username').waitFor()
    const attempt = async (told: RegExp) => {
      await page.fill('#username', 'maria')
      await page.fill('#password', 'wrong')
      const [answer] = await Promise.all([
        page.waitForResponse(response => response.request().method() === 'POST'),
        page.click('form .main')
      ])
      await page.locator('[role=alert]', { hasText: told }).waitFor()
      return answer
    }
    t.equal((await attempt(refused)).status(), 401)
    const answer = await attempt(throttled)
    t.equal(answer.status(), 429)
    t.match(answer.headers()['retry-after'], /^[1-9]\d*$/)
    t.same(await axeFindings(page), [])
    await page.getByRole('button', { name: other.name }).click()
    await page.locator('[role=alert]', { hasText: other.words }).waitFor()
    t.same(faults, [])
    await context.close()
  })
}
