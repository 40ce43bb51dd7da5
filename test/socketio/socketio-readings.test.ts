// What servers in other languages read in a packet is what the gateway checked (packets of every spelling: npm run fuzz), and
// their ways of speaking are understood.
import type { Socket } from 'engine.io'
import t, { type Test } from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { type Delivery, pythonModel } from '../support/socketio-models.ts'
import { confirm, engineClients, startModelledUpstream } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const NAMESPACES = { '/admin-room': { roles: ['Admin'] }, '/chat': {}, '/\\/.*/': {} }

const world = async (t: Test, onDelivery?: (socket: Socket, delivery: Delivery) => void, socketio: object = {}) => {
  const model = () => pythonModel(['/', '/admin-room', '/chat', '/other'])
  const upstream = await startModelledUpstream(t, model, onDelivery)
  const gateway = await startGateway(t, {
    postgres,
    config: routesTo(`http://127.0.0.1:${upstream.port}`, [
      { path: '/socket.io/*', socketio: { namespaces: NAMESPACES, ...socketio } }
    ])
  })
  const { poll, socket } = engineClients(gateway)
  const logout = (token: string) => gateway.fetch('/auth/logout', { method: 'POST', token })
  return { gateway, upstream, socket, poll, logout }
}

const eventsOf = (delivered: readonly Delivery[]) =>
  delivered.filter(({ kind }) => kind === 'event').map(({ namespace, event }) => `${namespace} ${event}`)

// RW-03
for (const transport of ['websocket', 'polling'] as const) {
  t.test(`by ${transport}: the end of a right ends a session that owes attachments, and runs nothing`, async t => {
    const { gateway, upstream, socket, poll, logout } = await world(t)
    const admin = await gateway.tokenFor({ profiles: ['Admin'] })
    const other = await gateway.tokenFor({ profiles: ['Admin'] })
    const hello = [`40/admin-room,{"token":"${admin}"}`, `40/chat,{"token":"${other}"}`]
    const withheld = '451-/admin-room,["echo",{"_placeholder":true,"num":0}]'
    if (transport === 'websocket') {
      const { raw, say, heard } = await socket()
      for (const packet of hello) say(packet)
      await until(() => heard().includes('40/admin-room,') && heard().includes('40/chat,'), 'connected')
      say(withheld)
      await until(() => upstream.messages.some(message => String(message).startsWith('51-')), 'withheld')
      t.equal((await logout(admin)).status, 204)
      await until(() => raw.closeCode() === 4401, 'closed')
    } else {
      const session = await poll()
      await session.post(hello.join('\x1e'))
      while (!session.text.includes('40/chat,')) await session.get()
      await session.post(withheld)
      t.equal((await logout(admin)).status, 204)
      await until(() => upstream.sockets[0]?.readyState === 'closed', 'closed at the upstream')
      t.equal((await session.post('420-/admin-room,["delete-all","k"]')).status, 400)
    }
    t.strictSame(eventsOf(upstream.delivered), [], 'the withheld event never ran')
    t.notOk(
      upstream.messages.some(message => String(message).startsWith('1/')),
      'and nothing was taken for its attachment'
    )
  })
}

// RW-18
for (const transport of ['websocket', 'polling'] as const) {
  t.test(`by ${transport}: what a backend emits in its connect handler arrives behind the confirmation`, async t => {
    const early = (socket: Socket, delivery: Delivery) => {
      if (delivery.kind !== 'connect') return
      socket.send('2/chat,["hello"]')
      socket.send('51-/chat,["file",{"_placeholder":true,"num":0}]')
      socket.send(Buffer.from([1, 2, 3]))
      setTimeout(() => confirm(socket, delivery), 50)
    }
    const { gateway, socket, poll } = await world(t, early)
    const connect = `40/chat,{"token":"${await gateway.tokenFor()}"}`
    if (transport === 'websocket') {
      const { raw, say, heard } = await socket()
      say(connect)
      await until(() => heard().includes('\x82\x03\x01\x02\x03'), 'the attachment')
      t.match(heard(), /40\/chat,.*42\/chat,\["hello"\].*451-\/chat,.*\x82\x03\x01\x02\x03$/s)
      raw.socket.destroy()
    } else {
      const session = await poll()
      await session.post(connect)
      while (!session.text.includes('40/chat,')) t.equal(await session.get(), 200)
      t.match(
        session.text,
        '40/chat,{"sid":"a"}\x1e42/chat,["hello"]\x1e451-/chat,["file",{"_placeholder":true,"num":0}]\x1ebAQID'
      )
    }
  })
}

t.test('what a backend emits before it refuses a CONNECT is not delivered', async t => {
  const { gateway, socket } = await world(t, (socket, delivery) => {
    if (delivery.kind !== 'connect') return
    socket.send('2/chat,["secret"]')
    socket.send('4/chat,"Unable to connect"')
  })
  const { say, heard, raw } = await socket()
  say(`40/chat,{"token":"${await gateway.tokenFor()}"}`)
  await until(() => heard().includes('44/chat,'), 'refused')
  t.notMatch(heard(), 'secret')
  raw.socket.destroy()
})

// RW-35, WS-30
t.test('Base64 with line breaks, as the Java client posts it, is taken and goes on in one spelling', async t => {
  const { gateway, upstream, poll } = await world(t)
  const session = await poll()
  await session.post(`40/chat,{"token":"${await gateway.tokenFor()}"}`)
  while (!session.text.includes('40/chat,')) await session.get()
  const bytes = Buffer.alloc(200, 7)
  const broken = `b${bytes.toString('base64').replace(/.{76}/g, '$&\n')}\n`
  t.equal((await session.post(`451-/chat,["file",{"_placeholder":true,"num":0}]\x1e${broken}`)).status, 200)
  await until(() => eventsOf(upstream.delivered).length > 0, 'delivered')
  t.strictSame(upstream.delivered.at(-1)?.data, [bytes])
  t.equal((await session.post('451-/chat,["file",{"_placeholder":true,"num":0}]\x1ebAQ*L/')).status, 400, 'no Base64')
})

t.test('more packets within a second than the route allows end the session, by either transport', async t => {
  const { gateway, upstream, socket, poll } = await world(t, undefined, { messagesPerSecond: 20 })
  const goodbyes = () => upstream.messages.filter(message => message === '1/chat,').length
  const connect = `40/chat,{"token":"${await gateway.tokenFor()}"}`
  const { say, raw, heard } = await socket()
  say(connect)
  for (let i = 0; i < 50; i++) say('42/chat,["x"]')
  await until(() => raw.closeCode() === 1008, 'closed')
  t.match(heard(), /41\/chat,.*too many messages/s)
  await until(() => goodbyes() === 1, 'the backend is told')
  const session = await poll()
  await session.post(connect)
  const flood = Array.from({ length: 50 }, () => '42/chat,["x"]').join('\x1e')
  t.equal((await session.post(flood)).status, 429)
  t.equal((await session.post('42/chat,["x"]')).status, 400, 'the session is over')
  t.equal(await session.get(), 200)
  t.match(session.text, '41/chat,')
  await until(() => goodbyes() === 2, 'the backend is told')
})
