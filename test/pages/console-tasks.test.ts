// Does the tasks of an Admin in the console, in a browser.
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { postLogin } from '../support/login.ts'
import { SAMPLE_PASSWORD } from '../support/openldap.ts'
import { measureOwnTime } from '../support/own-time.ts'
import { startBrowserWorld } from '../support/pages-world.ts'

const routes = Array.from({ length: 1000 }, (_, i) => ({
  path: `/api/service-${i}/*`,
  upstream: 'app',
  roles: i % 2 === 0 ? ['Admin'] : ['Admin', 'Supervisor']
}))
const world = await startBrowserWorld(t, { config: { upstreams: { app: { url: 'http://127.0.0.1:9' } }, routes } })
const HOSTILE = '<img src=x onerror=alert(1)>'
for (const [uid, displayName] of [
  ['hostile', HOSTILE],
  ['rtl', '\u202eמשתמש עברי'],
  ['long', 'W'.repeat(4096)]
] as const) {
  await world.ldap.addPerson({ uid, password: SAMPLE_PASSWORD, displayName })
}

const openConsole = async (t: Test) => {
  const page = await world.open(t, '/auth/console', { as: 'maria' })
  await page.locator('table').waitFor()
  return page
}

const visit = async (page: Page, section: string) => {
  await page.goto(`${world.origin}/auth/console#/${section}`)
  await page.locator('main h1').waitFor()
}

for (const username of ['hostile', 'rtl', 'long', 'carlos']) {
  await postLogin(world, username)
}

// AD-01
t.test('an Admin finds somebody by a few letters, gives access, and ends their sessions', async t => {
  const page = await openConsole(t)
  t.equal(await page.locator('tbody tr').first().locator('.state').textContent(), 'Waiting', 'who waits comes first')
  t.ok((await page.locator('tbody').textContent())?.includes(HOSTILE), 'a name is text')
  await page.fill('#search', 'carl')
  await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
  await page.click('tbody a')
  await page.check('input[value=Agente]')
  await page.fill('#new-area', 'Geral')
  await page.click('#add-area')
  await page.click('#access .main')
  await page.getByText('Access saved.').waitFor()
  await page.locator('.facts [data-state=ok]').waitFor()
  await page.click('text=End all sessions')
  t.match(await page.locator('dialog').textContent(), /end(s)? now/i, 'says what will happen')
  await page.click('dialog .danger')
  await page.getByText('The sessions have been ended.').waitFor()
  await page.getByText('person.revoke').waitFor()
  await visit(page, 'people')
  await page.fill('#search', 'img')
  await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
  await page.click('tbody a')
  await page.locator('h1.long').waitFor()
  t.equal(await page.locator('h1').textContent(), HOSTILE)
})

t.test('an Admin erases a person after typing the username twice, and the list no longer has them', async t => {
  const page = await openConsole(t)
  await page.fill('#search', 'long')
  await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
  await page.click('tbody a')
  await page.click('#erase-open')
  const erase = page.locator('#erase .danger')
  await page.fill('#erase-0', 'long')
  await page.fill('#erase-1', 'lang')
  t.equal(await erase.isDisabled(), true)
  await page.fill('#erase-1', 'long')
  await erase.click()
  await page.locator('#search').waitFor()
  await page.fill('#search', 'long')
  await page.locator('tbody tr').first().waitFor({ state: 'detached' })
  await visit(page, 'audit')
  await page.getByText('person.erase').waitFor()
})

t.test('areas are made, renamed and deleted; a route is explained from its cell', async t => {
  const page = await openConsole(t)
  await visit(page, 'areas')
  await page.fill('#area-name', 'Vendas')
  await page.click('form .main')
  await page.click('[aria-label="Rename the area Vendas"]')
  await page.fill('#rename', 'Vendas Sul')
  await page.click('dialog .main')
  await page.click('[aria-label="Delete the area Vendas Sul"]')
  await page.click('dialog .danger')
  await page.getByText('Area deleted.').waitFor()
  await visit(page, 'access')
  await page.fill('#route-filter', 'service-998')
  await page.click('[aria-label="/api/service-998/* as Supervisor: does not pass"]')
  await page.locator('#explanation .state').first().waitFor()
  t.match(await page.locator('#explanation').textContent(), /403.*GW_FORBIDDEN/s)
})

t.test('with ten thousand people and a thousand routes a search is quick, and no page is large', async t => {
  await world.postgres.query(
    `INSERT INTO users (name, email, username, provider) SELECT 'Person ' || i, 'p' || i || '@corp.example', 'p' || i, 'ldap' FROM generate_series(1, 10000) i`
  )
  const page = await openConsole(t)
  let bytes = 0
  page.on('response', async response => {
    bytes += (await response.body().catch(() => Buffer.alloc(0))).length
  })
  const ownTimeMs = measureOwnTime()
  await page.fill('#search', 'p9876')
  await page.getByText('Person 9876').waitFor()
  const tookMs = ownTimeMs()
  t.comment(`search: ${Math.round(tookMs)} ms`)
  t.ok(tookMs < 2000, 'even on a busy machine')
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const asked = performance.now()
  await (await world.fetch('/auth/admin/users?search=p9876&pageSize=25', { token })).text()
  t.comment(`answer: ${Math.round(performance.now() - asked)} ms`)
  await visit(page, 'access')
  await page.locator('.cell button').first().waitFor()
  t.ok(bytes > 0 && bytes < 2_000_000, `${bytes} bytes`)
})
