// Reads from a browser tab what a page of ours shows, which token it keeps, and as whom it is logged in.
import type { Page } from 'playwright-core'
import { fillLogin } from './browser.ts'
import { claimsOf } from './login.ts'
import { maria as cloudMaria } from './oidc-provider.ts'
import { signToken } from './signed-tokens.ts'
import { TEST_SECRET } from './test-secret.ts'

export const PAGES = ['/auth/login', '/auth/apps', '/auth/account', '/auth/console'] as const
export type PagePath = (typeof PAGES)[number]

/** A route by which the page of applications is recognised, and to which a login leads. */
export const APP_CONFIG = {
  upstreams: { app: { url: 'http://127.0.0.1:9' } },
  routes: [{ path: '/orders/*', upstream: 'app', browser: true, app: { name: 'Orders' } }]
}

export const kept = (page: Page, key: string): Promise<string | null> =>
  page.evaluate(`sessionStorage.getItem('${key}')`)

const LOOKS: readonly (readonly [word: string, selector: string])[] = [
  ['dialog', 'dialog #log-in-again'],
  ['form', '#username'],
  ['person', '#who'],
  ['apps', '.tiles a[href="/orders"]'],
  ['account', '#access-part dl'],
  ['console', 'nav a[href="#/people"]']
]
const ANY_LOOK = LOOKS.map(([, selector]) => selector).join()

/** What a person sees, in one word. */
export const seen = async (page: Page): Promise<string> => {
  for (;;) {
    // The browser looks for itself: to be asked about each of them every few milliseconds keeps it from loading the page.
    await page.locator(ANY_LOOK).first().waitFor({ state: 'attached' })
    for (const [word, selector] of LOOKS) if ((await page.locator(selector).count()) > 0) return word
  }
}

export const logIn = async (page: Page, origin: string, username = 'maria'): Promise<string> => {
  await page.goto(`${origin}/auth/login?again=1`)
  await fillLogin(page, username)
  await page.locator('.tiles').waitFor()
  return (await kept(page, 'authToken')) ?? ''
}

export const putToken = (page: Page, token: string) => page.evaluate(`sessionStorage.setItem('authToken', '${token}')`)

/** Puts into a tab what a token is after the end of its life. */
export const expireToken = async (page: Page, token: string) => {
  const nowS = Math.floor(Date.now() / 1000)
  await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
}

/** From our login page, through that of the cloud provider. */
export const logInAtProvider = async (page: Page): Promise<void> => {
  await page.click('#cloud')
  await page.locator(`input[value="${cloudMaria.username}"]`).check()
  await page.locator('input[type=password]').fill(cloudMaria.password)
  await page.locator('button').click()
}
