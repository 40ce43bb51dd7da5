// Requests a page of a system directly, through the gateway with a bearer token, and in Chromium with a session.
import { equal, match } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { launchBrowser } from '../../test/support/browser.ts'
import type { World } from '../../test/support/gateway.ts'
import type { Lab } from './system.ts'

/** A page of a browser of its own, whose session is that of the token; `base` is where the browser finds the gateway. */
export const openPage = async (lab: Lab, base: string, token: string): Promise<Page> => {
  const context = await (await launchBrowser(lab)).newContext({ ignoreHTTPSErrors: true })
  const isSecure = base.startsWith('https:')
  const name = isSecure ? '__Host-portaria_session' : 'portaria_session'
  await context.addCookies([{ name, value: token, url: base, secure: isSecure, httpOnly: true, sameSite: 'Lax' }])
  return context.newPage()
}

interface ThreeWays {
  readonly world: World
  /** Of the system itself. */
  readonly direct: () => Promise<string>
  readonly path: string
  readonly token: string
  /** Occurs in the text of the page in all three cases. */
  readonly expected: RegExp
  /** Occurs in the text of the two pages that come through the gateway. */
  readonly identity?: RegExp
}

export const askThreeWays = async (lab: Lab, asked: ThreeWays): Promise<string[]> => {
  const { world, direct, path, token, expected, identity = expected } = asked
  match(await direct(), expected)
  const answer = await world.fetch(path, { token })
  equal(answer.status, 200, `${path} by bearer`)
  const text = await answer.text()
  match(text, expected)
  match(text, identity)
  equal((await world.fetch(path)).status, 401, `${path} without a token`)
  const page = await openPage(lab, world.url, token)
  const shown = await page.goto(`${world.url}${path}`)
  equal(shown?.status(), 200, `${path} in Chromium`)
  match(await page.content(), expected)
  match(await page.content(), identity)
  return ['directly', 'bearer', 'session in Chromium']
}

export const textOf = async (url: string): Promise<string> => (await fetch(url)).text()
