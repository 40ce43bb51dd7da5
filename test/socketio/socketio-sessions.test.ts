// Sessions end with their accesses, their clients and the process, and what they leave behind is bounded.
import t from 'tap'
import { createOwners } from '../../gateway/socketio/polling/owners.ts'
import { createPollingRequests } from '../../gateway/socketio/polling/polling-requests.ts'
import { createProbes } from '../../gateway/socketio/polling/probes.ts'
import { createMemoryRecoveryIds } from '../../gateway/socketio/recovery-ids.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { startRawUpstream } from '../support/raw-upstream.ts'
import { targetAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'
import { until } from '../support/until.ts'

t.test('a namespace ends alone with its access, and the session with its last one', async t => {
  const { open, revoke } = holdSessions(t)
  const { session, told } = await open('/a', '/b')
  revoke('/a')
  await until(() => told.length > 1)
  t.same(told, ['up 41/a,', '41/a,'])
  t.equal(session.isOver, false)
  revoke('/b')
  await until(() => session.isOver)
  t.same(told.slice(2).toSorted(), ['41/b,', 'close 4401', 'over', 'up 41/b,'])
  t.equal(session.isOver, true)
})

t.test('sessions end with the process, whichever of its parts ends first', async t => {
  for (const end of ['sessions', 'streams'] as const) {
    const { [end]: part, open } = holdSessions(t)
    const { session, told } = await open('/a')
    part.close()
    t.equal(session.isOver, true, end)
    t.ok(told.includes('close 1001'), end)
  }
  const { streams, open } = holdSessions(t)
  const [one, both] = [await open('/a'), await open('/a', '/b')]
  await streams.drain(0)
  // RW-75: a stock client that has received a DISCONNECT does not connect again.
  t.same(one.told.toSorted(), ['close 1012', 'over', 'up 41/a,'])
  t.same(both.told.toSorted(), ['close 1012', 'over', 'up 41/a,', 'up 41/b,'])
})

t.test('a session that is no longer polled ends', async t => {
  const { clock, sessions, hold } = holdSessions(t)
  const { session } = hold()
  clock.now += 1000
  sessions.sweep()
  t.equal(session.isOver, false)
  clock.now += 1
  sessions.sweep()
  t.equal(session.isOver, true)
})

t.test('a flood of sessions that prove nothing ends without a search for each of them', t => {
  // RW-73
  const { clock, sessions, hold } = holdSessions(t)
  const flood = Array.from({ length: 200 }, (_, i) => hold({ ipKey: `192.0.2.${i}` }, `sid-${i}`).session)
  let visited = 0
  t.capture(Map.prototype, 'values', function (this: Map<unknown, unknown>) {
    visited += this.size
    return Array.from(this, ([, value]) => value)[Symbol.iterator]()
  })
  clock.now += 10_000
  sessions.sweep()
  t.ok(flood.every(({ isOver }) => isOver))
  t.ok(visited < 2000, `${visited}`)
  t.end()
})

t.test('a poll that its upstream answers with what is no payload is refused, and the session is over', async t => {
  const { hold, refused } = holdSessions(t)
  const raw = await startRawUpstream(t)
  raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx')
  const { session, ask } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
  ask()
  await until(() => refused.length > 0)
  t.match(refused, [{ code: 'GW_BAD_UPSTREAM_RESPONSE', reason: 'upstream-malformed-payload' }])
  t.equal(session.isOver, true)
})

t.test('a handshake goes to the next target while one cannot be reached, and tells of the last one', async t => {
  const raw = await startRawUpstream(t)
  const opening = { sid: 'sid-1', upgrades: ['websocket'], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1e6 }
  const body = `0${JSON.stringify(opening)}`
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const answers: string[] = []
  const { forwarding, sessions, source } = holdSessions(t)
  const headStart = () => 'GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nhost: x\r\n'
  const responseContext = () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x')
  const owners = createOwners(undefined, sessions, createProbes())
  const requests = createPollingRequests({ ...forwarding, upstreams, headStart, responseContext }, sessions, owners)
  const ask = (...ports: number[]) => {
    const exchange = exchangeOf({ target: '/socket.io/?EIO=4&transport=polling' })
    Object.assign(exchange.response, { whole: (_: object, text: string) => answers.push(text) })
    const upstream = upstreamAt(...ports)
    return requests.onRequest(exchange, { ...source.route, upstream }, upstream)
  }
  await ask(1, raw.port)
  t.same(answers, [body])
  await t.rejects(Promise.resolve(ask(1)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  await t.rejects(Promise.resolve(ask(1, 2)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  raw.respond(() => 'HTTP/1.1 2x0 OK\r\n\r\n')
  await t.rejects(Promise.resolve(ask(raw.port, 1)), { code: 'GW_BAD_UPSTREAM_RESPONSE' })
})

t.test('a WebSocket is closed with the reason of an ended access, and without one for a violation', async t => {
  const ends: object[] = []
  const relay = { end: (ending: object) => ends.push(ending) }
  const { carrier } = createWebSocketTransport({ session: {}, relay: () => relay } as never)
  for (const code of [1001, 1008, 4401]) carrier.close(code)
  t.same(ends, [
    { code: 1001, reason: '' },
    { code: 1008, reason: '' },
    { code: 4401, reason: 'token no longer valid' }
  ])
})

t.test('recovery ids are kept to a bound, the oldest leaves first', async t => {
  const ids = createMemoryRecoveryIds(() => 0, 2)
  const owner = 'maria'
  for (const id of ['one', 'two', 'one', 'three']) await ids.bind(id, owner, 1000)
  t.same(await Promise.all(['one', 'two', 'three'].map(ids.ownerOf)), [owner, undefined, owner])
})
