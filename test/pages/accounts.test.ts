// People keep access tokens and Admins service accounts, whose secrets are shown once; both end sessions.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, fillLogin, type OpenOptions } from '../support/browser.ts'
import { jsonRequest, logIn, postClient } from '../support/login.ts'
import { startBrowserWorld } from '../support/pages-world.ts'

const world = await startBrowserWorld(t, { env: { BOOTSTRAP_ADMINS: 'ldap:maria,ldap:carlos' } })

const openClients = async (t: Test) => {
  const page = await world.open(t, '/auth/console#/clients', {
    of: 'maria',
    permissions: ['clipboard-read', 'clipboard-write']
  })
  await page.locator('input[name=profile][value=Agente]').waitFor()
  return page
}

const secretOf = (page: Page) => page.locator('.secret .value').first().inputValue()

/** What leaves a page, and that the browser asks about it first, as it does while something is unsaved. */
const asked = async (t: Test, page: Page, answer: 'accept' | 'dismiss', leave: () => Promise<unknown>) => {
  page.removeAllListeners('dialog')
  const [dialog] = await Promise.all([
    page.waitForEvent('dialog').then(async dialog => {
      await dialog[answer]()
      return dialog
    }),
    leave()
  ])
  t.equal(dialog.type(), 'beforeunload')
}

/** Logs in again in another tab. What the page does about it, it has done before it has the answer to a later question. */
const logInBeside = async (page: Page) => {
  const heard = page.waitForResponse('**/auth/me')
  const other = await page.context().newPage()
  await other.goto(`${world.origin}/auth/login?again=1`)
  await fillLogin(other, 'maria')
  await (await heard).finished()
  await page.evaluate("fetch('/auth/me').then(answer => answer.text())")
}

/** What the token endpoint answers these credentials with. */
const tokenAnswer = async (clientId: string, secret: string) => {
  const answer = await postClient(world, clientId, secret)
  return { status: answer.status, body: (await answer.json()) as { error?: string; access_token?: string } }
}

t.test('an Admin makes a service account, copies its secret once, rotates it, and removes it', async t => {
  const page = await openClients(t)
  await page.goto(`${world.origin}/auth/console#/areas`)
  await page.fill('#area-name', 'Norte')
  await page.keyboard.press('Enter')
  await page.getByText('Area created.').waitFor()
  await page.goto(`${world.origin}/auth/console#/clients`)
  await page.locator('datalist option[value=Norte]').waitFor({ state: 'attached' })
  await page.fill('#client-name', 'nightly-export')
  await page.check('input[name=profile][value=Agente]')
  for (const area of ['Geral', 'Norte']) {
    await page.fill('#new-area', area)
    await page.keyboard.press('Enter')
  }
  await page.selectOption('#main-area', 'Norte')
  await page.fill('#client-expires', '2999-01-31')
  await page.fill('#client-addresses', '127.0.0.1, ::1/128')
  await page.click('#new-client .main')
  await page.locator('.secret').waitFor()
  const first = await secretOf(page)
  t.match(first, /^ps_[\w-]{43}$/)
  t.equal(await page.evaluate('document.activeElement.className'), 'value', 'it is focused')
  t.equal(await page.evaluate('getSelection().toString()'), first, 'and selected, to be copied by keyboard')
  await page.click('.secret .main')
  await page.getByText('Copied.').waitFor()
  t.equal(await page.evaluate('navigator.clipboard.readText()'), first)
  await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
  await page.click('.secret .main')
  await page.getByText('The browser did not allow copying.').waitFor()
  t.same(await axeFindings(page), [])

  const row = page.locator('tbody tr', { hasText: 'nightly-export' })
  const cells = (await row.locator('th, td').allTextContents()).map(cell => cell.trim())
  t.match(cells, [
    'nightly-export',
    /^pc_/,
    /^Agente$/,
    /Geral, Norte \(main\)/,
    /31.*99/,
    /127\.0\.0\.1.*::1/,
    /^never$/
  ])
  const clientId = cells[1] ?? ''
  const issued = await tokenAnswer(clientId, first)
  t.equal(issued.status, 200)

  await asked(t, page, 'accept', () => page.reload())
  await row.waitFor()
  t.notOk((await page.content()).includes(first), 'the secret is not shown again')
  t.not((await row.locator('td').nth(5).textContent())?.trim(), 'never', 'its use is')

  await row.getByRole('button', { name: 'Rotate secret of nightly-export' }).click()
  await page.locator('dialog .danger').click()
  await page.locator('.secret').waitFor()
  const second = await secretOf(page)
  t.not(second, first)
  t.equal((await tokenAnswer(clientId, second)).status, 200)
  t.equal((await tokenAnswer(clientId, first)).status, 200, 'for another day')
  await page.getByText('I have stored it').click()
  t.notOk((await page.content()).includes(second))

  await row.getByRole('button', { name: 'Edit the account nightly-export' }).click()
  const form = page.locator('#edit-client')
  await form.locator('input[value=Agente]:checked').waitFor()
  t.equal(await page.inputValue('#edit-expires'), '2999-01-31')
  t.match(await page.inputValue('#edit-addresses'), /^127\.0\.0\.1.*, ::1/)
  t.same(await axeFindings(page), [])
  const another = await logIn(world, 'carlos')
  type List = { items: { id: number; clientId: string }[] }
  const { items } = await world.json<List>('/auth/admin/clients', { token: another.token })
  const { id } = items.find(client => client.clientId === clientId) ?? {}
  const narrowed = { addresses: ['127.0.0.1'] }
  t.equal((await world.fetch(`/auth/admin/clients/${id}`, jsonRequest('PATCH', another.token, narrowed))).status, 200)
  t.equal((await world.fetch('/auth/logout', jsonRequest('POST', another.token))).status, 204)
  await form.locator('input[value=Supervisor]').check()
  await page.selectOption('#edit-main-area', 'Geral')
  await form.locator('.main').click()
  await page.getByText('Service account changed.').waitFor()
  await row.getByText('Supervisor').waitFor()
  t.match(await row.textContent(), /Geral \(main\), Norte/)
  t.notMatch(await row.textContent(), /::1/, 'what another Admin has taken away meanwhile does not come back')
  t.equal((await tokenAnswer(clientId, second)).status, 200, 'its secret is still good')

  await row.getByRole('button', { name: 'Remove the account nightly-export' }).click()
  const question = page.locator('dialog[open]')
  await question.waitFor()
  t.match(await question.textContent(), /lose their access immediately/)
  t.same(await axeFindings(page), [])
  await page.keyboard.press('Escape')
  await question.waitFor({ state: 'detached' })
  t.equal((await tokenAnswer(clientId, second)).status, 200, 'nothing happens before the answer')
  await row.getByRole('button', { name: 'Remove the account nightly-export' }).click()
  await page.locator('dialog .danger').click()
  await page.getByText('Service account removed.').waitFor()
  await row.waitFor({ state: 'detached' })
  t.match(await tokenAnswer(clientId, second), { status: 401, body: { error: 'invalid_client' } })
  t.equal((await world.fetch('/auth/me', { token: issued.body.access_token ?? '' })).status, 401)
})

t.test('what the gateway refuses of a new service account is said beside the form, which keeps its input', async t => {
  const page = await openClients(t)
  const problem = page.locator('#new-client [role=alert]')
  await page.fill('#client-name', 'twice')
  await page.fill('#client-addresses', 'somewhere')
  await page.click('#new-client .main')
  await problem.getByText('must be an IP address or a CIDR block').waitFor()
  t.equal(await page.inputValue('#client-name'), 'twice')
  const message = 'The areas, profiles and addresses are too many for a token'
  const tooMany = { statusCode: 400, code: 'GW_BAD_REQUEST', message }
  await page.route('**/auth/admin/clients', route => route.fulfill({ status: 400, json: tooMany }), { times: 1 })
  await page.click('#new-client .main')
  await problem.getByText('The server did not accept these values.').waitFor()
  await page.fill('#client-addresses', '')
  await page.click('#new-client .main')
  await page.locator('.secret').waitFor()
  const row = page.locator('tbody tr', { hasText: 'twice' })
  await row.waitFor()
  t.match(await row.textContent(), /never.*any.*never/s)
  await page.fill('#client-name', 'TWICE')
  await page.click('#new-client .main')
  await problem.getByText('A service account with this name already exists.').waitFor()
  t.equal(await page.locator('tbody tr').count(), 1)
})

t.test('an Admin sees where a person is logged in, and ends these sessions after being asked once', async t => {
  const account = await openAccount(t, { of: 'carlos', userAgent: 'the browser of carlos' })
  const page = await openClients(t)
  await page.goto(`${world.origin}/auth/console#/people`)
  await page.locator('tbody a', { hasText: /carlos/i }).click()
  const row = page.locator('#live-sessions tbody tr')
  await row.waitFor()
  t.match(await row.textContent(), /the browser of carlos.*127\.0\.0\.1|the browser of carlos.*::1/s)
  t.same(await axeFindings(page), [])
  await page.click('#end-live')
  const question = page.locator('dialog[open]')
  await question.waitFor()
  t.match(await question.textContent(), /access tokens are not affected/)
  await question.locator('.danger').click()
  await page.getByText('The sessions have been ended.').waitFor()
  await row.waitFor({ state: 'detached' })
  t.equal(await page.locator('#end-live').count(), 0)
  await account.reload()
  await account.locator('#username').waitFor()
})

const openAccount = async (t: Test, options: OpenOptions) => {
  const page = await world.open(t, '/auth/account', options)
  await page.locator('#sessions').waitFor()
  await page.locator('table').first().waitFor()
  return page
}

t.test('people see where each part of their access comes from', async t => {
  const page = await openAccount(t, { of: 'maria' })
  await page.locator('#access-part dl').waitFor()
  t.match(await page.locator('#access-part').textContent(), /Admin\s*given by an administrator/)
})

const sessionRows = (page: Page) => page.locator('#sessions-part tbody tr')

t.test('people make an access token, see it once, use it, and remove it', async t => {
  const page = await openAccount(t, { of: 'maria' })
  await page.fill('#token-name', 'backup')
  await page.dblclick('#new-token .main')
  const token = await page.locator('.secret .value').first().inputValue()
  t.match(token, /^pt_[\w-]{43}$/)
  t.equal((await world.fetch('/auth/me', { token })).status, 200)
  t.same(await axeFindings(page), [])
  await asked(t, page, 'accept', () => page.reload())
  await page.locator('#tokens-part tbody tr').waitFor()
  t.notOk((await page.content()).includes(token), 'it is not shown again')
  t.equal(await page.locator('#tokens-part tbody tr').count(), 1, 'a double click makes one')
  await page.getByRole('button', { name: 'Remove the token backup' }).click()
  await page.locator('dialog .danger').click()
  await page.getByText('No tokens.').waitFor()
  t.equal((await world.fetch('/auth/me', { token })).status, 401)
})

t.test('a secret that is shown stays until it is hidden, and leaving it is asked about', async t => {
  const openClientForm = async () => ({ page: await openClients(t), form: 'client' })
  const openTokenForm = async () => ({ page: await openAccount(t, { of: 'maria' }), form: 'token' })
  for (const open of [openClientForm, openTokenForm]) {
    const { page, form } = await open()
    const make = async (name: string) => {
      await page.fill(`#${form}-name`, name)
      await page.click(`#new-${form} .main`)
    }
    await make('shown-once')
    const secret = await secretOf(page)
    await logInBeside(page)
    t.equal(await secretOf(page), secret)
    await asked(t, page, 'dismiss', () => page.close({ runBeforeUnload: true }))
    t.equal(await secretOf(page), secret)
    await make('shown-beside')
    await page.locator('.secret').nth(1).waitFor()
    t.not(await secretOf(page), secret)
    t.same(await axeFindings(page), [])
    await page.getByText('I have stored it').first().click()
    t.equal(await secretOf(page), secret, 'another one does not take its place')
    const question = page.locator('dialog[open]')
    const areas = page.getByRole('link', { name: 'Areas' })
    for (const way of [page.locator('#logout'), ...(form === 'client' ? [areas] : [])]) {
      await way.click()
      await question.getByText('What has not been saved on this page will be lost.').waitFor()
      await question.getByText('Stay here').click()
      t.equal(await secretOf(page), secret)
    }
    if (form === 'token') continue
    await page.getByText('I have stored it').click()
    await areas.click()
    await page.locator('#area-name').waitFor()
    t.equal(await question.count(), 0, 'what has been stored is not asked about')
  }
})

t.test(
  'what is chosen for a new token stays when it is refused, when the page is drawn again, or at a login',
  async t => {
    const page = await openAccount(t, { of: 'maria' })
    await page.fill('#token-name', 'narrow')
    await page.fill('#token-expires', new Date(Date.now() + 5 * 86_400_000).toISOString().slice(0, 10))
    await page.uncheck('#new-token [name=profile][value=Admin]')
    const chosen = () => page.evaluate("[...new FormData(document.querySelector('#new-token')).entries()].join(' ')")
    const before = await chosen()
    t.notMatch(before, 'Admin')
    await page.route('**/auth/tokens', route => route.fulfill({ status: 503, json: {} }))
    await page.click('#new-token .main')
    await page.locator('#new-token [role=alert]').waitFor()
    t.equal(await chosen(), before)
    await page.unroute('**/auth/tokens')
    await page.click('button[lang=pt]')
    await page.locator('html[lang=pt-BR]').waitFor()
    t.equal(await chosen(), before)
    await logInBeside(page)
    t.equal(await chosen(), before, 'a login in another tab loses nothing')
    await page.click('#logout')
    await page.locator('dialog .danger').click()
    await page.locator('#username').waitFor()
  }
)

t.test('a list that could not be loaded again hides no question', async t => {
  const page = await openAccount(t, { of: 'maria' })
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
  await page.locator('dialog .danger').click()
  await button.waitFor({ state: 'detached' })
  await page.locator('#tokens-part > [role=alert]').waitFor({ state: 'detached' })
  t.equal(await page.locator('dialog').count(), 0)
})

t.test('people see their sessions, end one of them, and all the others', async t => {
  const other = await openAccount(t, { of: 'carlos', userAgent: 'the other browser' })
  const page = await openAccount(t, { of: 'carlos' })
  t.equal(await sessionRows(page).count(), 2)
  // It is known to the minute, and with seconds would be before the login.
  t.notMatch((await sessionRows(page).locator('[data-label="Last used"]').allTextContents()).join(), /:\d\d:|^,$/)
  await page.getByRole('button', { name: 'End the session of the other browser' }).click()
  await sessionRows(page).nth(1).waitFor({ state: 'detached' })
  await page.locator('#sessions-part .notice:focus', { hasText: 'Ended.' }).waitFor()
  await other.reload()
  await other.locator('#username').waitFor()
  await openAccount(t, { of: 'carlos' })
  await page.reload()
  await page.click('#end-others')
  await page.locator('dialog .danger').click()
  await sessionRows(page).nth(1).waitFor({ state: 'detached' })
  await page.locator('#sessions-part .notice:focus').waitFor()
})
