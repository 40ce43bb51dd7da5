// Without a proven right not one byte of a namespace reaches a client, by either transport.
import t, { type Test } from 'tap'
import { shiftClocks } from '../support/clocks.ts'
import { startPostgres } from '../support/postgres.ts'
import { engineClients, startBehindGateway, startStockServer } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const SOCKETIO = { maxMessage: 200_000, namespaces: { '/messaging': { roles: ['Agente'] }, '/open': {} } }

/** Sessions of one address that may wait for their first namespace at the same time. */
const UNPROVEN = 20

const world = async (t: Test) => {
  const { sockets, url } = await startStockServer(t, { serveClient: false })
  // A stock polling transport waits 30 s for a last poll.
  sockets.engine.on('connection', (socket: { transport: { closeTimeout: number } }) => {
    socket.transport.closeTimeout = 100
  })
  const reached: string[] = []
  for (const name of ['/', '/messaging', '/open', '/hidden']) {
    sockets.of(name).on('connection', socket => {
      reached.push(name)
      socket.emit('secret', `secret of ${name}`)
      socket.onAny((event: string) => reached.push(`${name} ${event}`))
    })
  }
  const gateway = await startBehindGateway(t, url, SOCKETIO, { postgres, env: { OPS_PORT: '0' } })
  const token = await gateway.tokenFor()
  const { ask, poll, socket } = engineClients(gateway)
  /** No session is left: as many as an address may have that prove nothing can be opened again. */
  const noneLeft = async () => {
    t.equal((await gateway.openStreams()).total, 0)
    const opened = []
    await until(async () => {
      while (opened.length < UNPROVEN) {
        const answer = await ask('EIO=4&transport=polling')
        await answer.body?.cancel()
        if (answer.status !== 200) return false
        opened.push(answer.status)
      }
      return true
    }, 'every place for a new session is free')
    t.equal((await ask('EIO=4&transport=polling')).status, 429)
  }
  return { gateway, token, ask, poll, socket, reached, noneLeft }
}

const REFUSED_CONNECTS = [
  '40',
  '40/messaging,',
  '40/messaging',
  '40/messaging,{"token":"x.y.z"}',
  '40/hidden,',
  '40//messaging,',
  '40/messaging/,',
  '40/Messaging,',
  '40/messaging?token=a,',
  '40/%6dessaging,'
]
const VIOLATIONS = [
  '42["x"]',
  '42/messaging,["x"]',
  '431[1]',
  '451-/messaging,["x",{"_placeholder":true,"num":0}]',
  '4511-/messaging,["x"]',
  '45999999999-/messaging,["x"]',
  '44/messaging,{}',
  '41/messaging,',
  '4',
  '47',
  '0{"sid":"x"}',
  '5',
  '2',
  'x',
  'b!!!'
]

// WS-23, WS-25
t.test('by WebSocket, each spelling of a CONNECT without a right gets an error and nothing else', async t => {
  const { socket, reached } = await world(t)
  const { raw, say, heard } = await socket()
  for (const packet of REFUSED_CONNECTS) say(packet)
  await until(() => heard().split('"statusCode"').length > REFUSED_CONNECTS.length, 'all refused')
  t.notMatch(heard(), /secret/)
  t.match(heard(), '"data":{"code":"GW_UNAUTHENTICATED","statusCode":401}')
  t.same(reached, [])
  raw.socket.destroy()
})

// WS-22, WS-24, WS-29, WS-31
t.test('by WebSocket, packets before CONNECT or of no protocol end the connection', async t => {
  const { socket, reached, noneLeft } = await world(t)
  for (const packet of VIOLATIONS) {
    const { raw, say, heard } = await socket()
    say(packet)
    await until(() => raw.closeCode() === 1008, packet)
    t.notMatch(heard(), /secret/, packet)
    raw.socket.destroy()
  }
  const binary = await socket()
  binary.raw.send(2, Buffer.from([4, 1, 2]))
  await until(() => binary.raw.closeCode() === 1008, 'a binary packet first')
  t.same(reached, [])
  binary.raw.socket.destroy()
  await noneLeft()
})

// WS-26
t.test('by polling, each packet of a body is checked', async t => {
  const { poll, token, reached } = await world(t)
  const session = await poll()
  const waiting = session.get()
  t.equal(
    (await session.post(['40/hidden,{}', '40/messaging,{"token":"no"}', '40/messaging'].join('\x1e'))).status,
    200
  )
  t.equal(await waiting, 200)
  t.equal(session.text.split('"statusCode"').length, 4)
  t.equal((await session.post(`40/open,{"token":"${token}"}`)).status, 200)
  while (!session.text.includes('secret of /open')) await session.get()
  t.equal((await session.post('42/open,["fine"]\x1e42/messaging,["sneak"]')).status, 400)
  await session.get()
  t.match(session.text, '41/open,', 'the session is over')
  t.equal(await session.get(), 400)
  t.notMatch(session.text, /secret of \/messaging/)
  t.same(reached, ['/open'], 'and no packet of that body was forwarded')
})

// WS-24, WS-29, WS-30
t.test('by polling, packets before CONNECT, bad base64, binary and oversized bodies end the session', async t => {
  const { poll, reached, noneLeft } = await world(t)
  for (const body of [...VIOLATIONS, 'bAAAA', '2probe', '', '4\x1e']) {
    const session = await poll()
    t.equal((await session.post(body)).status, 400, body)
    t.equal((await session.post('3')).status, 400)
  }
  const binary = await poll()
  t.equal((await binary.post(Buffer.from([0, 1]), { 'content-type': 'application/octet-stream' })).status, 400)
  const large = await poll()
  t.equal((await large.post('x'.repeat(100_001))).status, 413, '100 KB before CONNECT')
  const encoded = await poll()
  t.equal((await encoded.post('3', { 'content-encoding': 'gzip' })).status, 400)
  t.same(reached, [])
  await noneLeft()
})

// WS-31, WS-34
t.test('requests that are no well-formed Engine.IO never leave the gateway', async t => {
  const { ask, socket } = await world(t)
  for (const query of [
    '',
    'EIO=3&transport=polling',
    'EIO=4&transport=polling&transport=websocket',
    'EIO=4&transport=webtransport',
    'EIO=4&transport=polling&j=1',
    'EIO=4&transport=websocket',
    'EIO=4&transport=polling&sid=unknown'
  ]) {
    t.equal((await ask(query)).status, 400, query)
  }
  t.equal((await ask('EIO=4&transport=polling', { method: 'POST', body: '40' })).status, 400)
  t.equal((await ask('EIO=4&transport=polling', { method: 'DELETE' })).status, 405)
  const { raw } = await socket('EIO=4&transport=websocket&sid=unknown')
  t.match(raw.head(), /^HTTP\/1\.1 400 /)
  const polling = await socket('EIO=4&transport=polling')
  t.match(polling.raw.head(), /^HTTP\/1\.1 400 /)
})

// RV-54
t.test('only the path of Engine.IO itself passes without a token', async t => {
  const { gateway } = await world(t)
  for (const path of ['/socket.io/jobs/run-now', '/socket.io/x/']) {
    const response = await gateway.fetch(`${path}?EIO=4&transport=polling`)
    t.match(await response.json(), { statusCode: 400, code: 'GW_BAD_REQUEST' })
  }
})

// RV-56
t.test('a refused CONNECT is logged with its namespace, reason and user, and counted', async t => {
  const { poll, socket, gateway } = await world(t)
  const supervisor = await gateway.tokenFor({ profiles: ['Supervisor'], username: 'sol' })
  const packets = ['40/messaging,', `40/messaging,{"token":"${supervisor}"}`]
  const { raw, say } = await socket()
  for (const packet of packets) say(packet)
  await (await poll()).post(packets.join('\x1e'))
  const lines = () => gateway.log.filter(({ msg }) => msg === 'refused a Socket.IO CONNECT')
  await until(() => lines().length === 4)
  const said = lines().map(({ namespace, reason, user }) => `${namespace} ${reason} ${user}`)
  t.same(new Set(said), new Set(['/messaging no-token undefined', '/messaging role-missing sol']))
  const metrics = await (await fetch(`http://127.0.0.1:${gateway.gateway.opsPort}/metrics`)).text()
  t.match(metrics, /portaria_refusals_total\{code="GW_FORBIDDEN",reason="role-missing"\} 2/)
  raw.socket.destroy()
})

// WS-27, WS-28
t.test('a sid carries nobody else’s rights, and one upgrade wins', async t => {
  const { poll, gateway, socket, token } = await world(t)
  const session = await poll()
  t.equal((await session.post(`40/open,{"token":"${token}"}`)).status, 200)
  while (!session.text.includes('secret of /open')) await session.get()
  const other = await gateway.tokenFor({ id: 99 })
  t.equal((await session.post(`40/messaging,{"token":"${other}"}`)).status, 200)
  while (!session.text.includes('GW_FORBIDDEN')) await session.get()
  t.notMatch(session.text, /secret of \/messaging/)
  const query = `EIO=4&transport=websocket&sid=${session.sid}`
  const first = await socket(query)
  const second = await socket(query)
  t.match(first.raw.head(), /^HTTP\/1\.1 101 /)
  t.match(second.raw.head(), /^HTTP\/1\.1 400 /)
  first.say('42/open,["too early"]')
  await until(() => first.raw.closeCode() === 1008, 'only the probe passes before the upgrade')
})

t.test('a WebSocket that is tried and given up leaves the session to polling, and another may be tried', async t => {
  const { poll, socket, token } = await world(t)
  const session = await poll()
  t.equal((await session.post(`40/messaging,{"token":"${token}"}`)).status, 200)
  const isTried = async () => {
    const { raw } = await socket(`EIO=4&transport=websocket&sid=${session.sid}`)
    raw.socket.destroy()
    return raw.head().startsWith('HTTP/1.1 101 ')
  }
  t.ok(await isTried())
  await until(isTried, 'another')
  t.equal((await session.post('42/messaging,["still"]')).status, 200)
})

t.test('a session that proves nothing ends after ten seconds; twenty of them are enough for one address', async t => {
  const clocks = shiftClocks(t)
  const { socket, ask } = await world(t)
  const open = []
  for (let i = 0; i < UNPROVEN; i++) open.push(await socket())
  t.match((await socket()).raw.head(), /^HTTP\/1\.1 429 /)
  t.equal((await ask('EIO=4&transport=polling')).status, 429)
  clocks.wallMs += 10_001
  for (const { raw } of open) await raw.closed
  t.equal((await ask('EIO=4&transport=polling')).status, 200)
})

t.test('a polling session that its client closes leaves its place to the next at once', async t => {
  const { poll, ask } = await world(t)
  for (let i = 0; i < UNPROVEN; i++) {
    const session = await poll()
    t.equal((await session.post('40/messaging,{"token":"x.y.z"}')).status, 200)
    t.equal(await session.get(), 200)
    t.equal((await session.post('1')).status, 200)
    t.equal(await session.get(), 400)
  }
  t.equal((await ask('EIO=4&transport=polling')).status, 200)
})

t.test('by WebSocket, 100 KB before CONNECT and messages over the limit end the connection', async t => {
  const { socket, gateway } = await world(t)
  const talkative = await socket()
  for (let i = 0; i < 7; i++) talkative.say(`40/hidden,{"x":"${'x'.repeat(15_000)}"}`)
  await until(() => talkative.raw.closeCode() === 1008, 'too much before CONNECT')
  const slow = await socket()
  // The head of a masked frame of 190,000 bytes.
  slow.raw.socket.write(Buffer.from('81ff000000000002e63000000000', 'hex'))
  slow.raw.socket.write(Buffer.alloc(110_000, 52))
  await until(() => slow.raw.closeCode() === 1008, 'before the rest of a message')
  t.equal(gateway.log.filter(({ reason }) => reason === 'too-much-before-connect').length, 2)
  const large = await socket()
  large.say('4'.repeat(200_001))
  await until(() => large.raw.closeCode() === 1009, 'too big')
})
