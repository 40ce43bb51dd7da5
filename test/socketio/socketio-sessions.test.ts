// Sessions of Socket.IO: what is read and told, how they end, and what they leave behind is bounded.
import t from 'tap'
import { BadRequest, RequestTimeout, Unavailable } from '../../gateway/errors.ts'
import type { Identity } from '../../gateway/identity.ts'
import { endingAfter } from '../../gateway/socketio/engine-session.ts'
import { createGateState, newNamespace } from '../../gateway/socketio/gate/gate-state.ts'
import { createPacketGate } from '../../gateway/socketio/gate/packet-gate.ts'
import { createOwners } from '../../gateway/socketio/polling/owners.ts'
import { createPollingRequests } from '../../gateway/socketio/polling/requests.ts'
import { readEngineQuery } from '../../gateway/socketio/protocol/engineio-handshake.ts'
import { readSocketIoPacket } from '../../gateway/socketio/protocol/packets.ts'
import { createRecoveryIds } from '../../gateway/socketio/recovery-ids.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { createUpstreams } from '../../gateway/upstream/upstreams.ts'
import { createHolder, heldBytes, MOST_HELD_BYTES, TEXT_BYTES } from '../../gateway/values/held-memory.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { collectGarbage } from '../support/garbage.ts'
import { measureWork } from '../support/own-time.ts'
import { OK, startRawUpstream } from '../support/raw-upstream.ts'
import { person, routeAt, targetAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'
import { until } from '../support/until.ts'

t.test('a namespace ends alone with its access, and the session with its last one', async t => {
  const { open, revoke } = holdSessions(t)
  const { engineSession, told } = await open('/a', '/b')
  revoke('/a')
  await until(() => told.length > 1)
  t.same(told, ['up 41/a,', '41/a,'])
  t.equal(engineSession.isOver, false)
  revoke('/b')
  await until(() => engineSession.isOver)
  t.same(told.slice(2).toSorted(), ['41/b,', 'close 4401', 'over', 'up 41/b,'])
  t.equal(engineSession.isOver, true)
})

t.test('sessions end with the process, whichever of its parts ends first', async t => {
  for (const end of ['engineSessions', 'streams'] as const) {
    const { [end]: part, open } = holdSessions(t)
    const { engineSession, told } = await open('/a')
    part.close()
    t.equal(engineSession.isOver, true, end)
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
  const { clock, engineSessions, hold } = holdSessions(t)
  const { engineSession } = hold()
  clock.now += 1000
  engineSessions.sweep()
  t.equal(engineSession.isOver, false)
  clock.now += 1
  engineSessions.sweep()
  t.equal(engineSession.isOver, true)
})

t.test('who leaves a namespace while another one is about to open has ten seconds for that', t => {
  for (const way of ['client', 'upstream', 'access']) {
    const { clock, engineSessions, open } = holdSessions(t)
    const { engineSession } = open('/a')
    clock.now += 60_000
    engineSession.gate.fromClient({ type: '4', text: '40/b,{"token":"token-/b"}' })
    if (way === 'client') engineSession.gate.fromClient({ type: '4', text: '41/a,' })
    else if (way === 'upstream') engineSession.gate.fromUpstream({ type: '4', text: '41/a,' })
    else engineSession.gate.end('/a')
    clock.now += 900
    engineSessions.sweep()
    t.equal(engineSession.isOver, false, way)
    clock.now += 10_000
    engineSessions.sweep()
    t.equal(engineSession.isOver, true, 'and no longer')
  }
  t.end()
})

t.test('a flood of sessions that prove nothing ends without a search for each of them', t => {
  // RW-73
  const { clock, engineSessions, hold } = holdSessions(t)
  const flood = Array.from({ length: 200 }, (_, i) => hold({ ipKey: `192.0.2.${i}` }, `sid-${i}`).engineSession)
  let visited = 0
  t.capture(Map.prototype, 'values', function (this: Map<unknown, unknown>) {
    visited += this.size
    return Array.from(this, ([, value]) => value)[Symbol.iterator]()
  })
  clock.now += 10_000
  engineSessions.sweep()
  t.ok(flood.every(({ isOver }) => isOver))
  t.ok(visited < 2000, `${visited}`)
  t.end()
})

t.test('a poll that its upstream answers with what is no payload is refused, and the session is over', async t => {
  const { hold, refused } = holdSessions(t)
  const raw = await startRawUpstream(t)
  raw.respond(() => 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx')
  const { engineSession, ask } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
  ask()
  await until(() => refused.length > 0)
  t.match(refused, [{ code: 'GW_BAD_UPSTREAM_RESPONSE', reason: 'upstream-malformed-payload' }])
  t.equal(engineSession.isOver, true)
})

t.test('what is no payload holds nothing up, however much of it there is', async t => {
  const { hold, refused } = holdSessions(t)
  const raw = await startRawUpstream(t)
  const workFor = async (filling: string) => {
    const body = Buffer.alloc(15_900_000, filling)
    raw.respond(() => Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`), body]))
    const workMs = measureWork()
    hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) }, filling).ask()
    await until(() => refused.length > 0)
    t.match(refused.splice(0), [{ reason: 'upstream-malformed-payload' }])
    return workMs()
  }
  const [oneMs, manyMs] = [await workFor('x'), await workFor('\x1e')]
  t.ok(manyMs < 3 * oneMs, `${manyMs} ms for many packets, ${oneMs} ms for one of the same length`)
})

t.test('a handshake goes to the next target while one cannot be reached, and tells of the last one', async t => {
  const raw = await startRawUpstream(t)
  const opening = { sid: 'sid-1', upgrades: ['websocket'], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1e6 }
  const body = `0${JSON.stringify(opening)}`
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const upstreams = createUpstreams()
  t.teardown(upstreams.close)
  const answers: string[] = []
  const { forwarding, engineSessions, source } = holdSessions(t)
  const headStart = () => 'GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nhost: x\r\n'
  const responseContext = () => createResponseContext({ has: () => false })(source.route, source.upstream, 'x')
  const owners = createOwners(undefined, engineSessions)
  const requests = createPollingRequests(
    { ...forwarding, upstreams, headStart, responseContext },
    engineSessions,
    owners
  )
  const ask = (...ports: number[]) => {
    const exchange = exchangeOf({ target: '/socket.io/?EIO=4&transport=polling' })
    Object.assign(exchange.response, { whole: (_: object, text: string) => answers.push(text) })
    const upstream = upstreamAt(...ports)
    return requests.onRequest(exchange, { ...source.route, upstream }, upstream)
  }
  await ask(1, raw.port)
  t.same(answers, [body])
  const more = `${body}\x1e42["of no namespace that was entered"]`.replace('sid-1', 'sid-2')
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${more.length}\r\n\r\n${more}`)
  await ask(raw.port)
  t.same(answers.slice(1), [body.replace('sid-1', 'sid-2')])
  await t.rejects(Promise.resolve(ask(1)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  await t.rejects(Promise.resolve(ask(1, 2)), { code: 'GW_UPSTREAM_UNREACHABLE' })
  raw.respond(() => 'HTTP/1.1 2x0 OK\r\n\r\n')
  await t.rejects(Promise.resolve(ask(raw.port, 1)), { code: 'GW_BAD_UPSTREAM_RESPONSE' })
  const malformed = { code: 'GW_BAD_UPSTREAM_RESPONSE', reason: 'upstream-malformed-payload' }
  for (const head of ['200 OK', '301 Moved Permanently\r\nLocation: /']) {
    raw.respond(() => `HTTP/1.1 ${head}\r\nContent-Length: 6\r\n\r\n<html>`)
    await t.rejects(Promise.resolve(ask(raw.port)), malformed, `a page instead: ${head}`)
  }
})

t.test('a WebSocket is closed with the reason of an ended access, and without one for a violation', async t => {
  const ends: object[] = []
  const relay = { end: (ending: object) => ends.push(ending) }
  const { carrier } = createWebSocketTransport({ engineSession: {}, relay: () => relay } as never)
  for (const code of [1001, 1008, 4401]) carrier.close(code)
  t.same(ends, [
    { code: 1001, reason: '' },
    { code: 1008, reason: '' },
    { code: 4401, reason: 'token no longer valid' }
  ])
})

t.test('a recovery id is taken only from the one to whom it was given, as it was given', t => {
  const ids = createRecoveryIds(['new', 'old'])
  const given = ids.sign('pid.1', 'maria')
  t.equal(ids.sign('pid.1', 'maria'), given, 'the client compares it with the one that it had')
  t.equal(ids.read(given, 'maria'), 'pid.1')
  t.equal(createRecoveryIds(['other', 'new']).read(given, 'maria'), 'pid.1', 'also after the secret was rotated')
  const last = given.at(-2) === 'A' ? 'B' : 'A'
  for (const wrong of ['', 'pid.1', `x${given}`, `${given}x`, given.slice(0, -2) + last + given.at(-1)])
    t.equal(ids.read(wrong, 'maria'), undefined, wrong)
  t.equal(ids.read(given, 'ana'), undefined)
  t.equal(createRecoveryIds(['other']).read(given, 'maria'), undefined)
  t.end()
})

t.test('a WebSocket is tried for a session once at a time, and only while requests carry it', async t => {
  const { hold, open } = holdSessions(t)
  const { engineSession } = hold()
  t.same([engineSession.probe(), engineSession.probe()], [true, false])
  engineSession.abandonProbe()
  t.equal(engineSession.probe(), true)
  engineSession.end(1001)
  engineSession.abandonProbe()
  t.same([engineSession.phase, engineSession.probe()], ['over', false])
  t.equal((await open('/a')).engineSession.probe(), false)
})

t.test('bytes count until a namespace is open, also in the session that continues another', async t => {
  const { clock, engineSessions, source, hold, enter, revoke } = holdSessions(t)
  const { engineSession } = hold()
  t.equal(engineSession.takeBytes(60_000), true)
  t.equal(engineSession.bytesLeft(), 40_000)
  clock.now += 3000
  const next = engineSessions.create(source)
  next.takeBytes(6)
  next.adopt(engineSession.handOver())
  t.equal(engineSession.phase, 'over')
  t.same([next.bytesLeft(), next.proveUntil - clock.now], [39_994, 7000])
  t.equal(next.takeBytes(50_000), false)

  const proved = hold({}, 'sid-2').engineSession
  await enter(proved, '/a')
  const last = engineSessions.create(source)
  last.adopt(proved.handOver())
  t.equal(last.bytesLeft(), Number.POSITIVE_INFINITY)
  t.same([...last.state.namespaces.keys()], ['/a'])
  revoke('/a')
  await until(() => last.isOver, 'what it has taken over ends with the token')
})

t.test('what is on its way to an ended namespace is also dropped by the session that continues another', async t => {
  const { engineSessions, source, hold, enter } = holdSessions(t)
  const { engineSession } = hold()
  await enter(engineSession, '/a')
  await enter(engineSession, '/b')
  engineSession.gate.end('/a')
  const next = engineSessions.create(source)
  next.adopt(engineSession.handOver())
  t.same(next.gate.fromClient({ type: '4', text: '42/a,["late"]' }), { verdict: 'drop' })
  const last = engineSessions.create(source)
  const { left: _left, ...before } = next.handOver()
  last.adopt(before)
  t.same([...last.state.namespaces.keys()], ['/b'], 'a process of the release before does not say')
})

t.test('what a client posts counts in bytes, however few characters they are', async t => {
  const { polling } = holdSessions(t).hold()
  polling.post('', '4é').catch(() => undefined)
  t.equal(polling.carrier.bytes(), 3)
})

const settled = () => new Promise(resolve => setImmediate(resolve))

t.test('an attachment goes the way of its event, and only so much waits for a CONNECT to be confirmed', async t => {
  const socketio = { maxMessageBytes: 40, messagesPerSecond: 0, namespaces: [] }
  const from = (phase: 'asked' | 'open', ...texts: string[]) => {
    const route = routeAt('/socket.io/', upstreamAt(1), { socketio })
    const state = createGateState()
    state.namespaces.set('/a', { ...newNamespace({ user: {} } as never, route), phase })
    const gate = createPacketGate({ state, route } as never)
    return texts.map(text => gate.fromUpstream({ type: text.charAt(0) as '4' | 'b', text }))
  }
  const [pass, drop] = [{ verdict: 'pass' }, { verdict: 'drop' }]
  t.same(from('open', '451-/a,["x"]', 'bAA=='), [pass, pass])
  t.same(from('open', '451-/b,["x"]', 'bAA=='), [drop, drop])
  const event = `42/a,["${'x'.repeat(6_000_000)}"]`
  const tooMuch = { verdict: 'violation', reason: 'upstream-too-much-before-connect' }
  t.same(from('asked', event, event, event), [drop, drop, tooMuch])
})

/** So much is held elsewhere that nothing large has room. */
const fillUp = () => {
  const others = createHolder()
  const bytes = MOST_HELD_BYTES + 1_000_000 - heldBytes()
  others.count(bytes)
  return () => others.count(-bytes)
}

t.test('what waits for polls holds no more than its share of memory, until nobody polls any more', async t => {
  const raw = await startRawUpstream(t)
  let size = 100_000
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n42/a,["${'x'.repeat(size - 9)}"]`)
  const { hold, enter, refused, clock, engineSessions } = holdSessions(t)
  const at = { upstream: upstreamAt(raw.port), target: targetAt(raw.port) }
  const before = heldBytes()
  const empty = fillUp()
  const large = hold(at, 'large')
  large.ask()
  await until(() => refused.length > 0)
  t.match(refused, [{ reason: 'upstream-answer-too-large' }])
  t.equal(large.engineSession.isOver, true)
  size = 60_000
  const small = hold(at, 'small')
  enter(small.engineSession, '/a')
  small.ask()
  await until(() => small.answers.length > 0)
  t.equal(small.answers[0]?.length, size)
  empty()
  t.equal(heldBytes(), before)

  size = 3_000_000
  const slow = hold(at, 'slow')
  enter(slow.engineSession, '/a')
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n${'x'.repeat(1_000_000)}`)
  slow.ask()
  await until(() => heldBytes() === before + 1_000_000, 'what has arrived of an answer counts')
  slow.polling.abandonPoll()
  t.equal(heldBytes(), before)

  const own = hold(at, 'own')
  own.polling.carrier.toClient(['4'.repeat(1000)])
  t.equal(heldBytes(), before + 1000 + TEXT_BYTES)
  own.engineSession.leave()
  clock.now += 6000
  engineSessions.sweep()
  t.equal(heldBytes(), before)
  own.polling.carrier.toClient(['4'])
  t.equal(heldBytes(), before)
})

t.test('packets of a few characters that wait for a poll count with all the memory that they take', async t => {
  const raw = await startRawUpstream(t)
  const body = Array.from({ length: 100_000 }, () => '6a').join('\x1e')
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  const { hold, refused } = holdSessions(t)
  const [at, before] = [{ upstream: upstreamAt(raw.port), target: targetAt(raw.port) }, heldBytes()]
  const { ask, answers, polling } = hold(at, 'slow')
  ask()
  polling.carrier.toClient(['6'])
  await until(() => answers.length > 0)
  t.same(answers, ['6'], 'the poll is answered before')
  await until(() => polling.hasMail)
  t.ok(heldBytes() - before > 3_000_000, `${heldBytes() - before}`)
  polling.forget()
  const others = createHolder()
  others.count(MOST_HELD_BYTES - before - 1_000_000)
  hold(at, 'large').ask()
  await until(() => refused.length > 0)
  others.count(-MOST_HELD_BYTES + before + 1_000_000)
  t.match(refused, [{ reason: 'upstream-answer-too-large' }], 'also while they are checked')
  t.equal(heldBytes(), before)
})

t.test('what waits for a CONNECT to be confirmed holds no more memory than there is for all of it', t => {
  const { engineSessions, source } = holdSessions(t)
  const before = heldBytes()
  const ask = () => {
    const engineSession = engineSessions.create(source)
    engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
    return engineSession
  }
  const send = ({ gate }: ReturnType<typeof ask>, text: string) => gate.fromUpstream({ type: '4', text })
  const event = `42/a,["${'x'.repeat(60_000)}"]`
  const tooMuch = { verdict: 'violation', reason: 'upstream-too-much-before-connect' }
  const empty = fillUp()
  const large = ask()
  t.match([send(large, event), send(large, event)], [{ verdict: 'drop' }, tooMuch])
  large.leave()
  empty()
  t.equal(heldBytes(), before)
  for (const answer of ['40/a,{"sid":"s"}', '44/a,{"message":"no"}']) {
    const engineSession = ask()
    send(engineSession, event)
    t.equal(heldBytes(), before + event.length + TEXT_BYTES)
    send(engineSession, answer)
    t.equal(heldBytes(), before, answer)
  }
  const [moved, next] = [ask(), engineSessions.create(source)]
  send(moved, event)
  next.adopt(moved.handOver())
  t.equal(heldBytes(), before + event.length + TEXT_BYTES)
  next.end(1001)
  t.equal(heldBytes(), before)
  t.end()
})

t.test('refusals that wait for an attachment count with all that is held, and move with their session', t => {
  const { engineSessions, source, hold, enter } = holdSessions(t)
  const before = heldBytes()
  const { engineSession } = hold()
  enter(engineSession, '/b')
  engineSession.gate.fromUpstream({ type: '4', text: '451-/b,["x"]' })
  const say = ({ gate }: typeof engineSession) => gate.fromClient({ type: '4', text: '42/b,7["closed"]' })
  t.same(say(engineSession), { verdict: 'drop' })
  const waiting = heldBytes() - before
  t.ok(waiting > 0)
  const next = engineSessions.create(source)
  next.adopt(JSON.parse(JSON.stringify(engineSession.handOver())))
  t.equal(heldBytes(), before + waiting)
  const empty = fillUp()
  let kept = 1
  while (kept < 20_000 && say(next).verdict === 'drop') kept++
  t.equal(kept, Math.floor(65_536 / (waiting - TEXT_BYTES)), 'no more than is small while all together hold too much')
  t.same(say(next), { verdict: 'violation', reason: 'no-room' })
  empty()
  const { released } = next.gate.fromUpstream({ type: 'b', text: 'bAA==' }) as { released: readonly string[] }
  t.equal(released.length, kept + 2)
  t.equal(heldBytes(), before)
  t.end()
})

t.test('one person who holds much leaves room for others, as do those who have not proven who they are', t => {
  const { engineSessions, source } = holdSessions(t)
  const before = heldBytes()
  const event = `42/a,["${'x'.repeat(100_000)}"]`
  for (const [userId, verdict] of [
    [person().id, 'violation'],
    [person().id + 1, 'drop'],
    [undefined, 'drop']
  ] as const) {
    const greedy = createHolder()
    greedy.count(MOST_HELD_BYTES / 2 + 1)
    if (userId !== undefined) greedy.belongsTo(userId)
    else t.equal(createHolder().isTooMuch(100_000), true, 'all who have proven nothing count as one')
    const engineSession = engineSessions.create(source)
    engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
    t.match(engineSession.gate.fromUpstream({ type: '4', text: event }), { verdict })
    engineSession.leave()
    greedy.count(-MOST_HELD_BYTES / 2 - 1)
  }
  t.equal(heldBytes(), before)
  t.end()
})

t.test('bodies that are posted but never completed hold no more memory than there is for all of it', async t => {
  const { engineSessions, forwarding, source, hold } = holdSessions(t)
  hold()
  const requests = createPollingRequests(forwarding, engineSessions, createOwners(undefined, engineSessions))
  const before = heldBytes()
  const post = () => {
    const fields = ['Host', 'gw.example', 'Content-Length', '90000']
    const exchange = exchangeOf({ method: 'POST', target: '/socket.io/?EIO=4&transport=polling&sid=sid', fields })
    exchange.request.read = consumer => {
      consumer.onUpload(Buffer.alloc(80_000))
      t.equal(heldBytes() > before, true)
    }
    return { exchange, posted: Promise.resolve(requests.onRequest(exchange, source.route, source.upstream)) }
  }
  const { exchange, posted } = post()
  await settled()
  t.equal(heldBytes(), before + 80_000)
  exchange.underway?.abort()
  await t.rejects(posted, { code: 'GW_BAD_REQUEST', reason: 'client-gone' })
  t.ok(heldBytes() < before + 100)
  hold()
  const empty = fillUp()
  await t.rejects(post().posted, { code: 'GW_UNAVAILABLE', reason: 'no-room' })
  empty()
  t.ok(heldBytes() < before + 100)
})

const usedBytes = async () => {
  collectGarbage()
  await settled()
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

t.test('an event that waits for its CONNECT to be confirmed does not hold all that arrived with it', async t => {
  const raw = await startRawUpstream(t)
  const event = '42/a,["für alle, die warten"]'
  const payload = Buffer.from(`${event}\x1e42/gone,["${'x'.repeat(8_000_000)}"]`).toString('latin1')
  raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${payload.length}\r\n\r\n${payload}`)
  const { hold } = holdSessions(t)
  const receive = async (sid: string) => {
    const { engineSession, answers, ask } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) }, sid)
    engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
    ask()
    await until(() => answers.length > 0)
    return engineSession
  }
  const first = await receive('sid-0')
  const before = await usedBytes()
  for (let i = 1; i < 8; i++) await receive(`sid-${i}`)
  const grown = (await usedBytes()) - before
  t.ok(grown < 25_000_000, `${grown} bytes more`)
  const confirmed = first.gate.fromUpstream({ type: '4', text: '40/a,{"sid":"s"}' })
  t.match(confirmed, { verdict: 'pass', released: [event] })
})

t.test('an attachment that is held is not taken for the end of its namespace', t => {
  const { engineSessions, source } = holdSessions(t)
  const { gate, state } = engineSessions.create(source)
  gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
  // 0xd7 in Base64 begins with the type of a DISCONNECT.
  const held = ['451-/a,["x",{"_placeholder":true,"num":0}]', 'b1w==']
  for (const text of held) gate.fromUpstream({ type: text.charAt(0) as '4' | 'b', text })
  t.match(gate.fromUpstream({ type: '4', text: '40/a,{"sid":"s"}' }), { verdict: 'pass', released: held })
  t.same([...state.namespaces.keys()], ['/a'])
  t.end()
})

t.test('the session that continues another goes by the access and the login as last known', async t => {
  const { engineSessions, source, hold, enter, streams, clock } = holdSessions(t)
  const { engineSession } = hold()
  enter(engineSession, '/a')
  const [stream] = [...engineSession.state.namespaces.values()]
  const user = { ...person(), profiles: ['Agente'] }
  const renewed = { ...(stream?.identity as Identity), user, expiresAt: clock.now / 1000 + 3600 }
  stream && Object.assign(stream, { current: renewed })
  const next = engineSessions.create(source)
  next.adopt(JSON.parse(JSON.stringify(engineSession.handOver())))
  t.same(next.state.namespaces.get('/a')?.right.user, user)
  clock.now += 601_000
  t.equal(streams.count(), 1)
})

t.test('a client whose session moves to where its person has too many streams connects again', t => {
  const { source, hold, enter, open, streams } = holdSessions(t)
  const { engineSession } = hold()
  enter(engineSession, '/a')
  const other = engineSession.handOver()
  while (typeof streams.admit({ upstream: source.upstream, userId: person().id, ip: undefined }) === 'function');
  const { engineSession: next, told } = open()
  next.adopt(other)
  t.same(told, ['up 41/a,', 'over', 'close 1001'])
  t.end()
})

t.test('a session whose server says goodbye to a poll is over when its client has heard that', async t => {
  for (const body of ['1', '1\x1e5']) {
    const raw = await startRawUpstream(t)
    raw.respond(() => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    const { hold, enter } = holdSessions(t)
    const { engineSession, ask, answers } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
    enter(engineSession, '/a')
    ask()
    await until(() => answers.length > 0)
    t.same([answers, engineSession.isOver], [['1'], true])
  }
})

t.test('a poll gets what the gateway itself says, or is given up with its client', async t => {
  const { hold, refused } = holdSessions(t)
  const { ask, polling, answers, engineSession } = hold()
  ask()
  polling.carrier.toClient(['42["x"]'])
  await settled()
  t.same(answers, ['42["x"]'])
  ask()
  polling.abandonPoll()
  await settled()
  t.equal(engineSession.isOver, true)
  t.match(refused, [{ reason: 'client-gone' }])
})

t.test('a client is not read while its session moves to its WebSocket, and then in order', async t => {
  const told: string[] = []
  const relay = {
    hold: (side: string, isHeld: boolean) => told.push(`${isHeld ? 'hold' : 'read'} ${side}`),
    send: (to: string, _: number, payload: Buffer) => told.push(`${payload} to ${to}`)
  }
  const engineSession = { takeBytes: () => true, isOver: false, gate: { fromClient: () => ({ verdict: 'pass' }) } }
  const onUpgrade = async () => () => told.push('taken over')
  const { onMessage } = createWebSocketTransport({ engineSession, relay: () => relay, onUpgrade } as never)
  onMessage('client', true, Buffer.from('5'))
  onMessage('client', true, Buffer.from('42["x"]'))
  t.same(told, ['hold client'])
  await settled()
  t.same(told, ['hold client', '5 to upstream', 'taken over', 'read client', '42["x"] to upstream'])
})

t.test('a stock client connects again, unless its access has ended or it broke a rule', async t => {
  // RW-75, RW-90
  const [again, never] = ['1', '41/a,']
  for (const [reason, told] of [
    ['session-owner', again],
    ['body-too-slow', again],
    ['client-gone', again],
    ['connected-already', again],
    ['overlapping-posts', again],
    ['overlapping-polls', again],
    ['malformed-payload', never],
    ['upstream-malformed-packet', again],
    ['malformed-packet', never]
  ] as const) {
    const { enter, hold } = holdSessions(t)
    const { engineSession, ask, answers } = hold()
    await enter(engineSession, '/a')
    ask()
    if (reason.endsWith('packet')) engineSession.violate(reason)
    else if (reason === 'session-owner') engineSession.end(endingAfter(new Unavailable({ reason }), 1008))
    else if (reason === 'body-too-slow') engineSession.end(endingAfter(new RequestTimeout({ reason }), 1008))
    else engineSession.end(endingAfter(new BadRequest({ reason }), 1008))
    await until(() => answers.length > 0)
    t.same([answers, engineSession.isOver], [[told], true], reason)
  }
})

t.test('a stock client connects again if its upstream has not confirmed its CONNECT within ten seconds', async t => {
  const { clock, engineSessions, hold } = holdSessions(t)
  const { engineSession, ask, answers } = hold({}, 'sid')
  engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
  ask()
  clock.now += 10_000
  engineSessions.sweep()
  await until(() => answers.length > 0)
  t.same([answers, engineSession.isOver], [['1'], true])
})

t.test('a stock client whose CONNECT cannot be decided while the database is away connects again', async t => {
  const { forwarding, open, hold } = holdSessions(t)
  const identify = () => {
    throw new Unavailable({ reason: 'revocations-too-old' })
  }
  Object.assign(forwarding, { identify })
  const connect = '40/a,{"token":"token-/a"}'
  const { engineSession, told } = open()
  const { onMessage } = createWebSocketTransport({ engineSession, relay: () => undefined, onUpgrade: undefined })
  onMessage('client', true, Buffer.from(connect))
  t.same([told, engineSession.isOver], [['over', 'close 1001'], true])
  await t.rejects(hold().polling.post('', connect), { code: 'GW_UNAVAILABLE', reason: 'connect-undecided' })
})

t.test('a stock client that asks for a namespace while the gateway stops connects again', async t => {
  const { open, streams } = holdSessions(t)
  const { engineSession, told } = open()
  await streams.drain(0)
  const asked = engineSession.gate.fromClient({ type: '4', text: '40/a,{"token":"token-/a"}' })
  t.equal(asked.verdict, 'pass', 'no CONNECT_ERROR, after which it would give up')
  await until(() => engineSession.isOver)
  t.same(told.toSorted(), ['close 1012', 'over', 'up 41/a,'])
})

t.test('a packet that cannot be read is the fault of the side that sent it', async t => {
  for (const [side, text, reason] of [
    ['upstream', 'x', 'upstream-malformed-packet'],
    ['client', 'x', 'malformed-packet'],
    ['client', '0{}', 'malformed-packet']
  ] as const) {
    const violations: string[] = []
    const engineSession = { phase: 'websocket', violate: (broken: string) => violations.push(broken) }
    createWebSocketTransport({ engineSession, relay: () => undefined } as never).onMessage(
      side,
      true,
      Buffer.from(text)
    )
    t.same(violations, [reason], `${text} from the ${side}`)
  }
})

t.test('a client that never polls cannot have more than a megabyte of refusals kept for it', async t => {
  // RW-72
  const { enter, hold } = holdSessions(t)
  const { polling, engineSession } = hold()
  await enter(engineSession, '/b')
  const body = Array.from({ length: 1000 }, () => '42/b,7["closed"]').join('\x1e')
  let posts = 0
  const post = async () => {
    for (; posts < 100; posts++) t.equal((await polling.post('', body)).text, 'ok')
  }
  await t.rejects(post(), { code: 'GW_BAD_REQUEST', reason: 'answers-unread' })
  t.ok(posts >= 5 && posts < 10, `${posts}`)
})

t.test('neither the refusal of an event nor the name of a namespace holds the packet that it comes from', async t => {
  const { enter, hold } = holdSessions(t)
  const { polling, engineSession } = hold()
  enter(engineSession, '/b')
  const bulk = 'x'.repeat(990_000)
  const name = '/a-name-of-more-than-12-characters'
  const names: (string | undefined)[] = []
  const before = await usedBytes()
  for (let i = 0; i < 25; i++) {
    const event = Buffer.from(`42/b,${1_234_567_890_123 + i}["closed","${bulk}"]`).toString()
    t.equal((await polling.post('', event)).text, 'ok')
    const connect = Buffer.from(`0${name}${i},{"token":"token-a","more":"${bulk}"}`).toString()
    names.push(readSocketIoPacket(connect)?.namespace)
  }
  const grown = (await usedBytes()) - before
  t.ok(grown < 10_000_000, `${grown} bytes more`)
  t.equal(names.at(-1), `${name}24`)
})

t.test('the id of the session to which a request belongs does not hold the head that it comes in', async t => {
  const { engineSessions, source } = holdSessions(t)
  const instances = { id: 'c0ffee00', ask: async () => undefined, answer: () => undefined }
  const owners = createOwners(instances, engineSessions)
  const bulk = 'x'.repeat(100_000)
  const kept: { sid: string }[] = []
  const before = await usedBytes()
  for (let i = 0; i < 200; i++) {
    const query = Buffer.from(`?EIO=4&transport=polling&sid=a-sid-of-some-length-${i}.c0ffee00&x=${bulk}`).toString()
    kept.push(owners.read(exchangeOf(), source.route, readEngineQuery(query)?.sid ?? ''))
  }
  const grown = (await usedBytes()) - before
  t.ok(grown < 10_000_000, `${grown} bytes more`)
  t.equal(kept.at(-1)?.sid, 'a-sid-of-some-length-199')
})

t.test('what the upstream has answered to a poll is handed over with the session', async t => {
  // RW-79
  const raw = await startRawUpstream(t)
  raw.respond(() => undefined)
  const { enter, hold } = holdSessions(t)
  const { engineSession, polling, ask, answers } = hold({ upstream: upstreamAt(raw.port), target: targetAt(raw.port) })
  await enter(engineSession, '/a')
  ask()
  const first = await raw.request()
  polling.carrier.toClient(['41/b,'])
  await until(() => answers.length === 1, 'the gateway itself answers the poll')
  const last = polling.last()
  // A stock server closes the transport of polls that the WebSocket replaces.
  first.socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n42/a,["old"]\x1e1`)
  await last
  t.same([answers, polling.takeAll()], [['41/b,'], ['42/a,["old"]']])
})

t.test('a client that does not read what its WebSocket answers is disconnected', t => {
  // RW-72
  const { source } = holdSessions(t)
  const violations: string[] = []
  const sent: string[] = []
  let unread = 3_000_000
  const relay = { send: (side: string) => sent.push(side), countUnread: () => unread }
  const engineSession = {
    source,
    state: createGateState(),
    phase: 'websocket',
    takeBytes: () => true,
    violate: (reason: string) => violations.push(reason),
    end: (code: number) => violations.push(`${code}`),
    gate: { fromClient: () => ({ verdict: 'answer', text: '43/b,7[]' }) }
  }
  const { onMessage } = createWebSocketTransport({ engineSession, relay: () => relay } as never)
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same([sent, violations], [['client'], []], 'as much as its upstream may have sent')
  unread++
  onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  t.same(violations, ['answers-unread'])
  const empty = fillUp()
  for (unread of [60_000, 100_000]) onMessage('client', true, Buffer.from('42/b,7["closed"]'))
  empty()
  t.same(violations, ['answers-unread', '1013'], 'nor while all together hold too much')
  t.end()
})

t.test('what the gateway itself posts goes where the client’s requests go: same host, scheme and cookies', async t => {
  // Without them, a backend that demands HTTPS redirects the DISCONNECT.
  const forwarded = [
    ['x-forwarded-for', '192.0.2.1'],
    ['x-forwarded-proto', 'https'],
    ['x-forwarded-host', 'gw.example'],
    ['x-forwarded-prefix', '/app']
  ] as const
  const raw = await startRawUpstream(t)
  for (const [preserveHost, expected, set] of [
    [true, 'chat.example:8443', []],
    [false, `127.0.0.1:${raw.port}`, [['cookie', 'lb=b; io=1']]]
  ] as const) {
    const { enter, hold } = holdSessions(t)
    const upstream = { ...upstreamAt(raw.port), preserveHost, requestHeaders: { set, remove: [] } }
    const { engineSession, polling } = hold({ upstream, target: targetAt(raw.port), host: 'chat.example:8443' })
    await enter(engineSession, '/a')
    raw.respond(({ method }) => (method === 'GET' ? undefined : OK))
    const lines = `${forwarded.map(([name, value]) => `${name}: ${value}\r\n`).join('')}cookie: lb=b; io=1\r\n`
    polling.get(`GET /socket.io/ HTTP/1.1\r\nhost: x\r\n${lines}\r\n`).catch(() => undefined)
    const before = raw.requests.length
    engineSession.end(4401)
    await until(() => raw.requests.length === before + 3, 'a poll, DISCONNECT and a close')
    const posts = raw.requests.slice(before).filter(({ method }) => method === 'POST')
    t.same(
      posts.map(({ body }) => body),
      ['41/a,', '1']
    )
    for (const { headers } of posts) {
      t.match(Object.fromEntries(headers), { host: expected, cookie: 'lb=b; io=1', ...Object.fromEntries(forwarded) })
      t.equal(headers.filter(([name]) => name === 'cookie').length, 1, 'once, also if a rule sets it')
    }
  }
})
