// A relay says to either side why it ends, and cuts a side that stays open.
import { once } from 'node:events'
import net from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import t, { type Test } from 'tap'
import { createHolder, heldBytes } from '../../gateway/values/held-memory.ts'
import { createRelays, Relay } from '../../gateway/websocket/relay.ts'
import { shiftClocks } from '../support/clocks.ts'
import { collectGarbage } from '../support/garbage.ts'
import { listen } from '../support/ports.ts'
import { buildFrame, framesIn } from '../support/raw-websocket.ts'
import { takeSome, untilFull } from '../support/slow-reader.ts'
import { until } from '../support/until.ts'

/** The frames at the end of a side, as text: a close as its code and reason. */
const framesOf = (bytes: Buffer): string[] =>
  framesIn(bytes).map(({ opcode, payload }) =>
    opcode === 8 ? `${payload.readUInt16BE(0)} ${payload.subarray(2)}` : `${opcode} ${payload}`
  )

const world = (t: Test, isRead: boolean, [client, clientEnd]: readonly [Duplex, Duplex] = duplexPair()) => {
  const [upstream, upstreamEnd] = duplexPair()
  const faults: string[] = []
  const options = { client, upstream, requestId: 'r1', maxMessageBytes: 1000, messagesPerSecond: 0, idleTimeoutMs: 0 }
  const relay = new Relay(
    {
      ...options,
      onFault: (from, { code }) => void faults.push(`${from} ${code}`),
      onClosed: () => undefined,
      ...(isRead ? { reader: { onMessage: () => undefined, holder: createHolder() } } : {})
    },
    () => undefined
  )
  t.teardown(() => relay.destroy())
  const received = (end: Duplex) => framesOf(end.read() ?? Buffer.alloc(0))
  return { relay, client, upstream, received, clientEnd, upstreamEnd, faults }
}
type World = ReturnType<typeof world>
const settled = () => new Promise(resolve => setImmediate(resolve))

t.test('a side that does not close with the other is cut off; one that fails takes the other along', async t => {
  const closing = world(t, false)
  closing.relay.take('client', buildFrame(8, Buffer.from([3, 232]), true))
  await until(() => closing.upstreamEnd.readableLength > 0)
  closing.relay.sweep(closing.relay.now())
  t.equal(closing.upstream.destroyed, false)
  closing.relay.sweep(closing.relay.now() + 25_000)
  closing.relay.sweep(closing.relay.now() + 26_001)
  t.same([closing.client.destroyed, closing.upstream.destroyed], [true, true])

  const failing = world(t, false)
  t.equal(failing.upstream.emit('error', new Error('reset')), true)
  await until(() => failing.clientEnd.readableLength > 0)
  t.equal(failing.upstream.destroyed, true)
  t.match(failing.received(failing.clientEnd), [/^1\d{3} /])
})

t.test('a close that is answered late passes with its code, and one that is never answered is answered', async t => {
  for (const from of ['client', 'upstream'] as const) {
    const [to, isMasked] = from === 'client' ? (['upstream', false] as const) : (['client', true] as const)
    const close = (code: string, masked: boolean) => buildFrame(8, Buffer.from(code, 'latin1'), masked)
    for (const isAnswered of [true, false]) {
      const one = world(t, false)
      one.relay.take(from, close('\x0f\xa0bye', !isMasked))
      await settled()
      t.same(one.received(one[`${to}End`]), ['4000 bye'])
      // The gateway stands still meanwhile.
      one.relay.postpone(10_000)
      one.relay.sweep(one.relay.now() + 14_000)
      t.equal(one[from].destroyed, false)
      if (isAnswered) one.relay.take(to, close('\x0f\xa1late', isMasked))
      else one.relay.sweep(one.relay.now() + 16_000)
      await settled()
      t.same(one.received(one[`${from}End`]), [isAnswered ? '4001 late' : '4000 bye'], from)
    }
  }
})

t.test('a socket whose access has ended is cut in time although the gateway is often late', async t => {
  const { relay, client, upstream } = world(t, false)
  const endedAt = relay.now()
  relay.end({ code: 4401, reason: '' })
  relay.postpone(150)
  relay.postpone(150)
  relay.sweep(endedAt + 800)
  t.same([client.destroyed, upstream.destroyed], [true, true])
})

t.test('what a side sends when its access ends in the middle of a frame is no violation', async t => {
  const sent = Buffer.concat([
    buildFrame(2, Buffer.from('first'), false),
    buildFrame(2, Buffer.from('second'), false),
    buildFrame(9, Buffer.from('ping'), false),
    buildFrame(8, Buffer.from([3, 233]), false)
  ])
  for (let at = 3; at < sent.length; at++) {
    const { relay, clientEnd, upstreamEnd, upstream, received, faults } = world(t, false)
    relay.take('upstream', sent.subarray(0, 3))
    relay.end({ code: 4401, reason: 'over' })
    relay.take('upstream', sent.subarray(3, at))
    relay.take('upstream', sent.subarray(at))
    await settled()
    t.same(faults, [], `${at}`)
    t.same(received(clientEnd), ['2 first', '4401 over'], `${at}`)
    t.equal(received(upstreamEnd).length, 1)
    t.ok(upstream.writableEnded, `its close is found: ${at}`)
  }
})

t.test('what has arrived of a message is forgotten with the side that sent it', async t => {
  const before = heldBytes()
  const { relay, client } = world(t, true)
  relay.take('client', buildFrame(2, Buffer.alloc(900), true).subarray(0, -1))
  t.ok(heldBytes() >= before + 899)
  client.destroy()
  await until(() => heldBytes() === before)
})

t.test('what a client has not read is counted until it has, or is gone', async t => {
  const before = heldBytes()
  const { relay, client, clientEnd } = world(t, true)
  for (const leave of [() => clientEnd.read(), () => client.destroy()]) {
    relay.send('client', 2, Buffer.alloc(100_000))
    relay.send('client', 2, Buffer.alloc(100_000))
    t.ok(relay.countUnread() >= 100_000)
    t.equal(heldBytes(), before + relay.countUnread())
    leave()
    await until(() => {
      clientEnd.read()
      relay.sweep(relay.now())
      return heldBytes() === before
    })
  }
  t.equal(relay.countUnread(), 0)
})

t.test('a whole message counts until the side to which it was sent has read it', async t => {
  for (const to of ['client', 'upstream'] as const) {
    const before = heldBytes()
    const one = world(t, true)
    for (let n = 0; n < 2; n++) one.relay.send(to, 2, Buffer.alloc(100_000))
    t.ok(heldBytes() >= before + 100_000, to)
    one.relay.destroy()
    await until(() => heldBytes() === before)
  }
})

t.test('tiny frames that a client does not read take little memory, and arrive in order', async t => {
  const { relay, clientEnd } = world(t, false)
  const count = 10_000
  const pong = (number: number) => buildFrame(10, Buffer.from([number >> 8, number & 255]), false)
  relay.take('upstream', pong(0))
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let i = 1; i < count; i++) relay.take('upstream', pong(i))
  collectGarbage()
  const takenBytes = process.memoryUsage().heapUsed - before
  t.ok(takenBytes < 500_000, `${takenBytes} bytes beside 40,000`)
  relay.take('upstream', buildFrame(8, Buffer.from([3, 232]), false))
  const read: Buffer[] = []
  await until(() => {
    read.push(clientEnd.read() ?? Buffer.alloc(0))
    return framesIn(Buffer.concat(read)).length > count
  })
  const payloads = framesIn(Buffer.concat(read)).map(({ payload }) => payload.readUInt16BE(0))
  t.same(payloads, [...Array(count).keys(), 1000])
})

t.test('a client that is not to know of the end of its upstream learns of it after two seconds', async t => {
  // RW-78
  const { relay, received, client, clientEnd, upstreamEnd } = world(t, true)
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

/** Both ends of a TCP connection. */
const connected = async (t: Test) => {
  const server = net.createServer({ allowHalfOpen: true })
  const accepting = once(server, 'connection')
  const far = net.connect(await listen(t, server), '127.0.0.1')
  const [near] = (await accepting) as [net.Socket]
  t.teardown(() => far.destroy())
  return [near, far] as const
}

t.test('a client that takes a large message slowly is alive, also without a pong', async t => {
  const [socket, clientEnd] = await connected(t)
  const { relay, client, upstream } = world(t, true, [socket, clientEnd])
  let at = relay.now()
  const sweepAfter = (ms: number) => {
    at += ms
    relay.sweep(at)
  }
  relay.send('client', 2, Buffer.alloc(80_000_000))
  t.equal(upstream.isPaused(), true)
  for (let round = 0; round < 4; round++) {
    await untilFull(socket)
    sweepAfter(250)
    await takeSome(socket, clientEnd)
    sweepAfter(59_000)
  }
  await untilFull(socket)
  sweepAfter(250)
  t.equal(client.destroyed, false)
  sweepAfter(60_000)
  t.equal(client.destroyed, true, 'it takes nothing more')
})

t.test('what came before a close is delivered to a side that takes it slowly, unless its access has ended', async t => {
  const frame = buildFrame(2, Buffer.alloc(900, 'z'), false)
  const messages = Buffer.concat(Array.from({ length: 500 }, () => frame))
  const endings = {
    closed: ({ relay }: World) => relay.take('upstream', buildFrame(8, Buffer.from([3, 232]), false)),
    gone: ({ upstream }: World) => void upstream.destroy(),
    ended: ({ relay }: World) => relay.end({ code: 4401, reason: '' })
  }
  for (const [name, end] of Object.entries(endings)) {
    const [socket, clientEnd] = await connected(t)
    const one = world(t, false, [socket, clientEnd])
    let at = one.relay.now()
    const sweepAfter = (...waits: number[]) => {
      for (const ms of waits) {
        at += ms
        one.relay.sweep(at)
      }
    }
    while (socket.writableLength < 20_000_000) one.relay.take('upstream', messages)
    await untilFull(socket)
    end(one)
    await settled()
    sweepAfter(250, 2500, 2500)
    t.equal(socket.destroyed, name === 'ended', name)
    if (name === 'ended') continue
    await takeSome(socket, clientEnd)
    sweepAfter(250, 19_000)
    t.equal(socket.destroyed, false, `${name}: still taking`)
    await untilFull(socket)
    sweepAfter(250, 21_000)
    t.equal(socket.destroyed, true, `${name}: it takes nothing more`)
  }
})

t.test('a side that was slow just before a close has time for what its kernel still holds, and later none', async t => {
  for (const quietMs of [0, 60_000]) {
    const [socket, clientEnd] = await connected(t)
    const { relay } = world(t, false, [socket, clientEnd])
    const frame = buildFrame(2, Buffer.alloc(900), false)
    while (socket.writableLength === 0) relay.take('upstream', Buffer.concat(Array.from({ length: 500 }, () => frame)))
    let at = relay.now()
    relay.sweep(at)
    clientEnd.resume()
    await until(() => socket.writableLength === 0, 'the kernel has it all')
    at += quietMs
    relay.sweep(at)
    relay.take('upstream', buildFrame(8, Buffer.from([3, 232]), false))
    await settled()
    relay.sweep(at + 10_000)
    t.equal(socket.destroyed, quietMs > 0)
    relay.sweep(at + 21_000)
    t.equal(socket.destroyed, true)
  }
})

t.test('the time for which the gateway stood still is no silence of a socket', async t => {
  const clocks = shiftClocks(t)
  clocks.stopMonotonic()
  const relays = createRelays()
  t.teardown(relays.close)
  const join = (idleTimeoutMs: number) => {
    const [[client], [upstream, upstreamEnd]] = [duplexPair(), duplexPair()]
    const limits = { requestId: 'r1', maxMessageBytes: 1000, messagesPerSecond: 0, idleTimeoutMs }
    const none = () => undefined
    const reader = { onMessage: none, holder: createHolder() }
    const relay = relays.join({ ...limits, client, upstream, onFault: none, onClosed: none, reader })
    return { relay, client, upstreamEnd }
  }
  const [stalled, idle] = [join(0), join(30_000)]
  stalled.relay.send('client', 2, Buffer.alloc(1_000_000))
  clocks.monotonicMs = 60_100
  const since = process.uptime()
  while (process.uptime() - since < 0.6);
  await until(() => idle.upstreamEnd.readableLength > 0, 'both have been swept')
  t.equal(stalled.client.destroyed, false)
})
