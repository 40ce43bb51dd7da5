// A route's own limit counts by address, by person or by both, beside the limit of all routes; upgrades and polls count too. RL-12, RL-15
import t from 'tap'
import { startGateway } from '../support/gateway.ts'
import { startBackend } from '../support/gateway-process.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { pythonModel } from '../support/socketio-models.ts'
import { startModelledUpstream } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const MAX = 2
const limit = (by: 'ip' | 'user' | 'both') => ({ max: MAX, window: '1h', by })
const backend = await startBackend(t)
const gateway = await startGateway(t, {
  config: {
    upstreams: { back: { url: backend.url } },
    routes: [
      { path: '/ip/*', upstream: 'back', rateLimit: limit('ip') },
      { path: '/user/*', upstream: 'back', rateLimit: limit('user') },
      { path: '/both/*', upstream: 'back', rateLimit: limit('both') },
      { path: '/admins/*', upstream: 'back', roles: ['Admin'], rateLimit: limit('user') },
      { path: '/open/*', upstream: 'back', public: true, rateLimit: limit('ip') },
      { path: '/free/*', upstream: 'back' },
      { path: '/ws', upstream: 'back', websocket: {}, rateLimit: limit('user') }
    ]
  },
  env: { TRUST_PROXY: '127.0.0.1' }
})
const [maria, ana] = await Promise.all([1, 2].map(id => gateway.tokenFor({ id })))
const [here, there] = ['192.0.2.1', '192.0.2.2']

const ask = async (path: string, token: string | undefined, from: string | undefined): Promise<number> => {
  const headers = { 'x-forwarded-for': from ?? '' }
  return (await gateway.fetch(path, { headers, ...(token === undefined ? {} : { token }) })).status
}
/** As often as the limit allows, and once more. */
const exhaust = async (path: string, token: string | undefined, from: string | undefined): Promise<number[]> => {
  const statuses = []
  for (let n = 0; n <= MAX; n++) statuses.push(await ask(path, token, from))
  return statuses
}
const ALL = [...new Array(MAX).fill(200), 429]
const NONE = new Array(MAX + 1).fill(429)

t.test('a limit counts by address, by person wherever they are, or each person at each address', async t => {
  for (const [path, token, from, expected] of [
    ['/ip/a', maria, here, ALL],
    ['/ip/b', ana, here, NONE],
    ['/ip/a', ana, there, ALL],
    ['/user/a', maria, here, ALL],
    ['/user/a', maria, there, NONE],
    ['/user/a', ana, here, ALL],
    ['/both/a', maria, here, ALL],
    ['/both/a', maria, there, ALL],
    ['/both/a', ana, here, ALL],
    ['/both/a', maria, here, NONE]
  ] as const)
    t.same(await exhaust(path, token, from), expected, `${path} from ${from}`)
})

t.test('requests without a token use up nothing of those with one; requests without the role do', async t => {
  t.same(await exhaust('/admins/a', undefined, here), [401, 401, 401])
  t.same(await exhaust('/admins/a', ana, here), [403, 403, 429])
  t.same(await exhaust('/open/a', undefined, here), ALL)
})

t.test('a route that is over its limit says which, and leaves the others alone', async t => {
  const answer = await gateway.fetch('/user/a', { token: maria ?? '', headers: { 'x-forwarded-for': here ?? '' } })
  t.equal(answer.status, 429)
  t.match(await answer.json(), { code: 'GW_RATE_LIMITED' })
  t.equal(answer.headers.get('x-ratelimit-limit'), `${MAX}`)
  t.ok(Number(answer.headers.get('retry-after')) > 3000)
  t.equal(await ask('/free/a', maria, here), 200)
})

t.test('each WebSocket is one request of its route', async t => {
  const open = () => rawWebSocket(gateway.port, { path: '/ws', headers: { authorization: `Bearer ${maria}` } })
  const heads = []
  for (let n = 0; n <= MAX; n++) heads.push((await open()).head().slice(9, 12))
  t.same(heads, ['101', '101', '429'])
})

t.test('upgrades count in the limit of all routes', async t => {
  const few = await startGateway(t, {
    config: {
      upstreams: { back: { url: backend.url } },
      routes: [{ path: '/ws', upstream: 'back', websocket: {} }]
    },
    env: { RATE_LIMIT_MAX: '3', RATE_LIMIT_TTL_MS: '3600000' }
  })
  const token = await few.tokenFor()
  const open = () => rawWebSocket(few.port, { path: '/ws', headers: { authorization: `Bearer ${token}` } })
  const heads = []
  for (let n = 0; n < 4; n++) heads.push((await open()).head().slice(9, 12))
  t.same(heads, ['101', '101', '101', '429'])
  t.equal((await few.fetch('/health')).status, 429)
})

// Everything counts: nothing but a WebSocket makes a Socket.IO client cheaper than its requests.
t.test('each poll of a Socket.IO client is one request, and what it says over a WebSocket is none', async t => {
  const messaging = await startModelledUpstream(t, () => pythonModel(['/chat']))
  const few = await startGateway(t, {
    config: {
      upstreams: { messaging: { url: `http://127.0.0.1:${messaging.port}` } },
      routes: [{ path: '/socket.io/*', upstream: 'messaging', socketio: { namespaces: { '/chat': {} } } }]
    },
    env: { RATE_LIMIT_MAX: '30', RATE_LIMIT_TTL_MS: '3600000', TRUST_PROXY: '127.0.0.1' }
  })
  const token = await few.tokenFor()
  const poll = (query: string, body?: string) =>
    few.fetch(`/socket.io/?EIO=4&transport=polling${query}`, {
      headers: { 'x-forwarded-for': '192.0.2.7', 'content-type': 'text/plain' },
      ...(body === undefined ? {} : { method: 'POST', body })
    })
  const { sid } = JSON.parse((await (await poll('')).text()).slice(1)) as { sid: string }
  t.equal((await poll(`&sid=${sid}`, `40/chat,{"token":"${token}"}`)).status, 200)
  // Twenty within a second, as an honest client without WebSocket may need.
  for (let n = 0; n < 28; n++) t.equal((await poll(`&sid=${sid}`, `42/chat,["say",${n}]`)).status, 200, `poll ${n}`)
  const refused = await poll(`&sid=${sid}`, '42/chat,["say",28]')
  t.equal(refused.status, 429)
  t.match(await refused.json(), { code: 'GW_RATE_LIMITED' })
  t.equal(refused.headers.get('x-ratelimit-limit'), '30')
  t.equal(messaging.delivered.filter(({ kind }) => kind === 'event').length, 28)

  const socket = await rawWebSocket(few.port, {
    path: '/socket.io/?EIO=4&transport=websocket',
    headers: { 'x-forwarded-for': '192.0.2.8' }
  })
  socket.send(1, `40/chat,{"token":"${token}"}`)
  await until(() => socket.frames().includes('40/chat'), 'connected')
  for (let n = 0; n < 60; n++) socket.send(1, `42/chat,["say",${n}]`)
  await until(() => messaging.delivered.filter(({ kind }) => kind === 'event').length === 28 + 60, 'delivered')
  const after = await few.fetch('/health', { headers: { 'x-forwarded-for': '192.0.2.8' } })
  t.equal(after.headers.get('x-ratelimit-remaining'), '28', 'the upgrade and this')
  socket.socket.destroy()
})
