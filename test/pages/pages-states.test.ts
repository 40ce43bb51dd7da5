// What our own pages show in every state of a session.
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { fillLogin, launchBrowser, openContext } from '../support/browser.ts'
import { signToken, TEST_SECRET } from '../support/gateway.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { APP_CONFIG, claimsOf, logIn, PAGES, type PagePath, putToken, seen } from '../support/page-tabs.ts'
import { startPagesWorld } from '../support/pages-world.ts'
import { startPostgres } from '../support/postgres.ts'

const [postgres, ldap, browser] = await Promise.all([
  startPostgres(t),
  startOpenLdap(t, { lockoutThreshold: 0 }),
  launchBrowser(t)
])

const world = await startPagesWorld(t, {
  ldap,
  postgres,
  env: { BROWSER_SESSION: 'true' },
  config: APP_CONFIG
})

/** Another change of Maria's access each time, so that her earlier tokens are stale. */
let changes = 0
const changeAccess = async (id: number) => {
  const token = await world.tokenFor({ profiles: ['Admin'] })
  const profiles = ++changes % 2 === 0 ? ['Admin'] : ['Admin', 'Agente']
  const { status } = await world.fetch(`/auth/admin/users/${id}/access`, {
    method: 'PUT',
    token,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ profiles, areas: ['Geral'], areaPrincipal: 'Geral' })
  })
  t.equal(status, 200)
}

/** Brings a tab into a state, and leaves it at a page of the gateway. */
const STATES: Record<string, (page: Page, context: BrowserContext) => Promise<unknown>> = {
  'no session': page => page.goto(`${world.origin}/auth/login`),
  'token in this tab': page => logIn(page, world.origin),
  'cookie only': async page => {
    await logIn(page, world.origin)
    await page.evaluate('sessionStorage.clear()')
  },
  'stale token': async page => {
    const { sub } = claimsOf(await logIn(page, world.origin))
    await changeAccess(Number(sub))
  },
  'stale cookie only': async page => {
    const { sub } = claimsOf(await logIn(page, world.origin))
    await page.evaluate('sessionStorage.clear()')
    await changeAccess(Number(sub))
  },
  'expired token': async (page, context) => {
    const token = await logIn(page, world.origin)
    const nowS = Math.floor(Date.now() / 1000)
    await context.clearCookies()
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'expired token beside a cookie': async page => {
    const token = await logIn(page, world.origin)
    const nowS = Math.floor(Date.now() / 1000)
    await putToken(page, await signToken(TEST_SECRET, {}, { ...claimsOf(token), iat: nowS - 100, exp: nowS - 10 }))
  },
  'revoked token': async page => {
    const token = await logIn(page, world.origin)
    await world.fetch('/auth/logout', { method: 'POST', token })
  }
}

const ALL_FORM = { '/auth/login': 'form', '/auth/apps': 'form', '/auth/account': 'form', '/auth/console': 'form' }
const ALL_OPEN = {
  '/auth/login': 'person',
  '/auth/apps': 'apps',
  '/auth/account': 'account',
  '/auth/console': 'console'
}
/** A cookie opens applications, and so the list of them; the other pages need a token. */
const BY_COOKIE = { ...ALL_FORM, '/auth/login': 'person', '/auth/apps': 'apps' }

const EXPECTED: Record<string, Record<PagePath, string>> = {
  'no session': ALL_FORM,
  'token in this tab': ALL_OPEN,
  'cookie only': BY_COOKIE,
  'stale token': ALL_OPEN,
  'stale cookie only': BY_COOKIE,
  'expired token': ALL_FORM,
  'expired token beside a cookie': BY_COOKIE,
  'revoked token': ALL_FORM
}

// RV-83
t.test('each page in each state shows itself or the form, and the form leads to it', async t => {
  const rows: string[] = [`| state | ${PAGES.join(' | ')} |`]
  for (const [state, enter] of Object.entries(STATES)) {
    const cells: string[] = []
    for (const path of PAGES) {
      const { context, faults, newPage } = await openContext(browser, [world.origin])
      const page = await newPage()
      await enter(page, context)
      await page.goto('about:blank')
      await page.goto(`${world.origin}${path}`)
      const look = await seen(page)
      cells.push(look)
      t.equal(look, EXPECTED[state]?.[path], `${state} at ${path}`)
      if (look === 'form' && path !== '/auth/login') {
        await fillLogin(page, 'maria')
        await page.waitForURL(`${world.origin}${path}`)
        t.equal(await seen(page), path.slice('/auth/'.length), `the form leads back from ${state}`)
      }
      t.same(faults, [], `${state} at ${path}`)
      await context.close()
    }
    rows.push(`| ${state} | ${cells.join(' | ')} |`)
  }
  t.comment(rows.join('\n'))
})
