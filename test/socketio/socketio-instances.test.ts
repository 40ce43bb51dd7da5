// Two gateways without a sticky balancer serve one polling session between them, and a right that ends, ends on both.

import { io } from 'socket.io-client'
import t, { type Test } from 'tap'
import { routesTo, startGateway, type World } from '../support/gateway.ts'
import { within } from '../support/own-time.ts'
import { startPostgres } from '../support/postgres.ts'
import { rawWebSocket } from '../support/raw-websocket.ts'
import { startRedis } from '../support/redis.ts'
import { once, startStockServer } from '../support/socketio-upstream.ts'
import { startBalancer } from '../support/spread-chats.ts'
import { until } from '../support/until.ts'

const [postgres, redis] = await Promise.all([startPostgres(t), startRedis(t)])

const NAMESPACES = { '/messaging': { roles: ['Agente'] }, '/open': {} }

const world = async (t: Test, redisUrl = redis.url, env: Record<string, string> = {}) => {
  // Clients of packets answer no ping, however long a busy machine needs.
  const patience = { pingInterval: 1000, pingTimeout: 600_000 }
  const { sockets, url: chat } = await startStockServer(t, { connectionStateRecovery: {}, ...patience })
  for (const name of ['/messaging', '/open']) {
    sockets.of(name).on('connection', socket => {
      socket.emit('hello', name)
      socket.on('echo', (x: unknown, ack: (x: unknown) => void) => ack(x))
    })
  }
  const config = routesTo(chat, [{ path: '/socket.io/*', socketio: { namespaces: NAMESPACES } }])
  const start = () => startGateway(t, { postgres, config, env: { REDIS_URL: redisUrl, ...env } })
  const gateways = [await start(), await start()] as const
  const [first, second] = gateways
  const url = await startBalancer(t, [first.port, second.port])
  const connect = (namespace: string, transports: string[], token: string) => {
    const client = io(url + namespace, { forceNew: true, reconnection: false, transports, auth: { token } })
    t.teardown(() => client.disconnect())
    return client
  }
  return { gateways, connect, sockets }
}

// RV-47
t.test('every key and channel of two instances begins with REDIS_PREFIX', async t => {
  const own = await startRedis(t)
  const { gateways, connect } = await world(t, own.url, { REDIS_PREFIX: 'x:' })
  const client = connect('/messaging', ['polling'], await gateways[0].tokenFor())
  t.equal((await once(client, 'hello'))[0], '/messaging')
  for (let i = 0; i < 4; i++) t.equal(await client.emitWithAck('echo', i), i)
  const listed = async (...command: string[]) => (await own.command(...command)).split('\n')
  const keys = await listed('keys', '*')
  t.ok(keys.some(key => key.startsWith('x:rate:')))
  const channels = await listed('pubsub', 'channels')
  t.equal(channels.length, 2, 'one of each instance')
  for (const name of [...keys, ...channels]) t.match(name, /^x:/)
})

// WS-28, RW-17
t.test('after the upgrade a stray request at either instance gets 400, and the session lives', async t => {
  const { gateways, connect } = await world(t)
  const client = connect('/messaging', ['polling', 'websocket'], await gateways[0].tokenFor())
  await once(client, 'hello')
  await until(() => client.io.engine.transport.name === 'websocket', 'upgraded')
  // The answer comes the new way: the last packet of the upgrade was before it.
  await client.emitWithAck('echo', 'upgraded')
  const query = `/socket.io/?EIO=4&transport=polling&sid=${client.io.engine.id}`
  for (const { url } of gateways) {
    for (const request of [{}, { method: 'POST', body: '42/messaging,["echo",1]' }]) {
      const answer = await fetch(url + query, { ...request, headers: { 'content-type': 'text/plain' } })
      t.match(await answer.json(), { statusCode: 400, code: 'GW_BAD_REQUEST' })
    }
    t.same(await client.emitWithAck('echo', 'still here'), 'still here')
  }
})

// RW-96
t.test('an instance that opened sessions stops counting them when they upgrade at another one', async t => {
  const { gateways } = await world(t)
  const [first, second] = gateways
  for (let i = 0; i < 20; i++) {
    const { path } = await openAt(gateways)
    const socket = await rawWebSocket(second.port, { path: path.replace('polling', 'websocket') })
    t.teardown(() => socket.socket.destroy())
    socket.send(1, '2probe')
    await until(() => socket.frames().includes('3probe'), 'probed')
    socket.send(1, '5')
  }
  await until(async () => (await first.fetch(PATH)).status === 200, 'places for other clients')
})

const PATH = '/socket.io/?EIO=4&transport=polling'
const TEXT = { 'content-type': 'text/plain' }

/** A session that began at the first gateway, with an open namespace; its requests go where the test says. */
const openAt = async ([first, second]: readonly [World, World]) => {
  const { sid } = JSON.parse((await (await first.fetch(PATH)).text()).slice(1)) as { sid: string }
  const path = `${PATH}&sid=${sid}`
  const body = `40/open,${JSON.stringify({ token: await first.tokenFor() })}`
  t.equal((await second.fetch(path, { method: 'POST', headers: TEXT, body })).status, 200)
  let heard = await (await second.fetch(path)).text()
  t.match(heard, /^40\/open,/)
  /** Fetches everything up to the ping, after which the server sends nothing of its own accord. */
  const fetchAll = async (at: World) => {
    while (!heard.split('\x1e').includes('2')) heard += `\x1e${await (await at.fetch(path)).text()}`
  }
  return { path, poll: (at: World) => at.fetch(path), fetchAll }
}

// RW-68, RW-70
t.test('without Redis only what must go to another process fails, and sockets stay open', async t => {
  const own = await startRedis(t)
  const { gateways, connect } = await world(t, own.url)
  const [first, second] = gateways
  const client = connect('/messaging', ['polling', 'websocket'], await first.tokenFor())
  await once(client, 'hello')
  await until(() => client.io.engine.transport.name === 'websocket', 'upgraded')
  await client.emitWithAck('echo', 'upgraded')
  const { poll } = await openAt(gateways)
  const waiting = poll(second)
  await own.kill()
  t.match(await (await waiting).json(), { statusCode: 503, code: 'GW_UNAVAILABLE' })
  t.match(await (await poll(second)).json(), { statusCode: 503, code: 'GW_UNAVAILABLE' })
  await second.logged(({ reason }) => reason === 'session-owner')
  t.same(await client.emitWithAck('echo', 'here'), 'here')
  await own.restart()
  t.same(await client.emitWithAck('echo', 'still here'), 'still here')
})

// RW-93
t.test('a poll that waits at another instance is answered at once when its backend goes away', async t => {
  const { gateways, sockets } = await world(t)
  const { poll, path, fetchAll } = await openAt(gateways)
  await fetchAll(gateways[1])
  const waiting = poll(gateways[1])
  await until(() => sockets.engine.clientsCount === 1, 'polled')
  sockets.engine.close()
  t.ok(await within(waiting, 15_000), 'not after the time that a poll may be held')
  t.equal((await gateways[1].fetch(path)).status, 400)
})

t.test('an instance that stops leaves a poll of another instance’s session to the others', async t => {
  const { gateways, sockets } = await world(t)
  const { poll, fetchAll } = await openAt(gateways)
  await fetchAll(gateways[1])
  const waiting = poll(gateways[1])
  await Promise.all([gateways[1].gateway.close(), waiting])
  t.equal(await (await waiting).text(), '6')
  sockets.of('/open').emit('hello', 'again')
  await until(async () => (await (await poll(gateways[0])).text()).includes('again'), 'the session goes on')
})

t.test('a sid of an instance that is gone, or that never was, is unknown at once', async t => {
  const { gateways } = await world(t)
  const { path } = await openAt(gateways)
  for (const sid of [path.replace(/[0-9a-f]{8}$/, '01234567'), path.replace(/\.[0-9a-f]{8}$/, ''), `${path}0`]) {
    const beganMs = performance.now()
    t.equal((await gateways[1].fetch(sid)).status, 400)
    t.ok(performance.now() - beganMs < 20_000, 'not after the time that a poll may be held')
  }
})

t.test('polls and posts of a service account are refused outside its addresses, wherever they arrive', async t => {
  const { gateways } = await world(t, redis.url, { TRUST_PROXY: '127.0.0.1' })
  const [first, second] = gateways
  const token = await first.tokenFor({ provider: 'client' }, { addresses: ['192.0.2.0/24'] })
  const ask = (at: World, ip: string, query = '', body?: string) =>
    at.fetch(PATH + query, {
      headers: { ...TEXT, 'x-forwarded-for': ip },
      ...(body === undefined ? {} : { method: 'POST', body })
    })
  const [inside, outside] = ['192.0.2.7', '203.0.113.9']
  const begin = async () => {
    const { sid } = JSON.parse((await (await ask(first, inside)).text()).slice(1)) as { sid: string }
    return `&sid=${sid}`
  }
  const connect = `40/open,${JSON.stringify({ token })}`
  const stolen = await begin()
  t.equal((await ask(second, outside, stolen, connect)).status, 200)
  t.match(await (await ask(second, outside, stolen)).text(), /^44\/open,.*GW_UNAUTHENTICATED/)
  const session = await begin()
  t.equal((await ask(second, inside, session, connect)).status, 200)
  t.match(await (await ask(first, inside, session)).text(), /^40\/open,/)
  for (const at of gateways) {
    t.equal((await ask(at, outside, session)).status, 401)
    t.equal((await ask(at, outside, session, '42/open,["echo",1]')).status, 401)
  }
  await second.logged(({ reason }) => reason === 'foreign-address')
  t.equal((await ask(second, inside, session)).status, 200, 'its own client is not disturbed')
})
