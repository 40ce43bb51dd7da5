// Real browsers log in: two tabs at once, each with a login of its own.
import type { BrowserContext } from 'playwright-core'
import t, { type Test } from 'tap'
import { launchBrowser } from '../support/browser.ts'
import { readFragment } from '../support/cloud-browser.ts'
import { startOAuthApp } from '../support/oauth-app.ts'
import { maria, startOidcProvider } from '../support/oidc-provider.ts'
import { freePort } from '../support/ports.ts'

const openBrowser = async (t: Test): Promise<BrowserContext> => (await launchBrowser(t)).newContext()

const startBoth = async (t: Test, discovered: boolean) => {
  const port = await freePort()
  const callback = `http://127.0.0.1:${port}/auth/oauth/cloudidp/callback`
  const { issuer, clientId, clientSecret } = await startOidcProvider(t, {
    redirectUris: [callback]
  })
  const explicit = { authorizationUrl: `${issuer}/auth`, tokenUrl: `${issuer}/token`, profileUrl: `${issuer}/me` }
  return startOAuthApp(t, { port, cloudidp: { clientId, clientSecret, ...(discovered ? { issuer } : explicit) } })
}

// OA-01, OA-10, OA-19
for (const discovered of [true, false]) {
  t.test(`two tabs of one browser log in at once (provider discovered: ${discovered})`, async t => {
    const app = await startBoth(t, discovered)
    const context = await openBrowser(t)
    const tabs = await Promise.all([context.newPage(), context.newPage()])
    await Promise.all(tabs.map(tab => tab.goto(`${app.url}/auth/oauth/cloudidp/start`)))
    t.equal((await context.cookies(`${app.url}/auth/oauth/cloudidp`)).filter(isAttempt).length, 2, 'a cookie each')
    for (const tab of tabs) {
      await tab.locator(`input[value="${maria.username}"]`).check()
      await tab.locator('input[type=password]').fill(maria.password)
    }
    await Promise.all(tabs.map(tab => Promise.all([tab.waitForURL(/#auth=|callback/), tab.locator('button').click()])))
    t.same(app.refusals, [], 'nothing was refused')
    for (const tab of tabs) t.equal(readFragment(tab.url()).user.username, maria.username)
    t.equal(app.people.length, 2, 'two logins')
    for (const tab of tabs) {
      t.notOk(new URL(tab.url()).search, 'nothing in the query')
      t.equal(await tab.evaluate('document.referrer'), '', 'the page does not know where the browser came from')
    }
    t.same((await context.cookies(`${app.url}/auth/oauth/cloudidp`)).filter(isAttempt), [], 'no cookie is left')
    await tabs[0]?.goto(`${app.callbackUrl}?code=used&state=used`)
    t.match(await tabs[0]?.textContent('body'), /GW_OAUTH_STATE/)
  })
}

const isAttempt = ({ name, httpOnly, sameSite }: { name: string; httpOnly: boolean; sameSite: string }) =>
  name.startsWith('portaria_login_') && httpOnly && sameSite === 'Lax'
