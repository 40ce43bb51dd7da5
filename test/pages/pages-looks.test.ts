// Every page in both themes and languages, on a phone, a tablet and a desk: nothing for axe-core to find, nothing moves.
import type { Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, launchBrowser, openContext } from '../support/browser.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const world = await startPagesWorld(t, {
  ldap: await startOpenLdap(t, { lockoutThreshold: 0 }),
  postgres: await startPostgres(t),
  env: { CONTACT: 'ana@corp.example', BRAND_NAME: 'Casa', RATE_LIMIT_MAX: '100000' },
  config: {
    grants: [{ group: SUPORTE, profiles: ['Supervisor'], areas: ['Suporte'] }],
    upstreams: { app: { url: 'http://127.0.0.1:9' } },
    routes: [{ path: '/orders/*', upstream: 'app', roles: ['Supervisor'] }]
  }
})
const browser = await launchBrowser(t)

const tokenOf = async (username: string): Promise<string> => {
  const answer = await world.fetch('/auth/login', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username, password: SAMPLE_PASSWORD })
  })
  return ((await answer.json()) as { token: string }).token
}
const [admin, waiting] = [await tokenOf('maria'), await tokenOf('carlos')]

/** A context whose pages are logged in; with what moved on a page as `window.moved`. */
const open = async (token: string, locale: string) => {
  const opened = await openContext(browser, [world.origin], { locale })
  await opened.context.addInitScript(`
    if (${JSON.stringify(token)} !== '') sessionStorage.setItem('authToken', ${JSON.stringify(token)})
    window.moved = 0
    new PerformanceObserver(list => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.moved += value
    }).observe({ type: 'layout-shift', buffered: true })`)
  return { ...opened, page: await opened.newPage() }
}

const SIZES = [375, 768, 1280].map(width => ({ width, height: 800 }))

/** What is wrong with a page in each theme and width, as it is. */
const findings = async (page: Page, what: string): Promise<string[]> => {
  const found: string[] = []
  for (const size of SIZES) {
    await page.setViewportSize(size)
    if (!(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'))) {
      found.push(`${what} ${size.width}: wider than its window`)
    }
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      for (const finding of await axeFindings(page)) found.push(`${what} ${size.width} ${colorScheme}: ${finding}`)
    }
  }
  return found
}

const SECTIONS = ['people', 'people/1', 'areas', 'grants', 'clients', 'streams', 'access', 'traffic', 'status', 'audit']

for (const locale of ['en-GB', 'pt-BR']) {
  t.test(`axe-core finds nothing on any page, ${locale}`, async t => {
    const visits: [token: string, path: string, ready: string][] = [
      ['', '/auth/login', '#username'],
      ['', '/auth/login?x#auth=foreign', '[role=alert]:not(:empty)'],
      ['', '/nothing', '#request-id'],
      [waiting, '/auth/login', '[data-state=unassigned]'],
      [waiting, '/auth/console', 'a[href="/auth/account"]'],
      [admin, '/auth/login', '[data-state=assigned]'],
      [admin, '/auth/account', '#tokens'],
      ...SECTIONS.map((section): [string, string, string] => [admin, `/auth/console#/${section}`, 'main h1'])
    ]
    for (const token of ['', waiting, admin]) {
      const { context, faults, page } = await open(token, locale)
      for (const [of, path, ready] of visits) {
        if (of !== token) continue
        await page.goto(world.origin + path)
        await page.locator(ready).first().waitFor()
        await page.waitForLoadState('networkidle')
        t.equal(await page.locator('html').getAttribute('lang'), locale === 'pt-BR' ? 'pt-BR' : 'en', path)
        t.same(await findings(page, path), [])
      }
      t.same(faults, [])
      await context.close()
    }
  })
}

t.test('what is painted first does not move afterwards', async t => {
  for (const [token, path, ready] of [
    ['', '/auth/login', '#username'],
    [admin, '/auth/login', '[data-state=assigned]'],
    [admin, '/auth/account', '#tokens'],
    [admin, '/auth/console', 'tbody tr']
  ] as const) {
    const { context, page } = await open(token, 'pt-BR')
    for (const size of SIZES) {
      await page.setViewportSize(size)
      await page.goto(world.origin + path)
      await page.locator(ready).first().waitFor()
      await page.waitForLoadState('networkidle')
      t.ok(
        (await page.evaluate<number>('window.moved')) < 0.01,
        `${path} ${size.width}: ${await page.evaluate('window.moved')}`
      )
    }
    await context.close()
  }
})

t.test("no page asks for what is not there: the browser's console stays empty", async t => {
  const { context, page } = await open('', 'en-GB')
  const words: string[] = []
  page.on('console', message => words.push(`${message.text()} ${message.location().url}`))
  for (const path of [
    '/auth/login',
    '/auth/console',
    '/auth/account',
    '/auth/oauth/cloudidp/callback?state=x&code=y'
  ]) {
    await page.goto(world.origin + path)
    await page.waitForLoadState('networkidle')
  }
  // The refusal itself is told by the browser; nothing else is.
  t.same(
    words.filter(line => !line.includes('/callback?')),
    []
  )
  await context.close()
})
