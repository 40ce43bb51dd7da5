// Does the tasks of an Admin in the console: nothing is said to be saved that gives no access, lost, or overwritten unnoticed.
import { readFile } from 'node:fs/promises'
import type { Route } from 'playwright-core'
import t, { type Test } from 'tap'
import { axeFindings, type OpenOptions } from '../support/browser.ts'
import { startBrowserWorld } from '../support/pages-world.ts'
import { openStore, person } from '../support/store.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const world = await startBrowserWorld(t, {
  config: {
    profiles: ['Financeiro'],
    grants: [{ group: SUPORTE, profiles: ['Supervisor'], areas: ['Suporte'] }],
    upstreams: { app: { url: 'http://127.0.0.1:9' } },
    routes: [
      { path: '/orders/*', upstream: 'app', roles: ['Financeiro'] },
      { path: '/v1/projects:batchGet', upstream: 'app', roles: ['Financeiro'] },
      { path: '/health/live', upstream: 'app', roles: ['Financeiro'] },
      { path: '/socket.io/*', upstream: 'app', socketio: { namespaces: { '/m': { roles: ['Financeiro'] } } } }
    ]
  }
})
const { postgres } = world
const { users, audit } = await openStore(t, postgres, postgres.url)
const other = { id: 900_001, username: 'second-admin' }

const logIn = async (t: Test, options: OpenOptions = {}) => {
  const page = await world.open(t, '/auth/console', { of: 'maria', ...options })
  await page.locator('nav [aria-current]').waitFor()
  return page
}
const page = await logIn(t)

const visit = async (section: string) => {
  await page.goto(`${world.origin}/auth/console#/${section}`)
  await page.locator('main h1').waitFor()
}
const said = (words: string | RegExp) => page.getByText(words).waitFor()

/** Opens the only person whom a search finds. */
const find = async (search: string) => {
  await visit('people')
  await page.fill('#search', search)
  await said(/^1 in total$/)
  await page.click('tbody a')
  await page.locator('h1.long').waitFor()
}

const addArea = async (name: string) => {
  await page.fill('#new-area', name)
  await page.click('#add-area')
}
const save = async (words: string) => {
  await page.click('#access .main')
  await said(words)
}

const newPerson = async (name: string, groups: readonly string[] = []) =>
  (await users.syncPerson(person(name, { name, groups }))).user.id

/** Failed logins of these, which hold something back for an hour. */
const holdBack = (values: string, of: string) =>
  postgres.query(`INSERT INTO login_attempts (id, kind, at, expires_at, provider, account, address, pair)
    SELECT gen_random_uuid(), 'failed', now(), now() + interval '1 hour', ${values} FROM ${of}`)

const HOSTILE = '<img src=x onerror=alert(1)>'

// AD-01
t.test('an Admin finds somebody by a few letters, gives access, ends their sessions, and erases them', async t => {
  for (const name of ['carl', HOSTILE, '\u2069\u202eמשתמש עברי', 'W'.repeat(256)]) await newPerson(name)
  await visit('people')
  await page.locator('tbody tr').nth(4).waitFor()
  t.equal(await page.locator('tbody tr').first().locator('.state').textContent(), 'Waiting', 'who waits comes first')
  t.equal(
    await page.locator('[aria-label="Select \u2068\u202eמשתמש עברי\u2069"]').count(),
    1,
    'isolated (UAX #9), whatever marks it has'
  )
  await find('img')
  t.equal(await page.locator('h1').textContent(), HOSTILE, 'a name is text')
  await find('carl')
  await page.check('input[value=Agente]')
  await addArea('Geral')
  await save('Access saved.')
  await page.locator('.facts [data-state=ok]').waitFor()
  await page.click('text=End all sessions')
  t.match(await page.locator('dialog').textContent(), /end(s)? now/i, 'says what will happen')
  await page.click('dialog .danger')
  await said('The sessions have been ended.')
  await said('person.revoke')

  await page.check('input[value=Supervisor]')
  await page.click('#erase-open')
  const erase = page.locator('#erase .danger')
  await page.fill('#erase-0', 'carl')
  await page.fill('#erase-1', 'karl')
  t.equal(await erase.isDisabled(), true)
  await page.fill('#erase-1', 'carl')
  await erase.click()
  await page.fill('#search', 'carl')
  await said('Nothing found.')
})

t.test('a person without a name has a number to open, and is not erased before it has been typed', async t => {
  const { user } = await users.syncPerson(person('nameless', { name: '', username: '', provider: 'cloudidp' }))
  await visit('people')
  await page.locator('tbody a', { hasText: `#${user.id}` }).click()
  await page.click('#erase-open')
  const erase = page.locator('#erase .danger')
  t.equal(await erase.isDisabled(), true, 'nothing has been typed')
  for (const field of ['#erase-0', '#erase-1']) await page.fill(field, `#${user.id}`)
  await audit.append({ actor: { id: user.id, username: '' }, action: 'login', target: `user:${user.id}` })
  await erase.click()
  await page.locator('#search').waitFor()
  t.equal(await users.loadPerson(user.id), undefined)
  await visit(`audit?user=${user.id}`)
  await page.locator('tbody td', { hasText: `#${user.id}` }).waitFor()
})

t.test('areas are made, renamed and deleted; a route is explained from its cell', async t => {
  await visit('areas')
  await page.fill('#area-name', 'Vendas')
  await page.click('form .main')
  await page.click('[aria-label="Rename the area Vendas"]')
  await page.fill('#rename', 'Geral')
  await page.click('dialog .main')
  await said('An area with this name already exists.')
  t.equal(await page.inputValue('#rename'), 'Geral', 'a name that is taken can be corrected')
  await page.fill('#rename', 'Vendas Sul')
  await page.click('dialog .main')
  await said('Area renamed.')
  await page.click('[aria-label="Delete the area Vendas Sul"]')
  await page.click('dialog .danger')
  await said('Area deleted.')
  await page.click('[aria-label="Delete the area Suporte"]')
  await page.click('dialog .danger')
  await said('The route files grant this area to groups. Change them first.')
  await visit('access')
  await page.fill('#route-filter', 'orders')
  await page.click('[aria-label="/orders/* as Supervisor: does not pass"]')
  await page.locator('#explanation .state').first().waitFor()
  t.match(await page.locator('#explanation').textContent(), /403.*GW_FORBIDDEN/s)
  const again = page.waitForResponse(/auth\/admin\/explain/)
  await page.click('dialog form .main')
  t.equal((await again).status(), 200, 'the same question is asked again')
})

t.test('a cell asks about its own row, or nothing where a request says nothing of it', async t => {
  await visit('access')
  await page.fill('#route-filter', 'projects')
  await page.click('[aria-label="/v1/projects:batchGet as Financeiro: passes"]')
  t.equal(await page.inputValue('#explain-path'), '/v1/projects:batchGet')
  await page.getByRole('button', { name: 'Close' }).click()
  await page.fill('#route-filter', 'health')
  const row = page.locator('tr', { hasText: '/health/live' })
  t.match(await row.textContent(), /· app/)
  t.same(await page.locator('tr.group').allTextContents(), ['Routes of the site', 'Routes of the gateway itself'])
  await page.fill('#route-filter', 'namespace')
  await page.locator('.cell [aria-label="/socket.io/* namespace /m as Admin: does not pass"]').waitFor()
  t.equal(await page.locator('.cell button').count(), 0)
  t.same(await axeFindings(page), [])
})

t.test('the list shows the page before when nothing is left on its last page', async t => {
  const { total } = await users.listAreas()
  for (let n = total; n < 51; n += 1) await users.createArea(other, `Z${n}`)
  await visit('areas')
  await said('51 in total')
  await page.getByText('Next', { exact: true }).click()
  await page.getByText('Page 2 of 2').waitFor()
  await page.click('tbody .buttons :nth-child(2)')
  await page.click('dialog .danger')
  await said('50 in total')
  await page.locator('tbody tr').nth(49).waitFor()
  t.equal(await page.getByText('Page 1 of').count(), 0, 'of which there is one')
})

t.test('what has been saved is shown together with what is still missing for access', async t => {
  await visit(`people/${await newPerson('Ana')}`)
  await page.check('input[value=Agente]')
  await said('An area is missing: a profile alone gives no access.')
  await save('Saved, but Ana has no access yet: an area is missing.')
  t.equal(await page.getByText('Access saved.').count(), 0)
  await addArea('Geral')
  await save('Access saved.')
  t.ok(await page.isChecked('input[value=Agente]'), 'the form shows what is saved')
  await page.uncheck('input[value=Agente]')
  await save('Saved, but Ana has no access yet: a profile is missing.')
})

t.test('access is not saved without an area that has been typed and not added', async t => {
  const id = await newPerson('Gil')
  await visit(`people/${id}`)
  await page.check('input[value=Agente]')
  await page.fill('#new-area', 'Geral')
  await page.click('#access .main')
  await page.locator('#new-area:focus:invalid').waitFor()
  t.same((await users.loadPerson(id))?.user.profiles, [])
  t.same(await axeFindings(page), [])
  await page.getByRole('link', { name: 'Areas' }).click()
  await page.locator('dialog[open]').getByText('Stay here').click()
  await page.click('#add-area')
  await save('Access saved.')
  t.same((await users.loadPerson(id))?.user.areas, ['Geral'])
})

t.test('a profile that no route file names any more can be taken away, but not given', async t => {
  // Named like the id of another one.
  await postgres.query("INSERT INTO profiles (name) VALUES ('1')")
  const id = await newPerson('Lia')
  await users.setAccess(other, id, { profiles: ['Agente', '1'], areas: ['Geral'], areaPrincipal: 'Geral' })
  await visit(`people/${id}`)
  await page.uncheck('input[value="1"]')
  await save('Access saved.')
  t.same((await users.loadPerson(id))?.user.profiles, ['Agente'])
  t.equal(await page.locator('input[value="1"]').count(), 0)

  const former = { profiles: ['Agente', '1'], areas: ['Geral'], areaPrincipal: 'Geral' }
  const ids = [await newPerson('former-1'), await newPerson('former-2')]
  for (const id of ids) await users.setAccess(other, id, former)
  await visit('people')
  await page.fill('#search', 'former-')
  await said('2 in total')
  await page.click('#select-all')
  await page.click('#bulk-open')
  const choice = page.getByLabel('1', { exact: true })
  await choice.waitFor()
  t.equal(await choice.locator('option').count(), 2)
  await choice.selectOption('take')
  await page.click('#bulk .main')
  await page.click('dialog .danger')
  await said('2 people changed, 0 refused.')
  for (const id of ids) t.same((await users.loadPerson(id))?.user.profiles, ['Agente'])
})

// AD-20
t.test('an Admin who was overtaken by another is shown what the other changed, and decides', async t => {
  const id = await newPerson('Bia')
  await users.createArea(other, 'Vendas')
  await visit(`people/${id}`)
  const theirs = { profiles: ['Supervisor'], areas: ['Vendas'], areaPrincipal: 'Vendas' }
  await page.check('input[value=Agente]')
  await users.setAccess(other, id, theirs)
  await page.click('#access .main')
  const conflict = page.locator('#conflict')
  await conflict.waitFor()
  t.match(
    await conflict.textContent(),
    /second-admin changed this access.*Added: Supervisor, Vendas.*Main area: Vendas/s
  )
  t.same(await axeFindings(page), [])
  t.same((await users.loadPerson(id))?.user.profiles, ['Supervisor'], 'nothing was overwritten')
  await page.click('#show-theirs')
  await conflict.waitFor({ state: 'detached' })
  t.ok(await page.isChecked('input[value=Supervisor]'))
  t.notOk(await page.isChecked('input[value=Agente]'))

  await page.check('input[value=Agente]')
  await users.setAccess(other, id, { profiles: [], areas: [], areaPrincipal: null })
  await page.click('#access .main')
  await conflict.getByText('Removed: Supervisor, Vendas').waitFor()
  await page.fill('#new-area', 'Geral')
  await page.click('#save-mine')
  await page.locator('#new-area:focus:invalid').waitFor()
  await page.fill('#new-area', '')
  await page.click('#save-mine')
  await said('Access saved.')
  t.same((await users.loadPerson(id))?.user.profiles.toSorted(), ['Agente', 'Supervisor'])

  await page.uncheck('input[value=Agente]')
  await users.revokePerson(other, id)
  await page.click('#access .main')
  await page.locator('#unsaved').waitFor({ state: 'detached' })
  t.same((await users.loadPerson(id))?.user.profiles, ['Supervisor'])
  t.equal(await conflict.count(), 0, 'another change than of access is no conflict')
})

t.test('access is saved once, whatever a proxy makes of the ETag', async t => {
  const id = await newPerson('Bento')
  const agente = page.locator('input[value=Agente]')
  const saveWith = async (changed: (etag: string) => string, words: string) => {
    let puts = 0
    await page.route(new RegExp(`/auth/admin/users/${id}(?:/access)?$`), async route => {
      if (route.request().method() === 'PUT') puts++
      const response = await route.fetch()
      const { etag = '', ...headers } = response.headers()
      const now = changed(etag)
      await route.fulfill({ response, headers: now === '' ? headers : { ...headers, etag: now } })
    })
    // Another section first, so that the person is read anew.
    await visit('areas')
    await visit(`people/${id}`)
    await agente.click()
    await save(words)
    t.equal(puts, 1)
    await page.unrouteAll({ behavior: 'wait' })
  }
  await saveWith(etag => `W/${etag}`, 'Saved, but Bento has no access yet: an area is missing.')
  await saveWith(() => '', 'Saved. Bento has no access: a profile and an area are missing.')
  await saveWith(() => '"elsewhere"', 'This conflicts with existing data.')
  t.same((await users.loadPerson(id))?.user.profiles, [], 'given, taken, and not given')
  await agente.click()
})

t.test('what is chosen and typed while a change is being saved stays', async t => {
  /** Begins what sends this request, and returns what lets it go on. */
  const hold = async (url: string, begin: () => Promise<unknown>) => {
    const held = Promise.withResolvers<Route>()
    await page.route(url, held.resolve, { times: 1 })
    await begin()
    const route = await held.promise
    return () => route.continue()
  }
  const id = await newPerson('Davi')
  await visit(`people/${id}`)
  await page.check('input[value=Agente]')
  const save = await hold('**/access', () => page.click('#access .main'))
  await page.check('input[value=Supervisor]')
  await save()
  await said('Saved, but Davi has no access yet: an area is missing.')
  t.ok(await page.isChecked('input[value=Supervisor]'))
  t.ok(await page.locator('#unsaved').isVisible())
  t.same((await users.loadPerson(id))?.user.profiles, ['Agente'])
  await page.uncheck('input[value=Supervisor]')

  await visit('areas')
  await page.fill('#area-name', 'Oeste')
  const create = await hold('**/auth/admin/areas', () => page.press('#area-name', 'Enter'))
  await page.fill('#area-name', 'Leste')
  await create()
  await said('Area created.')
  t.equal(await page.inputValue('#area-name'), 'Leste')
  await page.fill('#area-name', '')
})

t.test('the keyboard opens a section with the focus in it, and removes one area after the other', async t => {
  const id = await newPerson('Elsa')
  await visit('areas')
  await page.getByRole('link', { name: 'People' }).press('Enter')
  await page.locator('#content:focus #search').waitFor()
  await visit(`people/${id}`)
  await page.locator('datalist option[value=Suporte]').waitFor({ state: 'attached' })
  await addArea('gerAL')
  await addArea('Suporte')
  t.same(await page.locator('#access .chips bdi').allTextContents(), ['Geral', 'Suporte'], 'in whatever case')
  for (const area of ['Geral', 'Suporte']) {
    await page.getByRole('button', { name: `Remove the area ${area}` }).press('Enter')
    await page.locator('#new-area:focus').waitFor()
  }
  await users.createArea(other, 'Passageira')
  await visit('areas')
  const remove = page.getByRole('button', { name: 'Delete the area Passageira' })
  const drawn = page.evaluate(`new Promise(seen => {
    const observer = new MutationObserver(() => {
      const dialog = document.querySelector('dialog')
      if (dialog === null) return
      observer.disconnect()
      seen(dialog.open)
    })
    observer.observe(document.body, { childList: true, subtree: true })
  })`)
  await remove.press('Enter')
  t.equal(await drawn, true, 'what is pressed next is pressed in the dialog')
  await page.keyboard.press('Escape')
  await page.locator('dialog').waitFor({ state: 'detached' })
  await page.locator('button:focus', { hasText: 'Delete' }).waitFor()
  await remove.press('Enter')
  await page.locator('dialog .danger').press('Enter')
  await page.locator('.notice:focus', { hasText: 'Area deleted.' }).waitFor()
})

t.test('unsaved changes are asked about before the view is left', async t => {
  const id = await newPerson('Caio')
  await visit(`people/${id}?search=caio`)
  const question = page.locator('dialog[open]')
  await page.locator('input[value=Agente]').waitFor()
  // Before the next picture is drawn.
  await page.evaluate("document.querySelector('input[value=Agente]').click(); location.hash = '#/areas'")
  await question.getByText('Stay here').click()
  await page.locator('#unsaved').waitFor()
  await page.getByRole('link', { name: 'Areas' }).click()
  await question.getByText('Leave without saving?').waitFor()
  t.same(await axeFindings(page), [])
  await question.getByText('Stay here').click()
  t.ok(await page.isChecked('input[value=Agente]'))
  t.match(page.url(), new RegExp(`#/people/${id}\\?search=caio$`))
  await page.click('#back')
  await question.getByText('Leave without saving?').waitFor()
  await question.locator('.danger').click()
  await page.locator('#search').waitFor()
  t.equal(await page.inputValue('#search'), 'caio', 'the list is as it was')
  t.same((await users.loadPerson(id))?.user.profiles, [])
  await visit('areas')
  await page.fill('#area-name', 'Norte')
  await page.route('**/auth/logout', route => route.abort())
  await page.click('#logout')
  await question.locator('.danger').click()
  await said('The server could not be reached.')
  await page.unrouteAll()
  await page.getByRole('link', { name: 'People' }).click()
  await question.locator('.danger').click()
  await page.locator('#search').waitFor()
})

t.test('a search and a filter are kept in the address', async t => {
  const id = await newPerson('João Conceição')
  await newPerson('Joana')
  await users.disablePerson(other, id)
  await visit('people')
  await page.fill('#search', 'conceicao joao')
  await said(/^1 in total$/)
  await page.selectOption('#filter', 'disabled')
  t.match(page.url(), /#\/people\?search=conceicao\+joao&show=disabled$/)
  await page.reload()
  await said(/^1 in total$/)
  t.equal(await page.inputValue('#search'), 'conceicao joao')
  t.same(await page.locator('tbody tr th').allTextContents(), ['João Conceição'])
  await page.selectOption('#filter', 'assigned')
  await said('Nothing found.')
})

t.test('the audit log is found by action, person and period, and saved as a table', async t => {
  const id = await newPerson('Duda')
  await users.disablePerson(other, id)
  await visit('audit')
  await page.locator('#export').waitFor()
  await page.selectOption('#audit-action', 'person.disable')
  await page.fill('#audit-user', String(id))
  await said(/^1 in total$/)
  const row = page.locator('tbody tr')
  t.match(await row.textContent(), /second-admin.*Account disabled.*Duda/s)
  // The day after is in no year that has four digits.
  const asked = page.waitForResponse(answer => answer.url().includes('audit?') && answer.url().includes('since='))
  await page.fill('#audit-to', '9999-12-31')
  await page.fill('#audit-from', '2020-01-01')
  t.equal((await asked).status(), 200)
  await said(/^1 in total$/)
  t.same(await axeFindings(page), [])
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('#export')])
  t.equal(file.suggestedFilename(), 'portaria-audit.csv')
  const text = await readFile(await file.path(), 'utf8')
  t.match(text, new RegExp(`^\\ufeffat,.*\\r\\n[^\\r]*,person.disable,user:${id},Duda,[^\\r]*\\r\\n$`))
  await page.fill('#audit-to', '2020-01-01')
  await said('Nothing found.')
})

t.test('what a group gives is listed, and cannot be unticked; an account is freed from the throttle', async t => {
  await visit(`people/${await newPerson('Eva', [SUPORTE])}`)
  const supervisor = page.locator('input[value=Supervisor]')
  await page.locator('.granted').first().waitFor()
  t.ok((await supervisor.isChecked()) && (await supervisor.isDisabled()))
  t.match(await page.locator('#access').textContent(), /by group: CN=Suporte/)
  t.same(await axeFindings(page), [])
  // From an address at which only service accounts have failed, people may log in.
  await holdBack("'client', '', '192.0.2.60', 'secret' || n", 'generate_series(1, 20) AS n')
  await page.click('#unlock')
  const notice = page.locator('.notice[data-empty=false]').first()
  t.equal(await notice.textContent(), 'The person may try to log in again.')
  await postgres.query("DELETE FROM login_attempts WHERE provider = 'client'")
  await said('Password attempts allowed')
  await visit('grants')
  const grant = page.locator('tbody tr', { hasText: /CN=Suporte.*directory/s })
  t.match(await grant.textContent(), /CN=Suporte.*directory.*Supervisor.*Suporte.*1/s)
})

t.test('lists that cannot be read say so, and can be asked for again', async () => {
  const away = { status: 503, json: { code: 'GW_UNAVAILABLE' } }
  const id = await newPerson('Hugo')
  for (const [section, list] of [
    [`people/${id}`, 'profiles'],
    [`people/${id}`, 'areas'],
    ['access', 'routes']
  ] as const) {
    await visit('held')
    await page.route(`**/auth/admin/${list}?*`, route => route.fulfill(away), { times: 1 })
    await visit(section)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('main [role=alert]:not([data-empty=true])').waitFor({ state: 'detached' })
  }
  await page.locator('.cell').first().waitFor()
})

t.test('everybody who matches is changed at once', async t => {
  await visit('people')
  await page.locator('tbody tr').first().waitFor()
  await page.route('**/auth/admin/users?*pageSize=200', route => route.fulfill({ status: 429, json: {} }), { times: 1 })
  await page.click('#select-all')
  await said('Too many requests in a short time. Wait a moment.')
  await page.route('**/auth/admin/users?*', async route => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...(await response.json()), total: 20_001 } })
  })
  await page.fill('#search', 'a')
  await page.getByText('Select all 20,001').click()
  await said('At most 20,000 people can be changed at once. Narrow the search.')
  t.equal(await page.locator('#bulk-open').count(), 0)
  await page.unrouteAll({ behavior: 'wait' })
  for (let n = 0; n < 30; n += 1) await newPerson(`waiting-${n}`)
  await visit('people')
  await page.fill('#search', 'waiting-')
  const change = async (...choices: [name: string, choice: string][]) => {
    await said('30 in total')
    await page.click('#select-all')
    await said('30 selected')
    await page.click('#bulk-open')
    for (const [name, choice] of choices) await page.getByLabel(name, { exact: true }).selectOption(choice)
    await page.getByRole('link', { name: 'Areas' }).click()
    await page.locator('dialog[open]').getByText('Stay here').click()
    t.same(await axeFindings(page), [])
    await page.click('#bulk .main')
    t.match(await page.locator('dialog').textContent(), /30 people/)
    await page.click('dialog .danger')
  }
  const unavailable = { status: 503, json: { code: 'GW_UNAVAILABLE' } }
  await page.route('**/auth/admin/users/access', route => route.fulfill(unavailable), { times: 1 })
  await change(['Agente', 'give'], ['Suporte', 'give'])
  await said('The server cannot do this right now. Try again in a moment.')
  t.ok(await page.getByText('30 selected').isVisible(), 'what was chosen is still there')
  const tooMany = { status: 429, json: {} }
  await page.route('**/auth/admin/users?accessStatus=*', route => route.fulfill(tooMany), { times: 1 })
  await page.click('#bulk .main')
  await page.click('dialog .danger')
  await said('30 people changed, 0 refused. Too many requests in a short time.')
  t.equal((await users.listPeople({ search: 'waiting-', accessStatus: 'assigned' })).total, 30)
  await change(['Suporte', 'take'])
  await said(/30 people changed.*Still without access.* \(30\): .*waiting-/i)
})

// RV-65
t.test('an Admin sees which addresses are held back, and frees one', async t => {
  await holdBack("'ldap', 'x' || n, '192.0.2.50', 'pair' || n", 'generate_series(1, 20) AS n')
  await visit('held')
  const row = page.locator('tbody tr', { hasText: '192.0.2.50' })
  t.match(await row.textContent(), /192\.0\.2\.50 address: logins from it are refused.*20.*Free/s)
  t.same(await axeFindings(page), [])
  await page.getByRole('button', { name: 'Free 192.0.2.50' }).click()
  await said('192.0.2.50 may try again.')
  await said('No account or address is held back.')
  await page.route('**/auth/admin/held-back?*', route => route.abort())
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await said('The server could not be reached.')
  t.equal(await page.getByText('No account or address is held back.').count(), 0, 'which is not known any more')
  await page.unrouteAll({ behavior: 'wait' })
})

t.test('on a phone the open section is in view, and the grid begins with routes of the site', async t => {
  const phone = { viewport: { width: 375, height: 740 }, isMobile: true, hasTouch: true }
  const page = await logIn(t, phone)
  await page.goto(`${world.origin}/auth/console#/audit`)
  // The strip is scrolled after the section is drawn.
  const inView = `(() => { const { left, right } = document.querySelector('nav [aria-current]').getBoundingClientRect()
    return left >= 0 && right <= innerWidth })()`
  await page.locator('#export').waitFor()
  await page.waitForFunction(inView)
  await page.goto(`${world.origin}/auth/console#/access`)
  await page.locator('.cell').first().waitFor()
  await page.waitForFunction(inView)
  t.match(await page.locator('tbody tr').nth(1).textContent(), /\/orders\/\*/)
  t.match(await page.locator('thead').textContent(), /Financeiro/, 'profiles of the route files too')
  const scroll = `(() => { const place = document.querySelector('.scroll')
    place.scrollLeft = place.scrollWidth
    return [place.scrollLeft > 0, place.querySelector('tbody th[scope=row]').getBoundingClientRect().left >= 0] })()`
  t.same(await page.evaluate(scroll), [true, true], 'it scrolls, and the routes stay in view')
  t.ok(await page.getByText('Scroll the table sideways to see every profile.').isVisible())
  t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
})

t.test('many people get any of all areas at once, and one without a name is named by the username', async () => {
  await users.syncPerson(person('sem-nome', { name: '' }))
  await postgres.query("INSERT INTO areas (name) SELECT 'Filial ' || n FROM generate_series(1, 200) AS n")
  await postgres.query("INSERT INTO areas (name) VALUES ('Zona'), ('Zulu')")
  await visit('people')
  await page.fill('#search', 'sem-nome')
  await said('1 in total')
  await page.click('#select-all')
  await said('1 selected')
  await page.click('#bulk-open')
  await page.getByLabel('Zona', { exact: true }).selectOption('give')
  await page.click('#bulk .main')
  await page.click('dialog .danger')
  await said(/1 people changed.*Still without access.* \(1\): sem-nome/i)
  await page.click('tbody a')
  await page.locator('datalist option[value=Zulu]').waitFor({ state: 'attached' })
  await page.fill('#new-area', 'Zonas')
  await page.click('#add-area')
  await said('This area does not exist. Create it under Areas.')
  await page.fill('#new-area', '')
  // Listed after 200 addresses at which service accounts have failed: one from which people cannot log in.
  await holdBack(
    "CASE WHEN net = 99 THEN 'ldap' ELSE 'client' END, '', '192.0.' || net || '.1', 'pair' || n",
    'generate_series(1, 201) AS net, generate_series(1, 20) AS n'
  )
  await page.click('#unlock')
  await said('The account is free. Some addresses are held back: see Held back.')
})
