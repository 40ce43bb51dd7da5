// The pictures of the README are made again from the demo: `node test/demo/screenshots.ts`.
import { mkdirSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { findChromium } from '../support/provision.ts'
import { createHome } from './home.ts'
import { type Demo, startDemo } from './start-demo.ts'
import { warmDatabase } from './warm-database.ts'

const FOLDER = resolve(import.meta.dirname, '../../docs/screenshots')
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking']
const DESK: BrowserContextOptions = { viewport: { width: 1080, height: 640 }, locale: 'en-GB', colorScheme: 'light' }
const PHONE: BrowserContextOptions = { viewport: { width: 390, height: 720 }, locale: 'pt-BR', colorScheme: 'dark' }

const take = async (page: Page, name: string) => {
  const path = join(FOLDER, `${name}.png`)
  await page.screenshot({ path, animations: 'disabled' })
  console.log(`${name}.png  ${Math.ceil(statSync(path).size / 1024)} KB`)
}

const logIn = async (page: Page, { person }: Demo['people'][number]) => {
  await page.fill('#username', person.username)
  await page.fill('#password', person.password)
  await page.click('form .main')
}

/** Some traffic of all kinds, so that there is something to see; within the rate limit. */
const makeTraffic = async ({ url, people }: Demo) => {
  for (let round = 0; round < 24; round++) {
    for (const { token } of people) {
      const headers = { authorization: `Bearer ${token}` }
      await (await fetch(`${url}/api/orders`, { headers })).arrayBuffer()
      if (round % 5 === 0) await (await fetch(`${url}/api/orders/1`, { method: 'DELETE', headers })).arrayBuffer()
    }
  }
}

const picture = async (demo: Demo) => {
  const browser = await chromium.launch({
    executablePath: findChromium() ?? '/usr/bin/chromium',
    args: FLAGS
  })
  const personCalled = (username: string) => {
    const found = demo.people.find(({ person }) => person.username === username)
    if (found === undefined) throw new Error(`nobody is called ${username}`)
    return found
  }
  try {
    const page = await (await browser.newContext(DESK)).newPage()
    await page.goto(`${demo.url}/auth/login?returnTo=%2Fauth%2Fconsole`)
    await page.locator('#cloud').waitFor()
    await take(page, 'login')
    await makeTraffic(demo)
    await logIn(page, personCalled('maria'))
    await page.locator('tbody tr').first().waitFor()
    await take(page, 'console-people')
    await page.goto(`${demo.url}/auth/console#/access`)
    await page.fill('#route-filter', '/api')
    await page.locator('.cell button').first().waitFor()
    await take(page, 'console-access')
    await page.goto(`${demo.url}/auth/console#/traffic`)
    await page.locator('canvas').nth(2).waitFor()
    await take(page, 'console-traffic')
    const phone = await (await browser.newContext(PHONE)).newPage()
    await phone.goto(`${demo.url}/auth/login`)
    await phone.locator('#username').waitFor()
    const waiting = demo.people.find(({ access }) => access === undefined)
    await logIn(phone, waiting ?? personCalled('ana'))
    await phone.locator('#who').waitFor()
    await take(phone, 'phone')
  } finally {
    await browser.close()
  }
}

mkdirSync(FOLDER, { recursive: true })
const home = createHome()
process.once('exit', home.remove)
const demo = await startDemo({
  home: home.path,
  database: warmDatabase(join(home.path, 'data')),
  host: '127.0.0.1',
  port: 3000,
  portMayDiffer: true,
  logLevel: 'fatal'
})
try {
  await picture(demo)
} finally {
  await demo.close()
}
process.exit(0)
