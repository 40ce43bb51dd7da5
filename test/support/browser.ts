// Opens a real browser for a test, and reports everything that a page should never do.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type LaunchOptions,
  type Page
} from 'playwright-core'
import type { Test } from 'tap'
import { SAMPLE_PASSWORD } from './openldap-people.ts'
import { findChromium } from './provision.ts'
import { words } from './words.ts'

const FLAGS = words`
  --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update
  --disable-sync
`

/** Long enough for a machine that does ten other things. */
const PATIENCE_MS = 120_000

export const launchBrowser = async (t: Pick<Test, 'teardown'>, options: LaunchOptions = {}): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath: findChromium() ?? '/usr/bin/chromium',
    args: FLAGS,
    ...options
  })
  t.teardown(() => browser.close())
  return browser
}

// As text: what runs in a page is not of this program.
const REPORT_VIOLATIONS = `document.addEventListener('securitypolicyviolation', event =>
  window.reportViolation([event.violatedDirective, event.blockedURI, event.sample].join(' ')))`

/** In its short form, which takes half as long to be read by each page. */
const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
const RUN_AXE = `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
  nodes.map(node => id + ': ' + node.html.slice(0, 160) + ' ' + node.failureSummary)))`

/** A browser profile of its own, whose pages may ask only `origins`. What a page should never do fails the test. */
export const openContext = async (
  t: Pick<Test, 'teardown' | 'fail'>,
  browser: Browser,
  origins: readonly string[],
  options: BrowserContextOptions = {}
): Promise<BrowserContext> => {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 860 }, ...options })
  t.teardown(() => context.close())
  context.setDefaultTimeout(PATIENCE_MS)
  await context.exposeFunction('reportViolation', (text: string) => t.fail(`violates the policy: ${text}`))
  await context.addInitScript(REPORT_VIOLATIONS)
  context.on('page', page => {
    page.on('dialog', dialog => {
      t.fail(`a dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('pageerror', error => t.fail(`an error: ${error.message}`))
    page.on('request', request => {
      const { origin } = new URL(request.url())
      if (!origins.includes(origin)) t.fail(`asked elsewhere: ${request.url()}`)
    })
    page.on('console', message => {
      if (/Content Security Policy|TrustedHTML|Trusted Type/i.test(message.text())) t.fail(message.text())
    })
  })
  return context
}

/** What axe-core finds on a page: `rule: element`, empty when all is well. */
export const axeFindings = async (page: Page): Promise<string[]> => {
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(AXE)
  return page.evaluate<string[]>(RUN_AXE)
}

/** On the login page, or where it stands in for another. */
export const fillLogin = async (page: Page, username: string, password = SAMPLE_PASSWORD): Promise<void> => {
  await page.locator('#username').waitFor()
  await page.fill('#username', username)
  await page.fill('#password', password)
  await page.click('form .main')
}

/** What a login leaves, in a tab that shows none of our pages: the form and what follows it take longer to load. */
export const putLogin = async (page: Page, origin: string, username: string): Promise<string> => {
  const data = { username, password: SAMPLE_PASSWORD }
  const answer = await page.context().request.post(`${origin}/auth/login`, { data })
  const { token, user } = await answer.json()
  await page.goto(`${origin}/health`)
  for (const [key, value] of Object.entries({ authToken: token, authUser: JSON.stringify(user) }))
    await page.evaluate(`sessionStorage.setItem('${key}', ${JSON.stringify(value)})`)
  return token
}

export interface OpenOptions extends BrowserContextOptions {
  /** Who logs in on the way, by the form. */
  readonly as?: string
  /** Who has logged in before. */
  readonly of?: string
  /** Further origins that the page may ask. */
  readonly origins?: readonly string[]
}

/** Opens an address in a browser profile of its own. */
export const openPage = async (
  t: Pick<Test, 'teardown' | 'fail'>,
  browser: Browser,
  address: string,
  { as, of, origins = [], ...options }: OpenOptions = {}
): Promise<Page> => {
  const { origin } = new URL(address)
  const context = await openContext(t, browser, [origin, ...origins], options)
  const page = await context.newPage()
  if (of !== undefined) await putLogin(page, origin, of)
  await page.goto(address)
  if (as !== undefined) await fillLogin(page, as)
  return page
}
