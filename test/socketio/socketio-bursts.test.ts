// Bursts pass as the stock server and client send them: bytes are bounded, not packets. An orderly goodbye is no fault.
import type { ServerOptions, Socket as ServerSocket } from 'socket.io'
import { io } from 'socket.io-client'
import t, { type Test } from 'tap'
import { routesTo, startGateway } from '../support/gateway.ts'
import { startPostgres } from '../support/postgres.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { targetAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'
import { engineClients, once, startBehindGateway, startStockServer } from '../support/socketio-upstream.ts'
import { until } from '../support/until.ts'

const postgres = await startPostgres(t)

const world = async (
  t: Test,
  onConnection: (socket: ServerSocket) => void,
  more: object = {},
  options: Partial<ServerOptions> = {}
) => {
  const { sockets, url } = await startStockServer(t, options)
  sockets.on('connection', onConnection)
  const gateway = await startBehindGateway(t, url, { namespaces: { '/': {} }, ...more }, { postgres })
  const connect = async (transports: string[]) => {
    const client = io(gateway.url, {
      ...{ forceNew: true, reconnection: false, transports },
      auth: { token: await gateway.tokenFor() }
    })
    t.teardown(() => client.disconnect())
    return client
  }
  return { gateway, connect }
}

// RV-49
for (const [count, bytes] of [
  [1000, 0],
  [500, 8000],
  [40, 100_000]
] as const) {
  t.test(`a backend may emit ${count} events of ${bytes} bytes as soon as a client connects`, async t => {
    const text = 'x'.repeat(bytes)
    const { connect } = await world(t, socket => {
      for (let i = 0; i < count; i++) socket.emit('item', i, text)
    })
    for (const transports of [['polling', 'websocket'], ['polling'], ['websocket']]) {
      const client = await connect(transports)
      const seen: number[] = []
      client.on('item', (i: number, got: string) => seen.push(got.length === bytes ? i : -1))
      await until(() => seen.length === count || !client.active, 'all have arrived')
      t.same(
        seen,
        Array.from({ length: count }, (_, i) => i),
        transports.join()
      )
      client.disconnect()
    }
  })
}

t.test('a client may post as many packets at once as messagesPerSecond allows', async t => {
  const received: number[] = []
  const { connect } = await world(t, socket => void socket.on('item', (i: number) => received.push(i)), {
    messagesPerSecond: 20_000
  })
  const client = await connect(['polling'])
  await once(client, 'connect')
  for (let i = 0; i < 1200; i++) client.emit('item', i)
  await until(() => received.length === 1200 || !client.active, 'all have arrived')
  t.same(
    received,
    Array.from({ length: 1200 }, (_, i) => i)
  )
})

t.test('a client posts no more at once than its route takes, although the backend would take more', async t => {
  let received = 0
  const { connect } = await world(t, socket => void socket.on('item', () => received++), {}, { maxHttpBufferSize: 1e8 })
  const client = await connect(['polling'])
  await once(client, 'connect')
  for (let i = 0; i < 30; i++) client.emit('item', 'x'.repeat(100_000))
  await until(() => received === 30 || !client.connected, 'all have arrived')
  t.equal(received, 30)
})

t.test('a client that sends more by WebSocket than messagesPerSecond allows stays away', async t => {
  const ends: string[] = []
  const { connect } = await world(t, socket => void socket.on('disconnect', reason => ends.push(reason)), {
    messagesPerSecond: 20
  })
  const client = await connect(['websocket'])
  await once(client, 'connect')
  const ended = once(client, 'disconnect')
  for (let i = 0; i < 100; i++) client.emit('item', i)
  t.match(await ended, ['io server disconnect'])
  await until(() => ends.length > 0, 'the backend is told')
  t.same(ends, ['client namespace disconnect'])
})

// RV-49
t.test('however many packets a server sends in one answer, other work goes on meanwhile', async t => {
  const raw = await startRawUpstream(t)
  const body = Array.from({ length: 400_000 }, () => '42/a,["x"]').join('\x1e')
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const { enter, hold } = holdSessions(t)
  const { engineSession, polling, answers, ask } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
  await enter(engineSession, '/a')
  let turns = 0
  const count = () => {
    turns++
    if (answers.length === 0) setImmediate(count)
  }
  ask()
  await raw.request()
  count()
  await polling.last()
  await until(() => answers.length > 0, 'answered')
  t.ok(turns > 20, `${turns} turns`)
  t.equal(answers[0]?.split('\x1e')[0], '42/a,["x"]')
})

// RV-55
t.test('a poll that its server ends without a body, as python-engineio does, is a goodbye and no fault', async t => {
  const upstream = await startRawUpstream(t)
  const plain = (text: string) =>
    `HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Length: ${text.length}\r\n\r\n${text}`
  const ended = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'
  let endPoll = () => {}
  let polls = 0
  upstream.respond(({ method, target, body }) => {
    if (!target.includes('sid=')) {
      return plain('0{"sid":"abc","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}')
    }
    if (method === 'POST') {
      if (body === '1') endPoll()
      return plain('OK')
    }
    if (polls++ === 0) return plain('40{"sid":"s"}')
    return socket => {
      endPoll = () => socket.write(ended)
    }
  })
  const gateway = await startGateway(t, {
    postgres,
    config: routesTo(upstream.url, [{ path: '/socket.io/*', socketio: { namespaces: { '/': {} } } }])
  })
  const { ask, poll } = engineClients(gateway)
  const session = await poll()
  t.equal((await session.post(`40${JSON.stringify({ token: await gateway.tokenFor() })}`)).status, 200)
  await session.get()
  t.match(session.text, /^40/)
  const pending = ask(`EIO=4&transport=polling&sid=${session.sid}`)
  await until(() => polls === 2, 'polled')
  t.equal((await session.post('1')).status, 200)
  const answer = await pending
  t.same([answer.status, await answer.text()], [200, ''])
  t.notMatch(gateway.logText(), /"level":[456]0/)
  t.equal((await session.post('3')).status, 400, 'the session is over')
})
