// A test has a real browser, which tells of everything that a page should never do.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
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

export interface Watched {
  readonly context: BrowserContext
  /** Policy violations, dialogs, uncaught errors and requests to other origins than those allowed, in words. */
  readonly faults: string[]
  newPage(): Promise<Page>
}

export const launchBrowser = async (t: Pick<Test, 'teardown'>): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath: findChromium() ?? '/usr/bin/chromium',
    args: FLAGS
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

/** A browser profile of its own. `origins` are all that its pages may ask. */
export const openContext = async (
  browser: Browser,
  origins: readonly string[],
  options: BrowserContextOptions = {}
): Promise<Watched> => {
  const context = await browser.newContext({ locale: 'en-GB', viewport: { width: 1280, height: 860 }, ...options })
  context.setDefaultTimeout(PATIENCE_MS)
  const faults: string[] = []
  await context.exposeFunction('reportViolation', (text: string) => faults.push(`violates the policy: ${text}`))
  await context.addInitScript(REPORT_VIOLATIONS)
  const watch = (page: Page) => {
    page.on('dialog', dialog => {
      faults.push(`a dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('pageerror', error => faults.push(`an error: ${error.message}`))
    page.on('request', request => {
      const { origin } = new URL(request.url())
      if (!origins.includes(origin)) faults.push(`asked elsewhere: ${request.url()}`)
    })
    page.on('console', message => {
      if (/Content Security Policy|TrustedHTML|Trusted Type/i.test(message.text())) faults.push(message.text())
    })
  }
  context.on('page', watch)
  return { context, faults, newPage: () => context.newPage() }
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

/** Opens a page of the gateway as somebody who logs in on the way to it. */
export const openLoggedIn = async (
  browser: Browser,
  address: string,
  username: string,
  options: BrowserContextOptions = {}
): Promise<Watched & { readonly page: Page }> => {
  const opened = await openContext(browser, [new URL(address).origin], options)
  const page = await opened.newPage()
  await page.goto(address)
  await fillLogin(page, username)
  return { ...opened, page }
}
