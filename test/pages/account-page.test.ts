// Uses the account page in a browser.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, type OpenOptions } from '../support/browser.ts'
import { startBrowserWorld } from '../support/pages-world.ts'

const world = await startBrowserWorld(t, { env: { BOOTSTRAP_ADMINS: 'ldap:maria,ldap:carlos' } })

const openAccount = async (t: Test, options: OpenOptions) => {
  const page = await world.open(t, '/auth/account', options)
  await page.locator('#sessions').waitFor()
  await page.locator('table').first().waitFor()
  return page
}

t.test('people see where each part of their access comes from', async t => {
  const page = await openAccount(t, { as: 'maria' })
  await page.locator('#access-part dl').waitFor()
  t.match(await page.locator('#access-part').textContent(), /Admin\s*given by an administrator/)
})

const sessionRows = (page: Page) => page.locator('#sessions-part tbody tr')

t.test('people make an access token, see it once, use it, and remove it', async t => {
  const page = await openAccount(t, { as: 'maria' })
  await page.fill('#token-name', 'backup')
  await page.click('#new-token .main')
  const token = await page.locator('#secret-value').inputValue()
  t.match(token, /^pt_[\w-]{43}$/)
  t.equal((await world.fetch('/auth/me', { token })).status, 200)
  t.same(await axeFindings(page), [])
  await page.reload()
  await page.locator('#tokens-part tbody tr').waitFor()
  t.notOk((await page.content()).includes(token), 'it is not shown again')
  await page.getByRole('button', { name: 'Remove the token backup' }).click()
  await page.locator('dialog .danger').click()
  await page.getByText('No tokens.').waitFor()
  t.equal((await world.fetch('/auth/me', { token })).status, 401)
})

t.test('a list that could not be loaded again hides no question', async t => {
  const page = await openAccount(t, { as: 'maria' })
  const make = async (name: string) => {
    await page.fill('#token-name', name)
    await page.click('#new-token .main')
  }
  await make('kept')
  const button = page.getByRole('button', { name: 'Remove the token kept' })
  await button.waitFor()
  await page.evaluate(`document.querySelector('#tokens-part > .notice').id = 'live-region'`)
  await page.route('**/auth/tokens?*', route => route.fulfill({ status: 503, json: {} }))
  await make('other')
  await page.locator('#tokens-part > [role=alert]').waitFor()
  t.equal(await page.locator('#live-region[role=alert]').count(), 1, 'said in the same live region')
  await button.click()
  await page.unroute('**/auth/tokens?*')
  await page.locator('dialog .danger').click({ timeout: 5000 })
  await button.waitFor({ state: 'detached' })
  await page.locator('#tokens-part > [role=alert]').waitFor({ state: 'detached' })
  t.equal(await page.locator('dialog').count(), 0)
})

t.test('people see their sessions, end one of them, and all the others', async t => {
  const other = await openAccount(t, { as: 'carlos', userAgent: 'the other browser' })
  const page = await openAccount(t, { as: 'carlos' })
  t.equal(await sessionRows(page).count(), 2)
  await page.getByRole('button', { name: 'End the session of the other browser' }).click()
  await sessionRows(page).nth(1).waitFor({ state: 'detached' })
  await other.reload()
  await other.locator('#username').waitFor()
  await openAccount(t, { as: 'carlos' })
  await page.reload()
  await page.click('#end-others')
  await page.locator('dialog .danger').click()
  await sessionRows(page).nth(1).waitFor({ state: 'detached' })
})
