// Recipes for backends that write their own paths into bodies, and for what a browser fetches without cookies, hold what they promise.
import { createServer } from 'node:http'
import t from 'tap'
import { parse } from 'yaml'
import { launchBrowser } from '../support/browser.ts'
import { startGateway, type WorldOptions } from '../support/gateway.ts'
import { freePort, listen } from '../support/ports.ts'
import { recipeBlock } from '../support/recipe.ts'

type Config = Required<NonNullable<WorldOptions['config']>>

const PAGE = '<!doctype html><title>Notes</title><link rel="manifest" MANIFEST><h1>Notes</h1>'
const WORKER = `self.addEventListener('fetch', event => {
  if (event.request.mode === 'navigate') event.respondWith(fetch(event.request))
})`
const FILES: Record<string, [string, string]> = {
  '/notes/': ['text/html', PAGE.replace('MANIFEST', 'href="/notes/app.webmanifest"')],
  '/notes/own': ['text/html', PAGE.replace('MANIFEST', 'href="/notes/own.json" crossorigin="use-credentials"')],
  '/notes/private': ['text/html', PAGE.replace('MANIFEST', 'href="/notes/own.json"')],
  '/notes/app.webmanifest': ['application/manifest+json', '{"name":"Notes"}'],
  '/notes/own.json': ['application/manifest+json', '{"name":"Own"}'],
  '/notes/sw.js': ['text/javascript', WORKER]
}
const notes = createServer((request, response) => {
  const [type, text] = FILES[request.url ?? ''] ?? ['text/plain', '']
  response.writeHead(text === '' ? 404 : 200, { 'content-type': type }).end(text)
})

const RESOURCES = ['/7/', '/7/office/', '/7/office/10.ics']
/** As Radicale does: the prefix is taken off the path, and written before every address. */
const calendars = createServer((request, response) => {
  const { url = '', headers } = request
  const prefix = String(headers['x-script-name'] ?? '')
  if (!url.startsWith(prefix) || !RESOURCES.includes(url.slice(prefix.length))) return response.writeHead(404).end()
  const hrefs = RESOURCES.map(one => `<response><href>${prefix}${one}</href></response>`)
  response.writeHead(207, { 'content-type': 'application/xml' }).end(`<multistatus>${hrefs.join('')}</multistatus>`)
})

const routesOf = (name: string, from: string, to: number) =>
  parse(recipeBlock(name, 'yaml', { [`127.0.0.1:${from}`]: `127.0.0.1:${to}` })) as Config
const caldav = routesOf('caldav', '5232', await listen(t, calendars))
const pwa = routesOf('pwa', '4173', await listen(t, notes))
const plain = { url: (caldav.upstreams.radicale as { url: string }).url }

const port = await freePort()
const world = await startGateway(t, {
  port,
  config: {
    upstreams: { ...caldav.upstreams, ...pwa.upstreams, plain },
    routes: [...caldav.routes, ...pwa.routes, { path: '/cut/*', upstream: 'plain', stripPrefix: '/cut' }]
  },
  env: { BROWSER_SESSION: 'true', PUBLIC_URL: `http://127.0.0.1:${port}` }
})
const token = await world.tokenFor({ id: 7 })

// RV-115
t.test('addresses that a CalDAV server writes into its responses lead to their resources', async t => {
  const find = async (path: string) => {
    const headers = { 'x-script-name': '/7', X_Script_Name: '/7' }
    const list = await world.fetch(path, { method: 'PROPFIND', token, headers })
    t.equal(list.status, 207)
    const hrefs = [...(await list.text()).matchAll(/<href>([^<]+)/g)].map(([, href = '']) => href)
    t.equal(hrefs.length, RESOURCES.length)
    return Promise.all(hrefs.map(async href => (await world.fetch(href, { method: 'PROPFIND', token })).status))
  }
  t.same(await find('/caldav/7/'), [207, 207, 207])
  t.same(await find('/cut/7/'), [404, 404, 404], 'why the recipes do not strip')
  for (const recipe of ['caldav', 'webdav']) t.notMatch(recipeBlock(recipe, 'yaml'), /stripPrefix/)
})

// RV-116
t.test('a browser reads the manifest of an application, and its service worker leads to the login page', async t => {
  const context = await (await launchBrowser(t)).newContext()
  await context.addCookies([{ name: 'portaria_session', value: token, url: world.url, httpOnly: true }])
  const page = await context.newPage()
  const manifestOf = async (path: string) => {
    await page.goto(world.url + path)
    const devtools = await context.newCDPSession(page)
    const { data = '' } = await devtools.send('Page.getAppManifest')
    await devtools.detach()
    return data
  }
  t.equal(await manifestOf('/notes/'), '{"name":"Notes"}', 'public')
  t.equal(await manifestOf('/notes/own'), '{"name":"Own"}', 'with the cookies of the page')
  t.notMatch(await manifestOf('/notes/private'), /Own/, 'browsers send no cookies by themselves')

  await page.evaluate(
    "navigator.serviceWorker.register('/notes/sw.js').then(() => navigator.serviceWorker.ready).then(() => 0)"
  )
  await page.goto(`${world.url}/notes/`)
  await page.waitForFunction('navigator.serviceWorker.controller !== null')
  t.equal(await page.title(), 'Notes')
  await context.clearCookies()
  await page.reload()
  t.equal(new URL(page.url()).pathname, '/auth/login')
})
