// A session goes from transport to transport in fixed steps, and its parts deliver and store what they hold.
import t from 'tap'
import { NOTHING_DUE } from '../../gateway/socketio/gate/gate-state.ts'
import { createUpstreamPackets } from '../../gateway/socketio/gate/upstream-packets.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { routeAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'

t.test('a WebSocket is tried for a session once at a time, and only while requests carry it', async t => {
  const { hold, open } = holdSessions(t)
  const { session } = hold()
  t.same([session.probe(), session.probe()], [true, false])
  session.abandonProbe()
  t.equal(session.probe(), true)
  session.end(1001)
  session.abandonProbe()
  t.same([session.phase, session.probe()], ['over', false])
  t.equal((await open('/a')).session.probe(), false)
})

t.test('bytes count until a namespace is open, also in the session that continues another', async t => {
  const { clock, sessions, source, hold, enter } = holdSessions(t)
  const { session } = hold()
  t.equal(session.takeBytes(60_000), true)
  t.equal(session.bytesLeft(), 40_000)
  clock.now += 3000
  const next = sessions.create(source)
  next.takeBytes(6)
  next.adopt(session.handOver())
  t.equal(session.phase, 'over')
  t.same([next.bytesLeft(), next.proveUntil - clock.now], [39_994, 7000])
  t.equal(next.takeBytes(50_000), false)

  const proved = hold({}, 'sid-2').session
  await enter(proved, '/a')
  const last = sessions.create(source)
  last.adopt(proved.handOver())
  t.equal(last.bytesLeft(), Number.POSITIVE_INFINITY)
  t.same([...last.state.namespaces.keys()], ['/a'])
})

const settled = () => new Promise(resolve => setImmediate(resolve))

t.test('an attachment goes the way of its event, and only so much waits for a CONNECT to be confirmed', async t => {
  const socketio = { maxMessageBytes: 40, messagesPerSecond: 0, namespaces: [] }
  const from = (phase: 'asked' | 'open', ...texts: string[]) => {
    const state = { namespaces: new Map([['/a', { phase, identity: {} }]]), due: { ...NOTHING_DUE } }
    const parts = { state, route: routeAt('/socket.io/', upstreamAt(1), { socketio }) }
    const take = createUpstreamPackets(parts as never, verdict => verdict)
    return texts.map(text => take({ type: text.charAt(0) as '4' | 'b', text }))
  }
  const [pass, drop] = [{ verdict: 'pass' }, { verdict: 'drop' }]
  t.same(from('open', '451-/a,["x"]', 'bAA=='), [pass, pass])
  t.same(from('open', '451-/b,["x"]', 'bAA=='), [drop, drop])
  const event = `42/a,["${'x'.repeat(6_000_000)}"]`
  const tooMuch = { verdict: 'violation', reason: 'upstream-too-much-before-connect' }
  t.same(from('asked', event, event, event), [drop, drop, tooMuch])
})

t.test('a poll gets what the gateway itself says, or is given up with its client', async t => {
  const { hold, refused } = holdSessions(t)
  const { ask, polling, answers, session } = hold()
  ask()
  polling.carrier.toClient(['42["x"]'])
  await settled()
  t.same(answers, ['42["x"]'])
  ask()
  polling.abandonPoll()
  await settled()
  t.equal(session.isOver, true)
  t.match(refused, [{ reason: 'client-gone' }])
})

t.test('a client is not read while its packet is checked, and a socket may end before it is joined', async t => {
  const told: string[] = []
  const relay = {
    hold: (side: string, isHeld: boolean) => told.push(`${isHeld ? 'hold' : 'read'} ${side}`),
    send: (to: string, _: number, payload: Buffer) => told.push(`${payload} to ${to}`)
  }
  const session = { takeBytes: () => true, isOver: false, gate: { fromClient: async () => ({ verdict: 'pass' }) } }
  createWebSocketTransport({ session, relay: () => relay } as never).onMessage('client', true, Buffer.from('42["x"]'))
  t.same(told, ['hold client'])
  await settled()
  t.same(told, ['hold client', '42["x"] to upstream', 'read client'])
  const unjoined = createWebSocketTransport({ session, relay: () => undefined } as never)
  t.doesNotThrow(() => unjoined.carrier.close(1008))
})
