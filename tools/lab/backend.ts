// Tries systems behind the gateway: a page of each directly, through the gateway with a bearer token, and in Chromium with a session.
import { equal, match } from 'node:assert/strict'
import type { Page } from 'playwright-core'
import type { User } from '../../gateway/identity.ts'
import { launchBrowser } from '../../test/support/browser.ts'
import type { World } from '../../test/support/gateway.ts'
import { recipeBlock } from '../../test/support/recipe.ts'
import type { Teardown } from '../teardown.ts'
import type { Lab, System } from './system.ts'

/** A running system, and a gateway with its recipe before it. */
export interface Visit {
  readonly lab: Lab
  readonly world: World
  /** The system's own. */
  readonly port: number
  readonly token: string
  /** The text of a page of the system itself. */
  direct(path: string): Promise<string>
}

interface AskedPage {
  readonly path: string
  /** Its path at the system itself, if it differs. */
  readonly ownPath?: string
  /** Occurs in the text of the page in all three cases. */
  readonly expected: RegExp
  /** Occurs in the text of the two pages that come through the gateway. */
  readonly identity?: RegExp
}

interface Backend extends Omit<System, 'check'> {
  /** Its address in the recipe, if that names others before it. */
  readonly address?: string
  /** Who asks; unless given, the person with the id 7. */
  readonly person?: Partial<User>
  readonly page?: AskedPage
  /** Resolves with its port. */
  start(lab: Lab): Promise<number>
  check(visit: Visit): Promise<readonly string[]>
}

/** Not closed by signals: the lab ends what it started. */
export const openBrowser = (t: Teardown) =>
  launchBrowser(t, { handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false })

/** A page of a browser of its own, whose session is that of the token; `base` is where the browser finds the gateway. */
export const openPage = async (lab: Lab, base: string, token: string): Promise<Page> => {
  const context = await (await openBrowser(lab)).newContext({ ignoreHTTPSErrors: true })
  const secure = base.startsWith('https:')
  const name = secure ? '__Host-portaria_session' : 'portaria_session'
  await context.addCookies([{ name, value: token, url: base, secure, httpOnly: true, sameSite: 'Lax' }])
  return context.newPage()
}

export const askThreeWays = async (
  { lab, world, token, direct }: Omit<Visit, 'port'>,
  { path, ownPath = path, expected, identity = expected }: AskedPage
): Promise<string[]> => {
  match(await direct(ownPath), expected)
  const answer = await world.fetch(path, { token })
  equal(answer.status, 200, `${path} by bearer`)
  const page = await openPage(lab, world.url, token)
  const shown = await page.goto(`${world.url}${path}`)
  equal(shown?.status(), 200, `${path} in Chromium`)
  for (const text of [await answer.text(), await page.content()]) {
    match(text, expected)
    match(text, identity)
  }
  equal((await world.fetch(path)).status, 401, `${path} without a token`)
  return ['directly', 'bearer', 'session in Chromium']
}

export const backend = ({ address, person = { id: 7 }, page, start, check, ...system }: Backend): System => ({
  ...system,
  async check(lab) {
    const port = await start(lab)
    const [first = ''] = /127\.0\.0\.1:\d+/.exec(recipeBlock(system.recipe, 'yaml')) ?? []
    const world = await lab.gateway(system.recipe, { [address ?? first]: `127.0.0.1:${port}` })
    const direct = async (path: string) => (await fetch(`http://127.0.0.1:${port}${path}`)).text()
    const visit = { lab, world, port, direct, token: await world.tokenFor(person) }
    const ways = page === undefined ? [] : await askThreeWays(visit, page)
    return [...ways, ...(await check(visit))]
  }
})
