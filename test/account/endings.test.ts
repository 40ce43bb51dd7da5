// Whatever ends a machine's right ends what it has open, on the instance beside the one where it was ended.
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { Server } from 'socket.io'
import { io } from 'socket.io-client'
import t from 'tap'
import { WebSocket, WebSocketServer } from 'ws'
import { startGateway, type World } from '../support/gateway.ts'
import { SAMPLE_PASSWORD, startOpenLdap } from '../support/openldap.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRedis } from '../support/redis.ts'

const [ldap, postgres, redis] = await Promise.all([startOpenLdap(t), startPostgres(t), startRedis(t)])

// One backend for all kinds: events at /events, an echo at /socket, Socket.IO beside them.
const backend = http.createServer((request, response) => {
  if (request.url !== '/events') return void response.end('ok')
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: 1\n\n')
})
const echo = new WebSocketServer({ server: backend, path: '/socket' })
echo.on('connection', socket => socket.on('error', () => undefined))
const sockets = new Server(backend, { destroyUpgrade: false })
sockets.of('/messaging').on('connection', () => undefined)
await new Promise<void>(resolve => backend.listen(0, '127.0.0.1', resolve))
t.teardown(() => {
  sockets.close()
  backend.closeAllConnections()
})
const url = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`

const roles = ['Agente']
const options = {
  postgres,
  config: {
    upstreams: { all: { url } },
    routes: [
      { path: '/plain', upstream: 'all', roles },
      { path: '/events', upstream: 'all', roles },
      { path: '/socket', upstream: 'all', roles, websocket: {} },
      { path: '/socket.io/*', upstream: 'all', socketio: { namespaces: { '/messaging': { roles } } } }
    ]
  },
  env: {
    REDIS_URL: redis.url,
    LDAP_ENABLED: 'true',
    LDAP_URL: ldap.url,
    LDAP_USER_DN_TEMPLATE: `uid={{username}},ou=people,${ldap.baseDn}`,
    LDAP_SEARCH_BASE: ldap.baseDn,
    LDAP_SEARCH_FILTER: '(uid={{username}})'
  }
}
const first = await startGateway(t, options)
const second = await startGateway(t, options)
const admin = await first.tokenFor({ profiles: ['Admin'], username: 'root' })

const call = async (method: string, path: string, body?: unknown, token: string = admin) => {
  const answer = await first.fetch(path, {
    method,
    token,
    ...(body === undefined ? {} : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
}
await call('POST', '/auth/admin/areas', { name: 'Norte' })
const access = { profiles: ['Agente'], areas: ['Norte'], areaPrincipal: 'Norte' }
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()

const login = async (username: string) => {
  const answer = await call('POST', '/auth/login', { username, password: SAMPLE_PASSWORD })
  return answer.body as { token: string; user: { id: number } }
}

/** A machine's token, what it can be ended with, and a name for the table. */
interface Holder {
  token: string
  /** Of the account in users. */
  userId: number
  id: number
}

let serial = 0
const client = async (): Promise<Holder> => {
  serial += 1
  const { body } = await call('POST', '/auth/admin/clients', { name: `robot-${serial}`, ...access })
  const answer = await fetch(`${first.url}/auth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: body.clientId,
      client_secret: body.clientSecret
    })
  })
  const { access_token } = (await answer.json()) as { access_token: string }
  return { token: access_token, userId: body.id, id: body.id }
}

const ana = (await login('ana')).user.id

const accessToken = async (expiresAt = inAnHour()): Promise<Holder> => {
  await call('POST', `/auth/admin/users/${ana}/enable`)
  await call('PUT', `/auth/admin/users/${ana}/access`, access)
  const owner = await login('ana')
  const { body } = await call('POST', '/auth/tokens', { name: 'x', profiles: ['Agente'], expiresAt }, owner.token)
  return { token: body.token, userId: ana, id: body.id }
}

/** Milliseconds from now until each of them has ended. */
const openAll = async (world: World, token: string) => {
  // A new token is known to the other instance a moment after it was made.
  while ((await world.fetch('/plain', { token })).status !== 200);
  const answer = await world.fetch('/events', { token })
  const reader = answer.body?.getReader()
  await reader?.read()
  const socket = new WebSocket(`${world.url.replace('http', 'ws')}/socket`, ['bearer', token], {})
  await new Promise((resolve, reject) => socket.on('open', resolve).on('error', reject))
  const polled = io(`${world.url}/messaging`, { auth: { token }, reconnection: false, forceNew: true })
  await new Promise<void>((resolve, reject) => polled.on('connect', () => resolve()).on('connect_error', reject))
  const from = performance.now()
  const after = () => Math.round(performance.now() - from)
  const plain = async () => {
    for (;;) {
      const { status } = await world.fetch('/plain', { token })
      if (status !== 200) return after()
    }
  }
  return () =>
    Promise.all([
      plain(),
      reader?.read().then(after, after) ?? 0,
      new Promise<number>(resolve => socket.on('close', () => resolve(after()))),
      new Promise<number>(resolve => polled.on('disconnect', () => resolve(after())))
    ])
}

const ENDINGS: [title: string, make: () => Promise<Holder>, end: (holder: Holder) => Promise<unknown>][] = [
  ['an access token is deleted', accessToken, ({ id }) => call('DELETE', `/auth/admin/tokens/${id}`)],
  ['its owner is disabled', accessToken, ({ userId }) => call('POST', `/auth/admin/users/${userId}/disable`)],
  [
    'all tokens of its owner are ended',
    accessToken,
    ({ userId }) => call('POST', `/auth/admin/users/${userId}/revoke`)
  ],
  [
    'its owner loses the role',
    accessToken,
    ({ userId }) => call('PUT', `/auth/admin/users/${userId}/access`, { ...access, profiles: ['Supervisor'] })
  ],
  ['a service account is removed', client, ({ id }) => call('DELETE', `/auth/admin/clients/${id}`)],
  ['it loses the role', client, ({ id }) => call('PATCH', `/auth/admin/clients/${id}`, { profiles: ['Supervisor'] })],
  [
    'it is bound to another network',
    client,
    ({ id }) => call('PATCH', `/auth/admin/clients/${id}`, { addresses: ['203.0.113.0/24'] })
  ],
  ['its expiry changes', client, ({ id }) => call('PATCH', `/auth/admin/clients/${id}`, { expiresAt: inAnHour() })]
]

for (const [title, make, end] of ENDINGS) {
  t.test(`HTTP, events, WebSocket and Socket.IO end on both instances within a second when ${title}`, async t => {
    const holder = await make()
    const here = await openAll(first, holder.token)
    const there = await openAll(second, holder.token)
    const ended = Promise.all([here(), there()])
    const before = performance.now()
    await end(holder)
    const took = performance.now() - before
    for (const times of await ended) for (const time of times) t.ok(time < 1000 + took, `${times} ms`)
  })
}

t.test('they end when an access token expires', async t => {
  const holder = await accessToken(new Date(Date.now() + 4000).toISOString())
  const ended = await openAll(second, holder.token)
  for (const time of await ended()) t.ok(time < 6000, `${time} ms`)
})

t.test('with Redis away within five seconds', async t => {
  const holder = await accessToken()
  const ended = await openAll(second, holder.token)
  await redis.kill()
  const waiting = ended()
  await call('DELETE', `/auth/admin/tokens/${holder.id}`)
  for (const time of await waiting) t.ok(time < 6000, `${time} ms`)
  await redis.restart()
})

t.test('a token bound to a network opens no Socket.IO namespace from elsewhere', async t => {
  const { body } = await call('POST', '/auth/admin/clients', { name: 'bound', ...access, addresses: ['127.0.0.1/32'] })
  const proxied = await startGateway(t, { ...options, env: { ...options.env, TRUST_PROXY: '127.0.0.1' } })
  const answer = await fetch(`${first.url}/auth/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'client_credentials',
      client_id: body.clientId,
      client_secret: body.clientSecret
    })
  })
  const { access_token } = (await answer.json()) as { access_token: string }
  const connect = (from: string) =>
    new Promise<string>(resolve => {
      const socket = io(`${proxied.url}/messaging`, {
        auth: { token: access_token },
        extraHeaders: { 'x-forwarded-for': from },
        reconnection: false,
        forceNew: true
      })
      t.teardown(() => socket.disconnect())
      socket.on('connect', () => resolve('connected'))
      socket.on('connect_error', error => resolve((error as Error & { data?: { code?: string } }).data?.code ?? ''))
    })
  t.equal(await connect('127.0.0.1'), 'connected')
  t.equal(await connect('198.51.100.7'), 'GW_UNAUTHENTICATED')
})
