// The page of applications, as people use it: after a login, with the keyboard, with a screen reader, on a phone.
import t from 'tap'
import { fillLogin } from '../support/browser.ts'
import { startBrowserWorld } from '../support/pages-world.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
const PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg>'
raw.respond(({ target }) => {
  const [type, body] = target === '/orders/icon.svg' ? ['image/svg+xml', PICTURE] : ['text/html', `<h1>${target}</h1>`]
  const status = target === '/stock/none.png' ? '404 Not Found' : '200 OK'
  return `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${body?.length}\r\n\r\n${body}`
})

const page = { upstream: 'app', browser: true }
const world = await startBrowserWorld(t, {
  env: { BROWSER_SESSION: 'true' },
  config: {
    upstreams: { app: { url: raw.url } },
    routes: [
      {
        ...page,
        path: '/orders/*',
        app: { name: 'Orders <b>', description: 'What was sold today', icon: '/orders/icon.svg' }
      },
      { ...page, path: '/stock/*', app: { name: 'Stock', icon: '/stock/none.png' } },
      { ...page, path: '/secret/*', roles: ['Supervisor'], app: { name: 'Secret' } },
      { ...page, path: '/wiki', requireAssigned: true, app: { name: 'Wiki', url: '/wiki?page=1' } }
    ]
  }
})

t.test('a login that nothing asked for leads to the tiles, which lead to the applications', async t => {
  const page = await world.open(t, '/auth/login', { as: 'maria' })
  await page.waitForURL(`${world.origin}/auth/apps`)
  await page.locator('.tiles li').first().waitFor()
  t.same(await page.locator('.tiles bdi').allTextContents(), ['Orders <b>', 'Stock', 'Wiki'])
  t.equal(await page.title(), 'Applications · Portaria')
  t.equal(await page.locator('.tiles img').count(), 1, 'a picture that is missing is a letter')
  await page.locator('.tiles .letter', { hasText: 'S' }).waitFor()
  await page.getByRole('link', { name: 'Orders <b> What was sold today' }).focus()
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  await page.waitForURL(`${world.origin}/wiki?page=1`)
  t.equal(await page.locator('h1').textContent(), '/wiki?page=1')
  await page.goto(`${world.origin}/auth/login`)
  await page.getByRole('link', { name: 'Applications' }).click()
  await page.waitForURL(`${world.origin}/auth/apps`)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Admin console' }).click()
  await page.locator('nav a[href="#/people"]').waitFor()
})

t.test('a new tab needs no login, and somebody without access still waits', async t => {
  const page = await world.open(t, '/auth/login', { as: 'carlos' })
  await page.locator('[data-state=unassigned]').waitFor()
  await page.getByRole('link', { name: 'Applications' }).click()
  await page.locator('.tiles').waitFor()
  t.same(await page.locator('.tiles bdi').allTextContents(), ['Orders <b>', 'Stock'])
  const other = await page.context().newPage()
  await other.goto(`${world.origin}/auth/apps`)
  await other.locator('.tiles').waitFor()
  t.equal(await other.evaluate("sessionStorage.getItem('authToken')"), null, 'the cookie is enough')
  await other.click('#logout')
  await other.locator('#username').waitFor()
  await page.locator('#username').waitFor()
  t.match(await page.locator('[role=status]').first().textContent(), /another tab/)
})

t.test('another person who logs in with the session of the browser gets their own tiles', async t => {
  const page = await world.open(t, '/auth/apps', { as: 'maria' })
  await page.locator('.tiles').waitFor()
  const byCookie = await page.context().newPage()
  await byCookie.goto(`${world.origin}/auth/apps`)
  await byCookie.locator('.tiles', { hasText: 'Wiki' }).waitFor()
  const other = await page.context().newPage()
  await other.goto(`${world.origin}/auth/login?again=1`)
  await fillLogin(other, 'carlos')
  await other.locator('#who').waitFor()
  await byCookie.locator('.tiles:not(:has-text("Wiki"))').waitFor()
  t.match(await byCookie.locator('header .name').textContent(), /Carlos/)
})

t.test('without applications, the page says so, and a login ends where it did', async t => {
  const page = await world.open(t, '/auth/login')
  await page.route('**/auth/apps', route =>
    route.request().headers().accept === 'application/json' ? route.fulfill({ json: { items: [] } }) : route.continue()
  )
  await fillLogin(page, 'maria')
  await page.locator('#who').waitFor()
  await page.goto(`${world.origin}/auth/apps`)
  await page.getByText('No applications are available').waitFor()
})
