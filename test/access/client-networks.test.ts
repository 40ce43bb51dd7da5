// A route with `from` serves clients of its networks alone, whoever they are; what is open to others ends when the networks change.
import t from 'tap'
import { weakerNeighbours } from '../../gateway/cli/weaker-neighbours.ts'
import { portariaHere as portaria } from '../support/cli-here.ts'
import { startGateway } from '../support/gateway.ts'
import { startBackend } from '../support/gateway-process.ts'
import { rawWebSocket, startWebSocketUpstream } from '../support/raw-websocket.ts'
import { complaintsOf, routeFolder, tableOf } from '../support/route-files.ts'
import { until } from '../support/until.ts'
import { words } from '../support/words.ts'

const OFFICE = ['10.0.0.0/8', '2001:db8::/32']
const INSIDE = ['10.1.2.3', '10.255.255.255', '2001:db8::1', '::ffff:10.0.0.1', '10.0.0.1:40001', '[2001:db8:0::7]:443']
const OUTSIDE = ['10.0.0.1, 192.0.2.1', ...words`11.0.0.0 9.255.255.255 2001:db9:: ::ffff:11.0.0.1 192.0.2.1 unknown`]

const backend = await startBackend(t)
const sockets = await startWebSocketUpstream(t)
const routes = (from: readonly string[]) => ({
  upstreams: { back: { url: backend.url }, sockets: { url: sockets.url } },
  routes: [
    { path: '/office/*', upstream: 'back', from: OFFICE, roles: ['Agente'] },
    { path: '/kiosk/*', upstream: 'back', from: OFFICE, public: true },
    { path: '/board', methods: ['GET'], upstream: 'back', public: true },
    { path: '/board', methods: ['PUT'], upstream: 'back', from: OFFICE, public: true },
    { path: '/ledger', methods: ['GET'], upstream: 'back', from: OFFICE },
    { path: '/live', upstream: 'sockets', from, websocket: {} },
    { path: '/outer/*', external: true, from: OFFICE, roles: ['Agente'] },
    { path: '/free/*', upstream: 'back' }
  ]
})
const gateway = await startGateway(t, { config: routes(OFFICE), env: { TRUST_PROXY: '127.0.0.1' } })
const token = await gateway.tokenFor()

type More = { method?: string; token?: string; headers?: Record<string, string> }

const ask = async (path: string, from: string, more: More = {}) => {
  const answer = await gateway.fetch(path, { ...more, headers: { 'x-forwarded-for': from, ...more.headers } })
  const { code } = answer.status === 200 ? {} : ((await answer.json()) as { code?: string })
  return code ?? answer.status
}

t.test('only clients of the networks pass; others are refused before their token is looked at', async t => {
  for (const from of INSIDE) {
    t.equal(await ask('/office/x', from, { token }), 200, from)
    t.equal(await ask('/office/x', from), 'GW_UNAUTHENTICATED', from)
    t.equal(await ask('/kiosk/x', from), 200, from)
  }
  for (const from of OUTSIDE) {
    for (const more of [{ token }, {}, { token: 'nonsense' }])
      for (const path of ['/office/x', '/kiosk/x']) t.equal(await ask(path, from, more), 'GW_FORBIDDEN', from)
    t.equal(await ask('/free/x', from, { token }), 200, from)
  }
  t.match(await gateway.logged(({ path, ip }) => path === '/office/x' && ip === '192.0.2.1'), {
    decision: 'refuse',
    reason: 'address',
    user: undefined
  })
})

t.test('clients outside the networks do not learn which methods there are', async t => {
  for (const more of [{ token }, {}]) {
    for (const method of ['GET', 'DELETE'])
      t.equal(await ask('/ledger', '192.0.2.1', { ...more, method }), 'GW_FORBIDDEN', method)
  }
  t.equal(await ask('/ledger', '10.1.2.3', { token, method: 'DELETE' }), 'GW_METHOD_NOT_ALLOWED')
  const allow = async (from: string) =>
    (await gateway.fetch('/board', { method: 'DELETE', headers: { 'x-forwarded-for': from } })).headers.get('allow')
  t.equal(await allow('192.0.2.1'), 'GET, HEAD')
  t.equal(await allow('10.1.2.3'), 'GET, HEAD, PUT')
})

t.test('another proxy that asks gets the decision on the address of its client', async t => {
  const asked = { 'x-forwarded-method': 'GET', 'x-forwarded-uri': '/outer/x' }
  t.equal(await ask('/auth/forward', '10.1.2.3', { token, headers: asked }), 200)
  t.equal(await ask('/auth/forward', '192.0.2.1', { token, headers: asked }), 'GW_FORBIDDEN')
})

t.test('what clients say of their address does not count without TRUST_PROXY', async t => {
  const direct = await startGateway(t, { config: routes(OFFICE), postgres: gateway.postgres })
  t.equal((await direct.fetch('/kiosk/x', { headers: { 'x-forwarded-for': '10.1.2.3' } })).status, 403)
})

t.test('a socket opens from the networks alone, and ends when a reload takes its address away', async t => {
  const open = (from: string) =>
    rawWebSocket(gateway.port, {
      path: '/live',
      headers: { authorization: `Bearer ${token}`, 'x-forwarded-for': from }
    })
  const refused = await open('192.0.2.1')
  t.match(refused.head(), /^HTTP\/1\.1 403 /)
  const [staying, ending] = [await open('10.1.2.3'), await open('10.200.0.1')]
  for (const socket of [staying, ending]) t.match(socket.head(), /^HTTP\/1\.1 101 /)
  gateway.writeRoutes(routes(['10.1.0.0/16']))
  await gateway.gateway.reload()
  await until(() => ending.closeCode() === 4403, 'ended')
  t.equal(staying.closeCode(), undefined)
  staying.socket.destroy()
})

const YAML = (office: string) => `upstreams:
  up: { url: http://127.0.0.1:4001 }
routes:
  - { path: /office/*, upstream: up, ${office}roles: [Agente] }
  - { path: /free/*, upstream: up }
  - { path: /socket.io/*, upstream: up, ${office}socketio: { namespaces: { /m: { roles: [Agente] } } } }
`
const FROM = `from: [${OFFICE.join(', ')}], `

t.test('test lines name an address; without one it is in none of the networks', async t => {
  const lines = [
    'GET /office/x as Agente from 10.1.2.3 -> allow',
    'GET /office/x as anonymous from 10.1.2.3 -> 401',
    'GET /office/x as Agente from 192.0.2.1 -> 403',
    'GET /office/x as anonymous -> 403',
    'GET /office/x as Agente without area from ::ffff:10.0.0.1 -> allow',
    'EVENT /m send as Agente from 2001:db8::1 -> allow',
    'EVENT /m send as Agente -> 403'
  ]
  const tests = `tests:\n${lines.map(line => `  - ${line}\n`).join('')}`
  t.same(await complaintsOf(t, { 'routes.yaml': YAML(FROM) + tests }), [])
  t.match(
    await complaintsOf(t, { 'routes.yaml': `${YAML(FROM)}tests:\n  - GET /office/x as Agente from 10.1.2 -> allow\n` }),
    [/routes.yaml:\d+:\d+: .*"10\.1\.2" is no IP address/]
  )
})

t.test('what is no network is refused, with its place', async t => {
  for (const wrong of ['10.0.0.0/33', 'office', '10.0.0', '10.0.0.0-10.0.0.9', 'fe80::1%eth0', '2001:db8::/129']) {
    const [complaint] = await complaintsOf(t, { 'routes.yaml': YAML(`from: ["${wrong}"], `) })
    t.match(complaint, new RegExp(`routes.yaml:4:\\d+: "${wrong.replaceAll('.', '\\.')}" is neither an IP address nor`))
  }
})

t.test('explain and matrix name the networks, and diff the addresses that differ', async t => {
  const folder = await routeFolder(t, { 'routes.yaml': YAML(FROM) })
  const explained = await portaria(['explain', 'GET', '/office/x', '--as', 'Agente', '--json', '--config', folder])
  t.match(explained.json(), { reason: 'address', words: /only clients from 10\.0\.0\.0\/8, 2001:db8::\/32/ })
  const matrix = (await portaria(['matrix', '--config', folder])).stdout
  t.match(matrix, /\/office\/\* \(from 10\.0\.0\.0\/8, 2001:db8::\/32\) +– +– +– +yes/)
  const { stdout, code } = await portaria(['diff', folder, await routeFolder(t, { 'routes.yaml': YAML('') })])
  t.match(stdout, /\/office\/\* from any other address is now open to Agente/)
  t.match(stdout, /namespace \/m from any other address is now open to Agente/)
  t.equal(code, 1)
})

t.test('check names a less strict neighbour that other addresses reach', async t => {
  const table = await tableOf(t, `/reports {from: [10.0.0.0/8], public: true}`, '/reports/* {public: true}')
  t.match(weakerNeighbours(table), [{ message: /belongs to the less strict "\/reports\/\*"/ }])
})
