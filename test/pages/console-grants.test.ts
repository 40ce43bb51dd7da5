// In the console an Admin sees what comes from groups, and changes many people with one confirmation.
import t from 'tap'
import { openDatabase } from '../../gateway/store/database.ts'
import { createUsers } from '../../gateway/store/users.ts'
import { axeFindings, fillLogin, launchBrowser, openContext } from '../support/browser.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'
import { quiet } from '../support/quiet.ts'
import { person } from '../support/store.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'

t.test('what a group gives cannot be unticked, and everybody who matches is changed at once', async t => {
  const postgres = await startPostgres(t)
  const ldap = await startOpenLdap(t)
  const database = await openDatabase({ databaseUrl: postgres.url, dataDir: '/nonexistent', log: quiet })
  t.teardown(() => database.close())
  const users = createUsers(database)
  await users.syncPerson(person('granted-one', { groups: [SUPORTE] }))
  for (let n = 0; n < 30; n += 1) await users.syncPerson(person(`waiting-${n}`))
  const grants = [{ group: SUPORTE, profiles: ['Supervisor'], areas: ['Suporte'] }]
  const world = await startPagesWorld(t, { ldap, postgres, config: { grants } })
  const browser = await launchBrowser(t)
  const { context, faults } = await openContext(browser, [world.origin])
  const page = await context.newPage()
  await page.goto(`${world.origin}/auth/console`)
  await fillLogin(page, 'maria')
  await page.locator('table').waitFor()

  await page.fill('#search', 'granted-one')
  await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' })
  await page.click('tbody a')
  const supervisor = page.locator('input[value=Supervisor]')
  await supervisor.waitFor()
  await page.locator('.granted').first().waitFor()
  t.ok(await supervisor.isChecked())
  t.ok(await supervisor.isDisabled())
  t.match(await page.locator('#access').textContent(), /by group: CN=Suporte/)
  t.same(await axeFindings(page), [])

  await page.goto(`${world.origin}/auth/console#/people`)
  await page.locator('#select-all').waitFor()
  await page.fill('#search', 'waiting-')
  await page.getByText('30 in total').waitFor()
  await page.click('#select-all')
  await page.getByText('30 selected').waitFor()
  await page.click('#bulk-open')
  await page.getByLabel('Agente', { exact: true }).selectOption('give')
  await page.getByLabel('Suporte', { exact: true }).selectOption('give')
  t.same(await axeFindings(page), [])
  await page.click('#bulk .main')
  t.match(await page.locator('dialog').textContent(), /30 people.*Agente, Suporte/s)
  await page.click('dialog .danger')
  await page.getByText('30 people changed, 0 refused.').waitFor()
  t.equal((await users.listPeople({ search: 'waiting-', accessStatus: 'assigned' })).total, 30)

  await page.getByText('30 in total').waitFor()
  await page.click('#select-all')
  await page.click('#bulk-open')
  await page.getByLabel('Suporte', { exact: true }).selectOption('take')
  await page.click('#bulk .main')
  await page.click('dialog .danger')
  await page.getByText(/30 people changed.*Still without access.* \(30\): .*waiting-/i).waitFor()
  t.same(faults, [])
  await context.close()
})
