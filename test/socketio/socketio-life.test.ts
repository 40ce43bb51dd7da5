// A session's life has named phases with fixed steps between them, and its parts deliver and store what they hold.
import fc from 'fast-check'
import t from 'tap'
import { NOTHING_DUE } from '../../gateway/socketio/gate/gate-state.ts'
import { createUpstreamPackets } from '../../gateway/socketio/gate/upstream-packets.ts'
import {
  advance,
  begin,
  bytesLeft,
  joined,
  type Life,
  provableFrom,
  proved,
  tookBytes
} from '../../gateway/socketio/life.ts'
import { createMailbox } from '../../gateway/socketio/polling/mailbox.ts'
import { createPollingTransport } from '../../gateway/socketio/polling/polling-transport.ts'
import { createShare } from '../../gateway/socketio/share.ts'
import { createRedisSidStore } from '../../gateway/socketio/sid-store-redis.ts'
import { createWebSocketTransport } from '../../gateway/socketio/websocket.ts'
import { createResponseContext } from '../../gateway/upstream/headers/client-head.ts'
import { exchangeOf } from '../support/exchanges.ts'
import { routeAt, targetAt, upstreamAt } from '../support/routes.ts'

const STEPS = ['poll', 'open-socket', 'probe', 'abandon-probe', 'upgrade', 'end'] as const

const after = (...steps: (typeof STEPS)[number][]): Life | undefined =>
  steps.reduce<Life | undefined>((life, step) => life && advance(life, step), begin(0))

t.test('polling may be upgraded once, and only after a probe', async t => {
  t.equal(after('poll', 'probe', 'upgrade')?.phase, 'websocket')
  t.equal(after('poll', 'probe', 'abandon-probe')?.phase, 'polling')
  t.equal(after('open-socket')?.phase, 'websocket')
  t.equal(after('poll', 'upgrade'), undefined)
  t.equal(after('poll', 'probe', 'probe'), undefined)
  t.equal(after('poll', 'probe', 'upgrade', 'probe'), undefined)
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

t.test('bytes count until a namespace is open; what another instance saw counts too', async t => {
  const told = tookBytes(begin(0), 60_000)
  t.equal(bytesLeft(told), 40_000)
  t.equal(bytesLeft(joined(told, { proven: false, bytes: 90_000 })), 10_000)
  t.equal(bytesLeft(joined(told, { proven: true, bytes: 0 })), Number.POSITIVE_INFINITY)
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

t.test('a single packet is delivered like any other', async t => {
  const mailbox = createMailbox({ record: { fields: [] }, forwarding: { now: () => 0 } } as never)
  const told: string[] = []
  mailbox.divertTo(packets => void told.push(...packets))
  mailbox.put(['42["x"]'])
  mailbox.flush()
  t.same(told, ['42["x"]'])
})

t.test('mail is looked for until what was under way at the upgrade has arrived or expired', async t => {
  let now = 20_000
  const mailbox = createMailbox({ record: { fields: [] }, forwarding: { now: () => now } } as never)
  t.equal(mailbox.mayHaveMail(), false)
  mailbox.divertTo(() => undefined)
  for (const [passedMs, expected] of [
    [0, true],
    [15_000, true],
    [15_001, false]
  ] as const) {
    now = 20_000 + passedMs
    t.equal(mailbox.mayHaveMail(), expected)
  }
})

t.test('a poll gets what the gateway itself says, and may be given up while another instance asks', async t => {
  const upstream = upstreamAt(1)
  const source = { route: routeAt('/socket.io/', upstream), upstream, target: targetAt(1) }
  const told: string[] = []
  const polling = createPollingTransport({
    forwarding: { responseContext: createResponseContext({ has: () => false }), pollHeaders: () => [] },
    session: { source, leave: () => told.push('left') },
    share: { collect: async () => [], lease: async () => false },
    record: { fields: [], pollMs: 1000 }
  } as never)
  const poll = async () => {
    const exchange = exchangeOf()
    Object.assign(exchange.response, { whole: (_: object, text: string) => told.push(text) })
    polling.get(exchange, 'GET / HTTP/1.1\r\n')
    await settled()
    return exchange
  }
  await poll()
  polling.carrier.toClient(['42["x"]'])
  await settled()
  t.same(told, ['42["x"]'])
  const abandoned = await poll()
  abandoned.onClosed()
  t.same(told, ['42["x"]', 'left'])
})

t.test('only news is written for other instances, and what they wrote is learnt', async t => {
  const record = { upgraded: false, namespaces: {} }
  const adopted: unknown[] = []
  const saved: unknown[] = []
  const state = { namespaces: new Map(), due: { ...NOTHING_DUE } }
  const session = { state, isOver: false, life: { isProven: true }, adopt: (read: unknown) => adopted.push(read) }
  const store = { load: async () => record, save: async (_: string, changes: object) => saved.push(changes) }
  const share = createShare(store as never, { sid: 's', session, pollMs: 1, letGo: () => t.fail() } as never)
  await share.persist()
  state.due.client = 1
  await share.persist()
  const proven = { namespaces: {}, proven: true }
  t.same(saved, [proven, { ...proven, dueFromClient: { client: 1, clientDropped: false } }])
  await share.reload()
  t.same(adopted, [record])
})

t.test('namespaces are told from the other fields of a stored session', async t => {
  const source = { routeId: 'r', target: 'x', createdAt: 1, sessionMs: 2, pollMs: 3, fields: [] }
  const known = { phase: 'open', identity: {} }
  const fields = ['o', JSON.stringify(source), 'ttl', '2', 'b', '5', 'n:/a', JSON.stringify(known)]
  const { shared } = createRedisSidStore({ evalScript: async () => fields } as never)
  const due = { ...NOTHING_DUE }
  const expected = { ...source, bytes: 5, proven: false, upgraded: false, due, namespaces: { '/a': known } }
  t.same(await shared?.load('sid'), expected)
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
