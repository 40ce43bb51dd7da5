// Admins see in the console how much traffic there is and who is connected to what, and end it after being asked once.
import { once } from 'node:events'
import { createServer } from 'node:http'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import type { User } from '../../gateway/identity.ts'
import { axeFindings, openPage } from '../support/browser.ts'
import { startBrowserWorld, startPagesWorld } from '../support/pages-world.ts'
import { listen } from '../support/ports.ts'
import { startRedis } from '../support/redis.ts'
import { until } from '../support/until.ts'

const server = createServer()
const backend = new WebSocketServer({ server })
backend.on('connection', socket => socket.send('hello'))

const config = {
  upstreams: { live: { url: `http://127.0.0.1:${await listen(t, server)}` } },
  routes: [{ path: '/live', upstream: 'live', roles: ['Agente'], websocket: {} }]
}
const world = await startBrowserWorld(t, { config })

const connect = async (
  username: string,
  id: number,
  to: Pick<typeof world, 'tokenFor' | 'port'> = world,
  provider: User['provider'] = 'ldap'
) => {
  const token = await to.tokenFor({ id, username, provider })
  const socket = new WebSocket(`ws://127.0.0.1:${to.port}/live`, { headers: { authorization: `Bearer ${token}` } })
  t.teardown(() => socket.terminate())
  const closed = once(socket, 'close') as Promise<[code: number]>
  await once(socket, 'message')
  return { socket, closed }
}

// AD-09
t.test('an Admin sees an open WebSocket in the console and ends it, and no other, after being asked once', async t => {
  const [rui, ana] = [await connect('rui', 44), await connect('ana', 45)]
  const page = await world.open(t, '/auth/console#/streams', { of: 'maria' })
  const row = page.locator('tbody tr', { hasText: 'rui' })
  await row.waitFor()
  t.equal(await row.locator('code').textContent(), '/live', 'where it leads')
  t.match(await row.textContent(), /websocket.*127\.0\.0\.1/)
  await row.getByRole('button', { name: 'End the connection of rui to /live' }).click()
  const question = page.locator('dialog[open]')
  await question.waitFor()
  t.match(await question.textContent(), /rui loses the connection to \/live now/, 'says what will happen')
  t.same(await axeFindings(page), [])
  t.equal(rui.socket.readyState, WebSocket.OPEN, 'nothing happens before the answer')
  await question.locator('.danger').click()
  t.equal((await rui.closed)[0], 4403)
  await page.getByText('The connection has been ended.').waitFor()
  await row.waitFor({ state: 'detached' })
  t.equal(await page.locator('dialog[open]').count(), 0, 'and asks no second time')
  t.equal(await page.locator('tbody tr').count(), 1)
  t.equal(ana.socket.readyState, WebSocket.OPEN, 'somebody else stays connected')
  await page.goto(`${world.origin}/auth/console#/audit`)
  await page.getByText('stream.end').first().waitFor()
})

t.test('the connections of people lead to their pages, those of service accounts to the list of these', async t => {
  await connect('rui', 44)
  await connect('reports', 46, world, 'client')
  const page = await world.open(t, '/auth/console#/streams', { of: 'maria' })
  const linkOf = (name: string) => page.getByRole('link', { name, exact: true }).first().getAttribute('href')
  t.equal(await linkOf('rui'), '#/people/44')
  t.equal(await linkOf('reports'), '#/clients')
})

t.test('below a chart of traffic are the time and the values at the pointer', async t => {
  const page = await world.open(t, '/auth/console#/traffic', { of: 'maria' })
  const plot = page.locator('figure.chart', { hasText: 'Logins' }).locator('.plot')
  const clocks = plot.locator('ol', { hasText: /^(?:\d\d:\d\d){3}$/ })
  await clocks.waitFor()
  const svg = plot.locator('> svg')
  const { width = 0 } = (await svg.boundingBox()) ?? {}
  const seen = new Set<string>()
  await until(async () => {
    for (let part = 0; part <= 1; part += 0.1) {
      await svg.hover({ position: { x: part * (width - 1), y: 20 } })
      seen.add((await plot.locator('ol', { hasText: '·' }).textContent()) ?? '')
    }
    return [...seen].some(line => /successful [1-9]/.test(line))
  })
  t.ok(seen.size > 5)
  for (const line of seen) t.match(line, /^\d\d:\d\d:00 · successful \d · refused 0$/)
  await page.locator('h1').hover()
  await clocks.waitFor()
})

t.test('the traffic view goes on after a clock is set back, and after an instance did not reply', async t => {
  const page = await world.open(t, '/auth/console#/traffic', { of: 'maria' })
  const startS = Math.floor(Date.now() / 5000) * 5
  const pointAt = (atS: number, allowed: number) => ({
    ...{ at: new Date(atS * 1000).toISOString(), requests: allowed, allowed, refused: 0, failed: 0, codes: {} },
    ...{ p50Ms: 1, p95Ms: 1.25, logins: 0, loginsRefused: 0 }
  })
  let steps = [pointAt(startS, 41)]
  let nowS = startS
  let missing: string[] = []
  await page.route(/admin\/traffic/, route => {
    const since = Date.parse(new URL(route.request().url()).searchParams.get('since') ?? '') || 0
    const points = steps.filter(({ at }) => Date.parse(at) >= since)
    return route.fulfill({ json: { now: new Date(nowS * 1000), stepMs: 5000, points, instances: [], missing } })
  })
  await page.addInitScript('later = setTimeout; setTimeout = (work, ms) => later(work, ms / 20)')
  const figures = page.locator('dl.figures')
  const allowed = (sum: number) => figures.getByText(String(sum), { exact: true }).waitFor()
  await figures.waitFor()
  await page.reload()
  await allowed(41)
  t.match(await figures.textContent(), /95% of responses within \(ms\)1\.25/)
  nowS -= 1800
  steps.unshift(pointAt(nowS, 57))
  await allowed(57)

  missing = ['other:1']
  steps = [pointAt(nowS, 57), pointAt(nowS + 5, 1), pointAt(nowS + 10, 1)]
  nowS += 10
  await allowed(59)
  missing = []
  steps = [pointAt(nowS - 10, 57), pointAt(nowS - 5, 4), pointAt(nowS, 4)]
  await allowed(65)
})

t.test('a view that cannot be loaded says so once, not at each poll', async t => {
  const page = await world.open(t, '/auth/console', { of: 'maria' })
  let [polls, status] = [0, 500]
  await page.route(/admin\/traffic/, route => {
    polls += 1
    const code = status === 503 ? 'GW_UNAVAILABLE' : 'GW_INTERNAL'
    return route.fulfill({ status, headers: { 'x-request-id': `id-${polls}` }, json: { code } })
  })
  await page.addInitScript('later = setTimeout; setTimeout = (work, ms) => later(work, ms / 20)')
  await page.goto(`${world.origin}/auth/console#/traffic`)
  await page.reload()
  const alert = page.locator('main [role=alert]')
  await alert.waitFor()
  const said = await alert.textContent()
  const seen = polls
  await until(() => polls > seen + 3)
  t.equal(await alert.textContent(), said)
  status = 503
  await page.locator('main [role=alert]', { hasText: 'cannot do this right now' }).waitFor()
  status = 500
  await page.locator('main [role=alert]', { hasText: /id-\d/ }).waitFor()
  const again = await alert.textContent()
  await alert.getByRole('button').click()
  await until(async () => (await alert.textContent()) !== again, 'who asks gets an answer')
})

t.test('what was said of a change takes no focus once the person has gone on', async t => {
  const { socket, closed } = await connect('eva', 47)
  const page = await world.open(t, '/auth/console', { of: 'maria' })
  await page.addInitScript('later = setTimeout; setTimeout = (work, ms) => later(work, ms / 20)')
  await page.route('**/admin/sockets/*', route => route.fulfill({ status: 503, json: { code: 'GW_UNAVAILABLE' } }))
  await page.goto(`${world.origin}/auth/console#/streams`)
  await page.reload()
  const row = page.locator('tbody tr', { hasText: 'eva' })
  await row.getByRole('button').click()
  await page.locator('dialog[open] .danger').click()
  await page.locator('main [role=alert]', { hasText: 'cannot do this right now' }).waitFor()
  // Beside the view, where nothing takes the focus.
  await page.mouse.click(1, (page.viewportSize()?.height ?? 0) - 1)
  const isNowhere = () => page.evaluate('document.activeElement === document.body')
  t.equal(await isNowhere(), true)
  socket.close()
  await closed
  await row.waitFor({ state: 'detached' })
  t.equal(await isNowhere(), true)
})

// RV-103
t.test('an Admin sees and ends the connections of all instances, and reads which did not reply', async t => {
  const { postgres, ldap, browser } = world
  const redis = await startRedis(t)
  const shared = { postgres, config, env: { REDIS_URL: redis.url } }
  const [here, there] = [await startPagesWorld(t, { ...shared, ldap }), await startPagesWorld(t, shared)]
  const { closed } = await connect('rui', 44, there)
  const page = await openPage(t, browser, `${here.origin}/auth/console#/status`, { of: 'maria' })
  const instances = page.getByRole('region', { name: 'Instances' })
  // Until the next poll a busy instance may be missing.
  await instances.locator('tbody tr').nth(1).waitFor()
  t.equal(await instances.locator('tbody tr').count(), 2)
  t.match(await instances.locator('tbody tr').first().textContent(), new RegExp(`:${process.pid}.*(in Redis|degraded)`))
  t.same(await axeFindings(page), [])

  await page.goto(`${here.origin}/auth/console#/streams`)
  const row = page.locator('tbody tr', { hasText: 'rui' })
  await row.waitFor()
  t.match(await row.textContent(), new RegExp(`:${process.pid}`), 'whose connection it is')
  await row.getByRole('button', { name: 'End the connection of rui to /live' }).click()
  await page.locator('dialog[open] .danger').click()
  t.equal((await closed)[0], 4403)
  await row.waitFor({ state: 'detached' })

  await redis.kill()
  for (const view of ['status', 'traffic', 'streams']) {
    await page.goto(`${here.origin}/auth/console#/${view}`)
    await page.reload()
    await page.getByText('Redis is unavailable: there may be other instances.').waitFor()
    t.match(await page.textContent('main'), /did not reply: .*:\d+\./, view)
    t.same(await axeFindings(page), [])
  }
})
