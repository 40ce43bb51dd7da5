// A session's life has named phases with fixed steps between them, and its parts deliver and store what they hold.
import fc from 'fast-check'
import t from 'tap'
import { NOTHING_DUE } from '../../gateway/socketio/gate/gate-state.ts'
import { createUpstreamPackets } from '../../gateway/socketio/gate/upstream-packets.ts'
import {
  advance,
  begin,
  bytesLeft,
  continued,
  handed,
  type Life,
  provableFrom,
  proved,
  tookBytes
} from '../../gateway/socketio/life.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { routeAt, upstreamAt } from '../support/routes.ts'
import { holdSessions } from '../support/socketio-sessions.ts'

const STEPS = ['poll', 'open-socket', 'probe', 'abandon-probe', 'end'] as const

const after = (...steps: (typeof STEPS)[number][]): Life | undefined =>
  steps.reduce<Life | undefined>((life, step) => life && advance(life, step), begin(0))

t.test('a WebSocket is tried for polling once at a time', async t => {
  t.equal(after('poll', 'probe', 'abandon-probe')?.phase, 'polling')
  t.equal(after('open-socket')?.phase, 'websocket')
  t.equal(after('poll', 'open-socket'), undefined)
  t.equal(after('poll', 'probe', 'probe'), undefined)
  t.equal(after('open-socket', 'probe'), undefined)
})

t.test('whatever happens, what is over stays over and a WebSocket never goes back to polling', async t => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...STEPS), { maxLength: 12 }), steps => {
      let life = begin(0)
      for (const step of steps) {
        const next = advance(life, step)
        if (life.phase === 'over' && next !== undefined) throw new Error('rose again')
        if (life.phase === 'websocket' && next !== undefined && next.phase !== 'over') throw new Error('went back')
        life = next ?? life
      }
    })
  )
  t.pass()
})

t.test('bytes count until a namespace is open, also in the session that continues another', async t => {
  const told = tookBytes(begin(0), 60_000)
  t.equal(bytesLeft(told), 40_000)
  const next = continued(tookBytes(begin(50_000), 6), handed(told, 3000), 50_000)
  t.same([bytesLeft(next), next.proveUntil], [39_994, 57_000])
  t.equal(bytesLeft(continued(begin(0), handed(proved(told), 0), 0)), Number.POSITIVE_INFINITY)
  t.equal(tookBytes(proved(told), 1e9).unprovenBytes, 60_000)
  t.equal(provableFrom(told, 5000).proveUntil, 15_000)
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

t.test('a client is not read while its packet is judged, and a socket may end before it is joined', async t => {
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
