// Packets are read as the stock parsers read them, or refused; no bytes crash the gate.
import { decodePayload } from 'engine.io-parser'
import { Decoder, Encoder } from 'socket.io-parser'
import t from 'tap'
import { Unauthenticated } from '../../gateway/errors.ts'
import { createGateState, newNamespace } from '../../gateway/socketio/gate/gate-state.ts'
import { createPacketGate } from '../../gateway/socketio/gate/packet-gate.ts'
import { readEnginePayload } from '../../gateway/socketio/protocol/engineio.ts'
import { openForClient, readEngineQuery, readHandshake } from '../../gateway/socketio/protocol/engineio-handshake.ts'
import { eventName, readSocketIoPacket } from '../../gateway/socketio/protocol/packets.ts'
import { createRecoveryIds } from '../../gateway/socketio/recovery-ids.ts'
import { person, routeAt, upstreamAt } from '../support/routes.ts'
import { words } from '../support/words.ts'
import { fc } from '../support/worlds.ts'

const stock = (text: string): { type: number; nsp: string } | undefined => {
  const decoder = new Decoder()
  let seen: { type: number; nsp: string } | undefined
  decoder.on('decoded', (packet: { type: number; nsp: string }) => {
    seen = packet
  })
  try {
    decoder.add(text)
    // Binary packets are told of only when their attachments have come.
    for (let i = 0; i < 10 && seen === undefined; i++) decoder.add(Buffer.alloc(1))
  } catch {
    return seen
  }
  return seen
}

const packetText = fc.oneof(
  fc.string({ maxLength: 40 }),
  fc
    .tuple(
      fc.constantFrom(
        '0',
        '1',
        '2',
        '3',
        '4',
        '5',
        '6',
        '51-',
        '510-',
        '511-',
        '5-',
        '5x-',
        '52',
        '61-',
        '7',
        '05-',
        '51e0-',
        ''
      ),
      fc.constantFrom('', '/', '/a', '/a,', '/a/b,', '/a?x=1,', ',', '/é,', '/a b,'),
      fc.constantFrom('', '1', '12', '-1', '1.5'),
      fc.constantFrom('', '["x"]', '["x",{"_placeholder":true,"num":0}]', '{"token":"t"}', '"text"', '[1', '{}', '[]')
    )
    .map(parts => parts.join(''))
)

// WS-23, WS-24, WS-25, WS-29
t.test('type and namespace are those of socket.io-parser whenever it takes a packet that we take', async t => {
  let compared = 0
  fc.assert(
    fc.property(packetText, text => {
      const theirs = stock(text)
      const ours = readSocketIoPacket(text)
      if (theirs === undefined || ours === undefined) return
      compared++
      // The parser turns binary types into plain ones.
      const type = ours.type === 5 ? 2 : ours.type === 6 ? 3 : ours.type
      if (theirs.nsp !== ours.namespace || theirs.type !== type) {
        throw new Error(`${text}: ${ours.namespace} ${ours.type} instead of ${theirs.nsp} ${theirs.type}`)
      }
    }),
    { numRuns: 20_000 }
  )
  t.ok(compared > 300, `${compared} packets were taken by both`)
})

t.test('whatever the stock encoder writes is read', async t => {
  const data = fc.array(
    fc.oneof(
      fc.string(),
      fc.integer(),
      fc.constant(null),
      fc.uint8Array().map(bytes => Buffer.from(bytes))
    ),
    {
      maxLength: 6
    }
  )
  fc.assert(
    fc.property(data, fc.constantFrom('/', '/messaging', '/a-b'), fc.option(fc.nat()), (values, nsp, id) => {
      const packet = { type: 2, nsp, data: ['event', ...values], ...(id === null ? {} : { id }) }
      const [text, ...buffers] = new Encoder().encode(packet) as [string, ...Buffer[]]
      const ours = readSocketIoPacket(text)
      if (ours?.namespace !== nsp || ours.attachments !== buffers.length) throw new Error(text)
    }),
    { numRuns: 3000 }
  )
  t.pass()
})

// WS-26, WS-30
t.test('payloads split as engine.io-parser splits them', async t => {
  const piece = fc.constantFrom('4', '40', '42["x"]', '2probe', '3', '6', 'bAQID', 'b*', '1', '', '7', 'x', 'b')
  let compared = 0
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), pieces => {
      const payload = pieces.join('\x1e')
      const theirs = decodePayload(payload, 'nodebuffer')
      const ours = readEnginePayload(payload)
      if (ours === undefined) return
      compared++
      if (ours.length !== theirs.length || theirs.some(packet => packet.type === 'error')) throw new Error(payload)
    }),
    { numRuns: 5000 }
  )
  t.ok(compared > 100, `${compared} payloads were taken`)
  t.equal(readEnginePayload('b*'), undefined)
  t.equal(readEnginePayload('\x1e'.repeat(2000)), undefined)
  t.equal(
    readEnginePayload(Array.from({ length: 5000 }, () => '3').join('\x1e'))?.length,
    5000,
    'bytes are bounded, not packets'
  )
})

t.test('an attachment of any size is read, with all of its padding or none', async t => {
  const bytes = Buffer.alloc(6_000_001, 7)
  const [packet] = readEnginePayload(`b${bytes.toString('base64')}`) ?? []
  t.ok(packet?.text === `b${bytes.toString('base64')}`)
  for (const text of ['b', 'bAQ', 'bAQ==', 'bAQI', 'bAQI=', 'bAQID'])
    t.equal(readEnginePayload(text)?.[0]?.text, `b${Buffer.from(text.slice(1), 'base64').toString('base64')}`, text)
  for (const text of ['bA', 'bAQ=', 'bAQI==', 'bAQID=', 'b=', 'b==', 'bAQ==AQ==', 'bA-ID'])
    t.equal(readEnginePayload(text), undefined, text)
})

// WS-31
t.test('only unambiguous Engine.IO 4 queries are read', async t => {
  t.same(readEngineQuery('?EIO=4&transport=polling&t=abc&custom=1'), { transport: 'polling', sid: undefined })
  t.same(readEngineQuery('?EIO=4&transport=websocket&sid=a-_B1'), { transport: 'websocket', sid: 'a-_B1' })
  const withoutBinary = '?EIO=4&transport=polling&t=abc&b64=1'
  t.same(
    readEngineQuery(withoutBinary),
    { transport: 'polling', sid: undefined },
    'socket.io-client 4.0 to 4.7 in Node.js'
  )
  for (const query of [
    '',
    '?',
    '?EIO=3&transport=polling',
    '?EIO=4',
    '?EIO=4&EIO=3&transport=polling',
    '?EIO=4&%45IO=3&transport=polling',
    '?EIO=4&transport=polling&transport=websocket',
    '?EIO=4&transport=constructor',
    '?EIO=4&transport=webtransport',
    '?EIO=4&transport=polling&j=0',
    '?EIO=4&transport=polling&b64=1&j=0',
    '?EIO=4&transport=polling&b64=0',
    '?EIO=4&transport=polling&b64',
    '?EIO=4&transport=polling&b64=1&b64=1',
    '?EIO=4&transport=polling&%6264=1',
    '?EIO=4&transport=polling&sid=__proto__%20',
    '?EIO=4&transport=polling&sid=',
    '?EIO=4&transport=polling&sid=a&sid=b',
    '?EIO=4&transport=polling&%E0%A4=1',
    `?EIO=4&transport=polling${'&a=1'.repeat(40)}`
  ]) {
    t.equal(readEngineQuery(query), undefined, query)
  }
})

const gateWorld = (now = Date.now, events?: []) => {
  const state = createGateState()
  const socketio = {
    maxMessageBytes: 1e6,
    messagesPerSecond: 1000,
    namespaces: [{ name: '/messaging', pattern: undefined, roles: ['Agente'], events }]
  }
  const route = { ...routeAt('/socket.io/', upstreamAt(1)), socketio }
  const gate = createPacketGate({
    route,
    routeNow: () => route,
    state,
    identify(token) {
      if (token !== 'good') throw new Unauthenticated()
      const life = { issuedAt: 0, expiresAt: 9e9, authenticatedAt: 0 }
      return { user: person(), subject: '7', tokenId: 'x', version: 0, kind: 'login', ...life }
    },
    check: () => undefined,
    recoveryIds: createRecoveryIds([]),
    register: (_, route, identity) => newNamespace(identity, route),
    onRefusedConnect: () => undefined,
    onRefusedEvent: () => undefined,
    requestId: 'x',
    onLateConfirm: () => undefined,
    onLeft: () => undefined,
    now
  })
  return { gate, state }
}

// WS-22, WS-24, WS-29
t.test('a handshake says how long a session may be silent; one without sense counts as the usual', async t => {
  const read = (more: object) => readHandshake(`0${JSON.stringify({ sid: 'a', ...more })}`)
  t.match(read({ pingInterval: 1000, pingTimeout: 500 }), { sid: 'a', pollMs: 1500, sessionMs: 6500 })
  for (const no of [undefined, '1000', 0, 3_600_000])
    t.equal(read({ pingInterval: no, pingTimeout: no })?.pollMs, 45_000)
  for (const body of ['', '{}', '4{"sid":"a"}', '0x', '0null', '0{}']) t.equal(readHandshake(body), undefined, body)
})

t.test('a client is told the smaller limit of a POST, the one of its route or of its backend', async t => {
  t.equal(openForClient('0{"sid":"a","maxPayload":9,"x":[1]}', 'b', 5), '0{"sid":"b","maxPayload":5,"x":[1]}')
  t.equal(openForClient('0{"sid":"a","maxPayload":9}', 'b', 10), '0{"sid":"b","maxPayload":9}')
  t.equal(openForClient('0{"sid":"a"}', 'b', 5), '0{"sid":"b"}')
})

t.test('an acknowledgement names any event, and a name may be escaped', async t => {
  t.match(readSocketIoPacket('312345[1]'), { type: 3, rest: '12345[1]' })
  t.equal(readSocketIoPacket('3[1]'), undefined)
  t.equal(eventName('1["a\\u00e9"]'), 'aé')
  t.equal(eventName('1["a\\u00e"]'), undefined)
})

// WS-33
t.test('CONNECT reaches the upstream with the person and without the token, whatever the client put there', async t => {
  const { gate } = gateWorld()
  const auth = '{"token":"good","user":{"id":1},"user":{"id":2},"__proto__":{"admin":true},"mine":[1]}'
  const verdict = gate.fromClient({ type: '4', text: `40/messaging,${auth}` })
  if (verdict.verdict !== 'pass' || verdict.text === undefined) return t.fail('refused')
  t.same(JSON.parse(verdict.text.slice(verdict.text.indexOf(',') + 1)), { mine: [1], user: person() })
  t.notMatch(verdict.text, /good|admin|__proto__/)
})

t.test('a client may connect to namespaces 120 times a minute', async t => {
  let nowMs = 60_000
  const { gate } = gateWorld(() => nowMs)
  const say = async (text: string) => gate.fromClient({ type: '4', text }).verdict
  const reconnect = async () => [await say('40/messaging,{"token":"good"}'), await say('41/messaging,')]
  for (let turn = 0; turn < 2; turn++) {
    for (let n = 0; n < 120; n++) t.same(await reconnect(), ['pass', 'pass'], `${turn} ${n}`)
    nowMs += 60_000
  }
  for (let n = 0; n < 120; n++) await reconnect()
  nowMs += 59_999
  const last = gate.fromClient({ type: '4', text: '40/messaging,{"token":"good"}' })
  t.same(last, { verdict: 'violation', reason: 'too-many-connects' }, 'the minute is not over')
})

t.test('a client that is refused more than 20 times is done', async t => {
  const { gate } = gateWorld()
  const refused = { type: '4', text: '40/messaging,{"token":"bad"}' } as const
  for (let n = 0; n < 20; n++) t.equal(gate.fromClient(refused).verdict, 'answer')
  t.same(gate.fromClient(refused), { verdict: 'violation', reason: 'too-many-connects' })
})

t.test('an event passes in no namespace to which the access has ended', async t => {
  const { gate } = gateWorld()
  t.equal(gate.fromClient({ type: '4', text: '40/messaging,{"token":"good"}' }).verdict, 'pass')
  t.equal(gate.end('/messaging'), 'asked')
  const event = gate.fromClient({ type: '4', text: '42/messaging,["x"]' })
  t.equal(event.verdict, 'drop', 'without an id, nothing is said back')
  const asking = gate.fromClient({ type: '4', text: '42/messaging,7["x"]' })
  t.match(asking, { verdict: 'answer', text: /^43\/messaging,7\[.*GW_FORBIDDEN/ })
  t.equal(gate.fromClient({ type: '4', text: '43/messaging,1["x"]' }).verdict, 'drop', 'nor an acknowledgement')
})

t.test('what is on its way to a namespace that the other side has ended is dropped', async t => {
  const { gate } = gateWorld()
  const ends = [() => gate.end('/messaging'), () => gate.fromUpstream({ type: '4', text: '41/messaging,' })]
  const late = words`42/messaging,["x"] 42/messaging,7["x"] 43/messaging,1["x"] 41/messaging,`
  for (const end of ends) {
    t.equal(gate.fromClient({ type: '4', text: '40/messaging,{"token":"good"}' }).verdict, 'pass')
    t.equal(gate.fromUpstream({ type: '4', text: '40/messaging,{"sid":"x"}' }).verdict, 'pass')
    end()
    for (const text of late) t.same(gate.fromClient({ type: '4', text }), { verdict: 'drop' }, text)
    t.same(gate.fromClient({ type: '4', text: '451-/messaging,["x"]' }), { verdict: 'drop' })
    t.same(gate.fromClient({ type: 'b', text: 'bAA==' }), { verdict: 'drop' }, 'with its attachment')
  }
  const never = { verdict: 'violation', reason: 'not-connected' }
  t.same(gate.fromClient({ type: '4', text: '42/other,["x"]' }), never)
  gate.fromClient({ type: '4', text: '40/messaging,{"token":"good"}' })
  t.equal(gate.fromClient({ type: '4', text: '41/messaging,' }).verdict, 'pass')
  t.same(gate.fromClient({ type: '4', text: '42/messaging,["x"]' }), never, 'a client knows what it has left itself')
})

t.test('what a client acknowledges in a namespace that is not open goes nowhere, and ends no other', async t => {
  const { gate } = gateWorld()
  const say = (text: string) => gate.fromClient({ type: text[0] as '4' | 'b', text })
  const never = { verdict: 'violation', reason: 'not-connected' }
  t.same(say('43/other,1["x"]'), never, 'there is no other')
  t.equal(say('40/messaging,{"token":"good"}').verdict, 'pass')
  for (const namespace of ['/messaging', '/other']) {
    t.same(say(`43${namespace},1["x"]`), { verdict: 'drop' }, namespace)
    t.same(say(`461-${namespace},1["x"]`), { verdict: 'drop' })
    t.same(say('bAA=='), { verdict: 'drop' }, 'with its attachment')
  }
  t.same(say('42/other,1["x"]'), never)
  t.equal(gate.fromUpstream({ type: '4', text: '40/messaging,{"sid":"x"}' }).verdict, 'pass')
  for (const text of ['461-/messaging,1["x"]', 'bAA==']) t.same(say(text), { verdict: 'pass' }, text)
})

t.test('refusals that wait for an attachment of the upstream are bounded', async t => {
  const { gate } = gateWorld(Date.now, [])
  gate.fromClient({ type: '4', text: '40/messaging,{"token":"good"}' })
  gate.fromUpstream({ type: '4', text: '40/messaging,{"sid":"x"}' })
  t.equal(gate.fromUpstream({ type: '4', text: '451-/messaging,["x"]' }).verdict, 'pass')
  const say = () => gate.fromClient({ type: '4', text: '42/messaging,7["closed"]' })
  let asked = 0
  while (asked < 20_000 && say().verdict === 'drop') asked++
  t.ok(asked > 1000 && asked < 10_000, `${asked}`)
  t.same(say(), { verdict: 'violation', reason: 'answers-unread' })
})
