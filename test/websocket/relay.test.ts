// A relay says to either side why it ends, asks silent sides whether they live, and refuses what is no handshake.
import { type Duplex, duplexPair } from 'node:stream'
import t, { type Test } from 'tap'
import { acceptOf, checkSwitch, upgradeFields } from '../../gateway/websocket/handshake.ts'
import type { Side } from '../../gateway/websocket/leg.ts'
import { Relay } from '../../gateway/websocket/relay.ts'
import { buildFrame } from '../support/frames.ts'
import { parseHead } from '../support/response-heads.ts'
import { until } from '../support/until.ts'

/** The frames at the end of a side, as text: a close as its code and reason. */
const framesOf = (bytes: Buffer): string[] => {
  const found: string[] = []
  for (let at = 0; at < bytes.length; ) {
    const [first = 0, second = 0] = bytes.subarray(at)
    const length = second & 127
    const start = at + 2 + (second > 127 ? 4 : 0)
    const payload = Buffer.from(bytes.subarray(start, start + length))
    if (second > 127) for (const [i, byte] of payload.entries()) payload[i] = byte ^ (bytes[start - 4 + (i & 3)] ?? 0)
    const kind = first & 15
    found.push(kind === 8 ? `${payload.readUInt16BE(0)} ${payload.subarray(2)}` : `${kind} ${payload}`)
    at = start + length
  }
  return found
}

const world = (t: Test, more: { idleTimeoutMs?: number; isRead?: boolean } = {}) => {
  const [client, clientEnd] = duplexPair()
  const [upstream, upstreamEnd] = duplexPair()
  const faults: [side: Side, code: number][] = []
  const { idleTimeoutMs = 0, isRead = false } = more
  const options = { client, upstream, requestId: 'r1', maxMessageBytes: 1000, messagesPerSecond: 0, idleTimeoutMs }
  const relay = new Relay(
    {
      ...options,
      onFault: (from, { code }) => faults.push([from, code]),
      onClosed: () => undefined,
      ...(isRead ? { onMessage: () => undefined } : {})
    },
    () => undefined
  )
  t.teardown(() => relay.destroy())
  const received = (end: Duplex) => framesOf(end.read() ?? Buffer.alloc(0))
  return { relay, client, upstream, faults, received, clientEnd, upstreamEnd }
}
const settled = () => new Promise(resolve => setImmediate(resolve))

const KEY = 'AAAAAAAAAAAAAAAAAAAAAA=='
t.test('a side that does not close with the other is cut off; one that fails takes the other along', async t => {
  const closing = world(t)
  closing.relay.take('client', buildFrame(8, Buffer.from([3, 232]), true))
  await until(() => closing.upstreamEnd.readableLength > 0)
  closing.relay.sweep(closing.relay.now())
  t.equal(closing.upstream.destroyed, false)
  closing.relay.sweep(closing.relay.now() + 25_000)
  t.same([closing.client.destroyed, closing.upstream.destroyed], [true, true])

  const failing = world(t)
  t.equal(failing.upstream.emit('error', new Error('reset')), true)
  await until(() => failing.clientEnd.readableLength > 0)
  t.equal(failing.upstream.destroyed, true)
  t.match(failing.received(failing.clientEnd), [/^1\d{3} /])
})

t.test('a client that is not to know of the end of its upstream learns of it after two seconds', async t => {
  // RW-78
  const { relay, received, client, clientEnd, upstreamEnd } = world(t, { isRead: true })
  relay.retire()
  relay.take('upstream', buildFrame(1, Buffer.from('late'), false))
  relay.sweep(relay.now() + 1900)
  await settled()
  t.same([received(clientEnd), received(upstreamEnd)], [[], ['1001 ']])
  relay.sweep(relay.now() + 2001)
  await settled()
  t.same([received(clientEnd), client.destroyed], [['1011 upstream gone'], false])
  relay.sweep(relay.now() + 701)
  t.equal(client.destroyed, true)
})

t.test('an upstream’s switch is checked by the letter (RFC 6455 §4.1)', async t => {
  const check = (...fields: string[]) => {
    const lines = [`Sec-WebSocket-Accept: ${acceptOf(KEY)}`, 'Connection: keep-alive, Upgrade', ...fields]
    return checkSwitch(parseHead(`HTTP/1.1 101 S\r\n${lines.join('\r\n')}\r\n`, 'GET'), KEY, ['a', 'b'])
  }
  t.equal(check('Upgrade: WebSocket'), undefined)
  const twice = [`Sec-WebSocket-Accept: ${acceptOf(KEY)}`, 'Upgrade: websocket', 'Connection: x', 'Connection: Upgrade']
  t.equal(checkSwitch(parseHead(`HTTP/1.1 101 S\r\n${twice.join('\r\n')}\r\n`, 'GET'), KEY, []), undefined)
  t.notMatch(upgradeFields(KEY, []), /protocol/)
  t.match(upgradeFields(KEY, ['a', 'b']), /\r\nsec-websocket-protocol: a, b\r\n\r\n$/)
  t.equal(check('Upgrade: websocket', 'Sec-WebSocket-Protocol: b'), 'b')
  for (const [fields, message] of [
    [[], 'bad upgrade'],
    [['Upgrade: h2c'], 'bad upgrade'],
    [['Upgrade: websocket', 'Upgrade: websocket'], 'bad upgrade'],
    [['Upgrade: websocket', 'Sec-WebSocket-Extensions: x'], 'extension that was not offered'],
    [['Upgrade: websocket', 'Sec-WebSocket-Protocol: c'], 'subprotocol that was not offered'],
    [['Upgrade: websocket', 'Sec-WebSocket-Protocol: a', 'Sec-WebSocket-Protocol: b'], 'several subprotocols']
  ] as const)
    t.throws(() => check(...fields), { message }, fields.join())
})
