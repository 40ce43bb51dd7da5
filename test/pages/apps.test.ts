// /auth/apps lists exactly what the person may open, by header and by cookie; its page is used after a login, with the keyboard,
// with a screen reader, on a phone.
import t from 'tap'
import { fillLogin } from '../support/browser.ts'
import { startGateway } from '../support/gateway.ts'
import { postLogin } from '../support/login.ts'
import { startBrowserWorld } from '../support/pages-world.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'

const raw = await startRawUpstream(t)
const PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg>'
raw.respond(({ target }) => {
  const [type, body] = target === '/orders/icon.svg' ? ['image/svg+xml', PICTURE] : ['text/html', `<h1>${target}</h1>`]
  const status = target === '/stock/none.png' ? '404 Not Found' : '200 OK'
  return `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nContent-Length: ${body?.length}\r\n\r\n${body}`
})

const forBrowsers = { upstream: 'app', browser: true }
const world = await startBrowserWorld(t, {
  env: { BROWSER_SESSION: 'true' },
  config: {
    upstreams: { app: { url: raw.url } },
    routes: [
      {
        ...forBrowsers,
        path: '/orders/*',
        app: { name: 'Orders <b>', description: 'What was sold today', icon: '/orders/icon.svg' }
      },
      { ...forBrowsers, path: '/stock/*', app: { name: 'Stock', icon: '/stock/none.png' } },
      { ...forBrowsers, path: '/secret/*', roles: ['Supervisor'], app: { name: 'Secret' } },
      { ...forBrowsers, path: '/wiki', requireAssigned: true, app: { name: 'Wiki', url: '/wiki?page=1' } }
    ]
  }
})
const { ldap, postgres } = world

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

const GRANTS = [
  {},
  { public: true },
  { roles: ['Admin'] },
  { roles: ['Agente', 'Supervisor'] },
  { requireAssigned: true },
  { roles: ['Supervisor'], requireAssigned: true }
]
/** Each rule on an exact path, on a path with everything below, and with an address that another route decides. */
const tiles = GRANTS.flatMap((rule, i) => [
  { path: `/exact${i}`, app: { name: `exact ${i}`, url: `/exact${i}` }, ...rule },
  { path: `/below${i}/*`, app: { name: `below ${i}`, url: `/below${i}`, icon: '/icon.svg' }, ...rule },
  { path: `/of/:name${i}/x${i}`, app: { name: `narrower ${i}`, url: `/of/me/x${i}?tab=1#top` }, ...rule }
])
const many = await startGateway(t, {
  postgres,
  env: { ...ldap.env, BROWSER_SESSION: 'true', BOOTSTRAP_ADMINS: 'ldap:maria' },
  config: {
    upstreams: { app: { url: raw.url } },
    routes: [
      // Without `url`, the address is that of the path.
      ...tiles.map(({ app: { url, ...app }, ...tile }) => ({
        ...forBrowsers,
        ...tile,
        app: url.includes('?') ? { ...app, url } : app
      })),
      ...GRANTS.map((_, i) => ({ ...forBrowsers, path: `/of/me/x${i}`, roles: ['Admin'] })),
      {
        path: '/elsewhere/:id',
        upstream: 'app',
        roles: ['Admin'],
        app: { name: 'elsewhere', url: 'https://a.example/' }
      },
      { path: '/*', upstream: 'app', methods: ['GET'], public: true, app: { name: 'start' } }
    ]
  }
})

const list = async (headers: Record<string, string>) => {
  const answer = await many.fetch('/auth/apps', { headers: { accept: 'application/json', ...headers } })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('vary'), 'Origin, Accept')
  return ((await answer.json()) as { items: { name: string; url: string }[] }).items
}

const UNASSIGNED = { areas: [], areaPrincipal: '', accessStatus: 'unassigned' as const }

t.test('a tile is listed for exactly those whom its route and its address let through', async t => {
  for (const asker of [
    { profiles: ['Admin'] },
    { profiles: ['Supervisor'] },
    { profiles: ['Agente'] },
    { profiles: ['Agente'], ...UNASSIGNED },
    { profiles: [], ...UNASSIGNED }
  ]) {
    const authorization = `Bearer ${await many.tokenFor({ areas: ['Geral'], ...asker })}`
    const listed = new Map((await list({ authorization })).map(item => [item.name, item.url]))
    const passes = async (path: string) => (await many.fetch(path, { headers: { authorization } })).status === 200
    for (const { path, app } of tiles) {
      const mayOpen = (await passes(app.url.replace('#top', ''))) && (await passes(path.replace(/\/\*|:/, '')))
      t.equal(listed.get(app.name), mayOpen ? app.url : undefined, `${app.name} for ${JSON.stringify(asker)}`)
    }
    t.equal(listed.get('start'), '/')
    t.equal(listed.has('elsewhere'), asker.profiles[0] === 'Admin')
  }
})

t.test('without a token there is a page, and no list', async t => {
  const page = await many.fetch('/auth/apps', { headers: { accept: 'text/html, application/json;q=0' } })
  t.equal(page.status, 200)
  t.match(page.headers.get('content-type'), 'text/html')
  t.match(await page.text(), '<meta name="portaria:apps" content="true">')
  const accept = 'application/json'
  const expired = await many.tokenFor({}, { exp: 1 })
  for (const [headers, code] of [
    [{}, 'GW_UNAUTHENTICATED'],
    [{ authorization: 'Bearer x.y.z' }, 'GW_UNAUTHENTICATED'],
    [{ authorization: `Bearer ${expired}` }, 'GW_TOKEN_EXPIRED']
  ] as const) {
    t.match(await many.json('/auth/apps', { headers: { accept, ...headers } }), { statusCode: 401, code })
  }
})

t.test('the session cookie is enough for the list, but not from another site', async t => {
  const fields = (await postLogin(many, 'maria')).headers.getSetCookie()
  const cookie = fields.map(field => field.split(';', 1)[0]).join('; ')
  const items = await list({ cookie })
  t.match(items[0], { name: 'exact 0', description: '', icon: '', url: '/exact0' })
  t.match(items[1], { name: 'below 0', icon: '/icon.svg', url: '/below0' })
  const foreign = { accept: 'application/json', cookie, 'sec-fetch-site': 'cross-site' }
  t.equal((await many.fetch('/auth/apps', { headers: foreign })).status, 403)
})

t.test('a gateway whose routes name no application says so on its pages', async t => {
  const plain = await startGateway(t, { postgres })
  t.match(await (await plain.fetch('/auth/login')).text(), '<meta name="portaria:apps" content="false">')
})
