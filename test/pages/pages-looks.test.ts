// Every page in both themes and languages, on a phone, a tablet and a desk: nothing for axe-core to find, nothing missing, nothing moves.
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { axeFindings, openContext } from '../support/browser.ts'
import { logIn } from '../support/login.ts'
import { startBrowserWorld } from '../support/pages-world.ts'
import { words } from '../support/words.ts'

const SUPORTE = 'CN=Suporte,OU=Grupos,DC=corp,DC=example'
const world = await startBrowserWorld(t, {
  env: { CONTACT: 'ana@corp.example', BRAND_NAME: 'Casa', RATE_LIMIT_MAX: '100000' },
  config: {
    grants: [{ group: SUPORTE, profiles: ['Supervisor'], areas: ['Suporte'] }],
    upstreams: { app: { url: 'http://127.0.0.1:9' } },
    routes: [
      { path: '/orders/*', upstream: 'app', roles: ['Supervisor'] },
      { path: '/wiki', upstream: 'app', browser: true, app: { name: 'Wiki', description: 'Who knows what' } }
    ]
  }
})

const [admin, waiting] = await Promise.all(
  ['maria', 'carlos'].map(async username => (await logIn(world, username)).token)
)

/** A page that is logged in; with what moved on it as `window.moved`, and what the browser's console has. */
const open = async (context: BrowserContext, token = '') => {
  const page = await context.newPage()
  const said: string[] = []
  page.on('console', message => said.push(`${message.text()} ${message.location().url}`))
  await page.addInitScript(`
    if (${JSON.stringify(token)} !== '' && location.protocol === 'http:') sessionStorage.setItem('authToken', ${JSON.stringify(token)})
    window.moved = 0
    new PerformanceObserver(list => {
      for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.moved += value
    }).observe({ type: 'layout-shift', buffered: true })`)
  return { page, said }
}

const [PHONE, TABLET, DESK] = [
  { width: 375, height: 800 },
  { width: 768, height: 800 },
  { width: 1280, height: 800 }
] as const

/** Each page in each theme, language and width. */
const LOOKS = {
  'en-GB': [
    [DESK, 'light'],
    [PHONE, 'dark']
  ],
  'pt-BR': [
    [TABLET, 'dark'],
    [PHONE, 'light']
  ]
} as const

/** What can be focused and has no width. */
const EMPTY = `[...document.querySelectorAll('a[href], button')]
  .filter(one => one.checkVisibility() && one.offsetWidth === 0).map(one => one.outerHTML)`

/** What is wrong with a page in each of these looks, as it is. */
const findings = async (page: Page, what: string, locale: keyof typeof LOOKS): Promise<string[]> => {
  const found: string[] = []
  for (const [size, colorScheme] of LOOKS[locale]) {
    await page.setViewportSize(size)
    await page.emulateMedia({ colorScheme })
    const look = `${what} ${size.width} ${colorScheme}`
    const fits = await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')
    if (!fits) found.push(`${look}: wider than its window`)
    for (const empty of await page.evaluate<string[]>(EMPTY)) found.push(`${look}: nothing is seen of ${empty}`)
    for (const finding of await axeFindings(page)) found.push(`${look}: ${finding}`)
  }
  return found
}

/** Everything that a page asks for when it opens has come. */
const settle = async (page: Page): Promise<void> => {
  const loading = page.locator('[role=status]', { hasText: /^(?:Loading|Carregando)…$/ })
  while ((await loading.count()) > 0) await loading.first().waitFor({ state: 'detached' })
}

const SECTIONS = words`people people/1 areas grants held clients streams access status audit`
type Visit = readonly [path: string, ready: string]

const VISITS: [token: string | undefined, ...visits: Visit[]][] = [
  [
    '',
    ['/auth/login', '#username'],
    ['/auth/login?x#auth=foreign', '[role=alert]:not(:empty)'],
    ['/nothing', '#request-id']
  ],
  [
    waiting,
    ['/auth/login', '[data-state=unassigned]'],
    ['/auth/console', 'a[href="/auth/account"]'],
    ['/auth/apps', '.tiles']
  ],
  [
    admin,
    ['/auth/login', '[data-state=assigned]'],
    ['/auth/apps', '.tiles'],
    ['/auth/account', '#tokens'],
    ['/auth/console#/traffic', 'polyline'],
    ...SECTIONS.map((section): Visit => [`/auth/console#/${section}`, 'main h1'])
  ]
]

for (const locale of ['en-GB', 'pt-BR'] as const) {
  t.test(`axe-core finds nothing on any page, and no page asks for what is not there, ${locale}`, async t => {
    // One context, so that its cache has what several pages load.
    const context = await openContext(t, world.browser, [world.origin], { locale })
    for (const [token, ...visits] of VISITS) {
      const { page, said } = await open(context, token)
      for (const [path, ready] of visits) {
        await page.goto(world.origin + path)
        await page.locator(ready).first().waitFor()
        await settle(page)
        t.equal(await page.locator('html').getAttribute('lang'), locale === 'pt-BR' ? 'pt-BR' : 'en', path)
        t.same(await findings(page, path, locale), [])
      }
      // A refusal is told by the browser.
      const missing = said.filter(line => !line.endsWith('/nothing'))
      t.same(missing, [], 'no page asks for what is not there')
      await page.close()
    }
  })
}

// Shifts are reported after the frame that has them: of the last change in the first frame from now, before the second.
const MOVED = `new Promise(resolve =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(window.moved)))))`

t.test('what is painted first does not move afterwards', async t => {
  for (const [token, path, ready] of [
    ['', '/auth/login', '#username'],
    [admin, '/auth/login', '[data-state=assigned]'],
    [admin, '/auth/account', '#tokens'],
    [admin, '/auth/console', 'tbody tr']
  ] as const) {
    const context = await openContext(t, world.browser, [world.origin], { locale: 'pt-BR' })
    const { page } = await open(context, token)
    for (const size of [PHONE, TABLET, DESK]) {
      await page.setViewportSize(size)
      await page.goto(world.origin + path)
      await page.locator(ready).first().waitFor()
      await settle(page)
      const moved = await page.evaluate<number>(MOVED)
      t.ok(moved < 0.01, `${path} ${size.width}: ${moved}`)
    }
  }
})
