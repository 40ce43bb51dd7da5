// Takes the pictures in docs/screenshots from the demo, after some hours of work in it: `npm run docs -- screenshots`.
import { mkdirSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { createHome } from '../../test/demo/home.ts'
import { type Demo, startDemo } from '../../test/demo/start-demo.ts'
import { fillLogin, launchBrowser } from '../../test/support/browser.ts'
import { type Clocks, shiftClocks } from '../../test/support/clocks.ts'
import { withTeardown } from '../teardown.ts'
import { COLLEAGUES, HOURS_MS, liveThroughADay } from './working-day.ts'

const FOLDER = resolve(import.meta.dirname, '../../docs/screenshots')
const DESK: BrowserContextOptions = { viewport: { width: 1280, height: 760 }, locale: 'en-GB', colorScheme: 'light' }
const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 720 }, locale: 'pt-BR', colorScheme: 'dark' }

const take = async (page: Page, name: string) => {
  const path = join(FOLDER, `${name}.png`)
  await page.screenshot({ path, animations: 'disabled' })
  console.log(`${name}.png  ${Math.ceil(statSync(path).size / 1024)} KB`)
}

/** A login page, and what logs one of the sample people in there. */
const openLogin = async (
  browser: Browser,
  demo: Demo,
  options: BrowserContextOptions,
  username: string,
  returnTo = ''
) => {
  const page = await (await browser.newContext(options)).newPage()
  await page.goto(`${demo.url}/auth/login${returnTo}`)
  await page.locator('#cloud').waitFor()
  const { person } = demo.people.find(one => one.person.username === username) ?? {}
  return { page, logIn: () => fillLogin(page, username, person?.password) }
}

/** The console is opened before the day, so that the traffic shown is that of the people. */
const pictureConsole = async (browser: Browser, demo: Demo, clocks: Clocks) => {
  const { page, logIn } = await openLogin(browser, demo, DESK, 'maria', '?returnTo=%2Fauth%2Fconsole')
  await take(page, 'login')
  await logIn()
  await page.locator('tbody tr').first().waitFor()
  await liveThroughADay(demo, clocks)
  await page.click('nav a[href="#/traffic"]')
  await page.getByText('Last hour').click()
  await page.locator('figure.chart').nth(2).waitFor()
  await take(page, 'console-traffic')
  await page.click('nav a[href="#/people"]')
  // Not the table of the page before.
  await page.locator('tbody input[name=select]').first().waitFor()
  await take(page, 'console-people')
  await page.click('nav a[href="#/access"]')
  await page.fill('#route-filter', '/')
  await page.locator('.cell button').first().waitFor()
  await take(page, 'console-access')
}

const pictureApps = async (browser: Browser, demo: Demo) => {
  const { page, logIn } = await openLogin(browser, demo, DESK, 'carlos')
  await logIn()
  await page.locator('.tiles img').first().waitFor()
  await page.waitForLoadState('networkidle')
  await take(page, 'apps')
}

const picturePhone = async (browser: Browser, demo: Demo) => {
  const { page, logIn } = await openLogin(browser, demo, PHONE, 'joao')
  await logIn()
  await page.locator('#who').waitFor()
  await take(page, 'phone')
}

mkdirSync(FOLDER, { recursive: true })
await withTeardown(async t => {
  const home = createHome()
  t.teardown(home.remove)
  const clocks = shiftClocks(t)
  clocks.wallMs = -HOURS_MS
  const demo = await startDemo(t, {
    colleagues: COLLEAGUES,
    home: home.path,
    host: '127.0.0.1',
    port: 3000,
    portMayDiffer: true,
    logLevel: 'fatal'
  })
  const browser = await launchBrowser(t)
  await pictureConsole(browser, demo, clocks)
  await pictureApps(browser, demo)
  await picturePhone(browser, demo)
})
process.exit(0)
