// Rights that end or shrink while a namespace is being opened or recovered: nothing wider comes back, nothing else ends.

import { io, Manager, type Socket } from 'socket.io-client'
import t, { type Test } from 'tap'
import type { WorldOptions } from '../support/gateway.ts'
import { jsonRequest, logIn } from '../support/login.ts'
import { startOpenLdap } from '../support/openldap.ts'
import { within } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { routesTo } from '../support/routes.ts'
import { once, startBehindGateway, startStockServer } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const startWorld = async (t: Test, options: WorldOptions = {}) => {
  const { sockets, url } = await startStockServer(t, { connectionStateRecovery: {} })
  sockets.of('/open').on('connection', socket => {
    socket.emit('hello')
    socket.on('echo', (x: unknown, ack: (x: unknown) => void) => ack(x))
  })
  const slow = { isAsked: false, confirm: () => {}, ends: [] as string[] }
  sockets.of('/slow').use((_, next) => {
    slow.isAsked = true
    slow.confirm = next
  })
  sockets.of('/slow').on('connection', socket => void socket.on('disconnect', reason => slow.ends.push(reason)))
  const gateway = await startBehindGateway(
    t,
    url,
    { namespaces: { '/open': {}, '/slow': {} } },
    { postgres, ...options }
  )
  return { gateway, slow, sockets, url }
}

for (const transport of ['polling', 'websocket']) {
  t.test(`by ${transport}: a right that ends before the backend has confirmed ends only its namespace`, async t => {
    const { gateway, slow, sockets } = await startWorld(t)
    const manager = new Manager(gateway.url, { transports: [transport], reconnection: false })
    const tokens = [await gateway.tokenFor({ id: 7 }), await gateway.tokenFor({ id: 7 })]
    const open = manager.socket('/open', { auth: { token: tokens[0] } })
    t.teardown(() => open.disconnect())
    await once(open, 'hello')
    const pending = manager.socket('/slow', { auth: { token: tokens[1] } })
    const refused = once(pending, 'connect_error')
    await until(() => slow.isAsked, 'asked')
    t.equal((await gateway.fetch('/auth/logout', { method: 'POST', token: tokens[1] })).status, 204)
    t.ok(await within(refused, 1000))
    t.match(await refused, [{ data: { code: 'GW_TOKEN_REVOKED', statusCode: 401 } }])
    t.same(await open.timeout(5000).emitWithAck('echo', 1), 1, 'the other namespace is not disturbed')
    slow.confirm()
    await until(() => slow.ends.length > 0, 'the backend is told')
    t.same(slow.ends, ['client namespace disconnect'])
    t.equal(sockets.of('/slow').sockets.size, 0)
    t.same(await open.timeout(5000).emitWithAck('echo', 2), 2)
  })

  t.test(`by ${transport}: what is on its way to a namespace whose right ends disturbs no other`, async t => {
    const { gateway, slow } = await startWorld(t)
    const manager = new Manager(gateway.url, { transports: [transport], reconnection: false })
    const tokens = [await gateway.tokenFor({ id: 7 }), await gateway.tokenFor({ id: 7 })]
    const open = manager.socket('/open', { auth: { token: tokens[0] } })
    const ending = manager.socket('/slow', { auth: { token: tokens[1] } })
    t.teardown(() => open.disconnect())
    await until(() => slow.isAsked, 'asked')
    slow.confirm()
    await until(() => open.connected && ending.connected, 'both are open')
    const ended = once(ending, 'disconnect')
    t.equal((await gateway.fetch('/auth/logout', { method: 'POST', token: tokens[1] })).status, 204)
    t.match(await ended, ['io server disconnect'])
    // As if it had been sent before the client learnt of that.
    manager.engine.write('2/slow,["late"]')
    t.same(await open.timeout(5000).emitWithAck('echo', 1), 1)
  })

  t.test(`by ${transport}: what a client acknowledges after it has left a namespace disturbs no other`, async t => {
    const { gateway, slow, sockets } = await startWorld(t)
    const manager = new Manager(gateway.url, { transports: [transport], reconnection: false })
    const auth = { token: await gateway.tokenFor({ id: 7 }) }
    const open = manager.socket('/open', { auth })
    const leaving = manager.socket('/slow', { auth })
    t.teardown(() => open.disconnect())
    await until(() => slow.isAsked, 'asked')
    slow.confirm()
    await until(() => open.connected && leaving.connected, 'both are open')
    leaving.on('question', (bytes: Buffer, acknowledge: (bytes: Buffer) => void) => {
      leaving.disconnect()
      acknowledge(bytes)
    })
    for (const asked of sockets.of('/slow').sockets.values()) asked.emit('question', Buffer.from([1]), () => undefined)
    await until(() => slow.ends.length > 0, 'left')
    t.same(await open.timeout(5000).emitWithAck('echo', 1), 1)
  })

  t.test(`by ${transport}: a client that gives a CONNECT up and sends another is connected in the end`, async t => {
    const { gateway, slow } = await startWorld(t)
    const manager = new Manager(gateway.url, { transports: [transport], reconnectionDelay: 1 })
    const token = await gateway.tokenFor({ id: 7 })
    const open = manager.socket('/open', { auth: { token } })
    t.teardown(() => open.disconnect())
    await once(open, 'hello')
    const pending = manager.socket('/slow', { auth: { token } })
    t.teardown(() => pending.disconnect())
    await until(() => slow.isAsked, 'asked')
    slow.isAsked = false
    // A stock client tells the server nothing of that.
    pending.disconnect().connect()
    await until(() => slow.isAsked, 'asked again')
    slow.confirm()
    await until(() => open.connected && pending.connected, 'both are open')
  })
}

for (const transport of ['polling', 'websocket']) {
  t.test(`by ${transport}: a session begun before has the namespaces of the route files in use`, async t => {
    const { gateway, slow, url } = await startWorld(t)
    const serve = async (namespaces: object) => {
      gateway.writeRoutes(routesTo(url, [{ path: '/socket.io/*', socketio: { namespaces } }]))
      t.ok(await gateway.gateway.reload())
    }
    await serve({ '/open': {} })
    const manager = new Manager(gateway.url, { transports: [transport], reconnection: false })
    const auth = { token: await gateway.tokenFor({ id: 7 }) }
    const open = manager.socket('/open', { auth })
    t.teardown(() => open.disconnect())
    await once(open, 'hello')
    const later = manager.socket('/slow', { auth })
    t.match(await once(later, 'connect_error'), [{ data: { code: 'GW_NO_ROUTE' } }])
    await serve({ '/open': {}, '/slow': { roles: ['Admin'] } })
    later.connect()
    t.match(await once(later, 'connect_error'), [{ data: { code: 'GW_FORBIDDEN' } }])
    await serve({ '/open': {}, '/slow': { roles: ['Agente'] } })
    later.connect()
    await until(() => slow.isAsked, 'the backend is asked')
    slow.confirm()
    await until(() => open.connected && later.connected, 'both are open')
  })
}

t.test('an access token does not recover what a login of the same person has joined', async t => {
  const ldap = await startOpenLdap(t)
  const { gateway } = await startWorld(t, { env: { ...ldap.env, BOOTSTRAP_ADMINS: 'ldap:maria' } })
  const { token } = await logIn(gateway, 'maria')
  const expiresAt = new Date(Date.now() + 86_400_000).toISOString()
  const made = await gateway.fetch(
    '/auth/tokens',
    jsonRequest('POST', token, { name: 'x', profiles: ['Admin'], expiresAt })
  )
  t.equal(made.status, 201)
  const narrower = ((await made.json()) as { token: string }).token
  const client: Socket = io(`${gateway.url}/open`, { transports: ['websocket'], reconnection: false, auth: { token } })
  t.teardown(() => client.disconnect())
  let hellos = 0
  client.on('hello', () => hellos++)
  await until(() => hellos === 1, 'connected')
  for (const [auth, recovered] of [
    [token, true],
    [narrower, false],
    [narrower, true],
    [token, false]
  ] as const) {
    const lost = once(client, 'disconnect')
    client.io.engine.close()
    await lost
    client.auth = { token: auth }
    client.connect()
    const before = hellos
    await once(client, 'connect')
    t.equal(client.recovered, recovered)
    if (!recovered) await until(() => hellos > before, 'connected anew')
  }
})
