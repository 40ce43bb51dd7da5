// Any bytes, cut anywhere, are checked by the frame scanner as the ws package checks them.
import { isUtf8 } from 'node:buffer'
import { createRequire } from 'node:module'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { createHolder, heldBytes, MOST_HELD_BYTES } from '../../gateway/values/held-memory.ts'
import { FrameScanner } from '../../gateway/websocket/frame-scanner.ts'
import { buildFrame, CLOSE, closeFault, closePayload } from '../../gateway/websocket/frames.ts'
import { fc } from '../support/worlds.ts'

const require = createRequire(import.meta.url)
const Receiver: new (options: object) => import('node:stream').Writable = require('ws').Receiver

const MAX = 70_000

interface Seen {
  passed: Buffer[]
  messages: string[]
  controls: string[]
  fault: number
}

const scan = (pieces: Buffer[], masked: boolean, collect: boolean): Seen => {
  const scanner = new FrameScanner({ masked, maxMessageBytes: MAX, holder: collect ? createHolder() : undefined })
  const seen: Seen = { passed: [], messages: [], controls: [], fault: 0 }
  const sink = {
    onData: (bytes: Buffer) => seen.passed.push(Buffer.from(bytes)),
    onMessage: (isText: boolean, payload: Buffer) => seen.messages.push(`${isText}:${payload.toString('hex')}`),
    onControl(opcode: number, payload: Buffer, frame: Buffer) {
      if (!scanner.closed) seen.passed.push(frame)
      if (opcode === CLOSE) {
        const fault = closeFault(payload)
        if (fault !== 0) seen.fault = fault
        else seen.controls.push(`${opcode}:${payload.toString('hex')}`)
      } else seen.controls.push(`${opcode}:${payload.toString('hex')}`)
    }
  }
  for (const piece of pieces) {
    if (seen.fault === 0) seen.fault = scanner.take(piece, sink) || seen.fault
  }
  return seen
}

/** What ws makes of the same bytes. */
const reference = async (bytes: Buffer, masked: boolean): Promise<Seen> => {
  const seen: Seen = { passed: [], messages: [], controls: [], fault: 0 }
  const receiver = new Receiver({
    isServer: masked,
    maxPayload: MAX,
    binaryType: 'nodebuffer',
    allowSynchronousEvents: true
  })
  receiver.on('message', (data: Buffer, isBinary: boolean) =>
    seen.messages.push(`${!isBinary}:${data.toString('hex')}`)
  )
  receiver.on('ping', (data: Buffer) => seen.controls.push(`9:${data.toString('hex')}`))
  receiver.on('pong', (data: Buffer) => seen.controls.push(`10:${data.toString('hex')}`))
  receiver.on('conclude', (code: number, reason: Buffer) => {
    const payload = code === 1005 ? Buffer.alloc(0) : closePayload(code, reason.toString())
    seen.controls.push(`8:${payload.toString('hex')}`)
  })
  receiver.on('error', (error: Error) => {
    for (const key of Object.getOwnPropertySymbols(error)) {
      const value: unknown = Reflect.get(error, key)
      if (typeof value === 'number') seen.fault = value
    }
  })
  // The error event follows the callback of the write.
  await new Promise<void>(resolve => receiver.write(Buffer.from(bytes), () => setImmediate(resolve)))
  return seen
}

const cut = (bytes: Buffer, at: readonly number[]): Buffer[] => {
  const marks = [0, ...[...at].map(x => x % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
  return marks.slice(1).map((mark, i) => bytes.subarray(marks[i] ?? 0, mark))
}

const rawFrame = fc
  .record({
    fin: fc.boolean(),
    rsv: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 0x40, 0x10),
    opcode: fc.constantFrom(0, 0, 1, 1, 1, 2, 2, 8, 9, 10, 3, 11),
    wrongMask: fc.integer({ min: 0, max: 30 }).map(n => n === 0),
    payload: fc.oneof(
      fc.string({ unit: 'binary', maxLength: 60 }).map(text => Buffer.from(text)),
      fc.uint8Array({ maxLength: 140 }).map(bytes => Buffer.from(bytes)),
      fc.integer({ min: 120, max: 40_000 }).map(size => Buffer.alloc(size, 'é'))
    ),
    key: fc.uint8Array({ minLength: 4, maxLength: 4 })
  })
  .map(frame => (masked: boolean) => {
    const isMasked = frame.wrongMask ? !masked : masked
    const built = buildFrame(0, frame.payload, isMasked)
    built[0] = (frame.fin ? 0x80 : 0) | frame.rsv | frame.opcode
    return built
  })

t.test('frames cut anywhere are read as ws reads them, and pass byte for byte up to a wrong one', async t => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(rawFrame, { minLength: 1, maxLength: 8 }),
      fc.boolean(),
      fc.array(fc.nat(), { maxLength: 20 }),
      async (frames, masked, marks) => {
        const bytes = Buffer.concat(frames.map(frame => frame(masked)))
        const { passed: _theirs, ...expected } = await reference(bytes, masked)
        const { passed: _read, ...collected } = scan(cut(bytes, marks), masked, true)
        if (!isDeepStrictEqual(collected, expected))
          throw new Error(`${JSON.stringify(collected)} instead of ${JSON.stringify(expected)}`.slice(0, 1000))
        const { passed, fault } = scan(cut(bytes, marks), masked, false)
        const through = Buffer.concat(passed)
        if (!bytes.subarray(0, through.length).equals(through)) throw new Error('bytes were changed')
        // Passing checks text as it comes, reading checks it when it is whole.
        if (masked && collected.fault !== fault && fault !== 1007)
          throw new Error(`checked ${fault} in passing, ${collected.fault} when read`)
      }
    ),
    { numRuns: 1500 }
  )
  t.pass('1,500 streams agree')
})

/** A text message in masked fragments, cut anywhere. */
const maskedText = (payload: Buffer, fragmentMarks: readonly number[], marks: readonly number[]): Buffer[] => {
  const fragments = cut(payload, fragmentMarks)
  const frames = fragments.map((fragment, i) => {
    const frame = buildFrame(i === 0 ? 1 : 0, fragment, true)
    if (i < fragments.length - 1) frame[0] = i === 0 ? 1 : 0
    return frame
  })
  return cut(Buffer.concat(frames), marks)
}

// WS-13
t.test('masked text passes exactly when it is UTF-8, wherever its characters are cut', async t => {
  const marks = fc.array(fc.nat(), { maxLength: 8 })
  const change = fc.option(fc.record({ at: fc.nat(), byte: fc.integer({ min: 0, max: 255 }) }))
  const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(text, fc.constantFrom(1, 1, 3, 400), change, marks, marks, (piece, times, change, inner, outer) => {
      const payload = Buffer.from(piece.repeat(times))
      if (change !== null) payload[change.at % payload.length] = change.byte
      const { fault } = scan(maskedText(payload, inner, outer), true, false)
      if (fault !== (isUtf8(payload) ? 0 : 1007))
        throw new Error(`checked ${fault}: ${payload.toString('hex', 0, 200)}`)
    }),
    { numRuns: 300 }
  )
  t.pass('300 messages')
})

// WS-13
t.test('the first and the last character of each length may be cut at each of its bytes', async t => {
  for (const character of ['\u0080', '\u07ff', '\u0800', '\uffff', '\u{10000}', '\u{10ffff}']) {
    const payload = Buffer.from(character)
    for (let at = 1; at < payload.length; at++) {
      t.equal(scan(maskedText(payload, [at], []), true, false).fault, 0, 'between two frames')
      const [frame = Buffer.alloc(0)] = maskedText(payload, [], [])
      const begin = frame.length - payload.length + at
      t.equal(scan([frame.subarray(0, begin), frame.subarray(begin)], true, false).fault, 0, 'between two pieces')
    }
  }
})

t.test('a close code is one that may be sent (RFC 6455 §7.4)', async t => {
  const isValid = (code: number) => (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code)) || code >= 3000
  for (const code of [0, 999, ...Array.from({ length: 18 }, (_, n) => 1000 + n), 2999, 3000, 4999])
    t.equal(closeFault(closePayload(code, '')), isValid(code) ? 0 : 1002, String(code))
  t.equal(closeFault(closePayload(5000, '')), 1002)
})

t.test('a fault in the last byte of a frame that has partly passed is no frame boundary', async t => {
  const scanner = new FrameScanner({ masked: true, maxMessageBytes: MAX, holder: undefined })
  const sink = { onData: () => undefined, onMessage: () => undefined, onControl: () => undefined }
  const frame = buildFrame(1, Buffer.from([0xc3, 0x28]), true)
  t.equal(scanner.take(frame.subarray(0, -1), sink), 0)
  t.equal(scanner.take(frame.subarray(-1), sink), 1007)
  t.not(scanner.remaining, 0)
})

t.test('large messages that are never completed hold a bounded amount, and small ones still pass', async t => {
  const before = heldBytes()
  let read = 0
  const sink = { onData: () => undefined, onMessage: () => read++, onControl: () => undefined }
  const elsewhere = MOST_HELD_BYTES - 1_000_000 - before
  const others = createHolder()
  others.count(elsewhere)
  let people = 0
  const open = () => {
    const holder = createHolder()
    holder.belongsTo(++people)
    return new FrameScanner({ masked: true, maxMessageBytes: 1e6, holder })
  }
  const large = buildFrame(2, Buffer.alloc(300_000), true)
  const begun = Array.from({ length: 6 }, open)
  t.same(
    begun.map(scanner => scanner.take(large.subarray(0, -1), sink)),
    [0, 0, 0, 0, 1013, 1013]
  )
  t.equal(open().take(buildFrame(2, Buffer.alloc(60_000), true), sink), 0)
  t.equal(begun[0]?.take(large.subarray(-1), sink), 0)
  for (const scanner of begun) scanner.release()
  t.equal(open().take(large, sink), 0)
  t.equal(read, 3)
  others.count(-elsewhere)
  t.equal(heldBytes(), before)
})

t.test('a client that floods with frames is refused, whatever their kind', async t => {
  const scanner = new FrameScanner({ masked: true, maxMessageBytes: MAX, holder: undefined, messagesPerSecond: 0 })
  const sink = { onData: () => undefined, onMessage: () => undefined, onControl: () => undefined }
  const many = Buffer.concat(new Array(20_000).fill(buildFrame(2, Buffer.alloc(0), true)))
  t.equal(scanner.take(many, sink, 0), 0)
  t.equal(scanner.take(many, sink, 1000), 0, 'another second')
  t.equal(scanner.take(many.subarray(0, 6), sink, 1999), 1008)
})

// WS-11
t.test('a length of 2^63, an endless message and an endless row of fragments are refused at their headers', async t => {
  const huge = Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4])
  t.equal(scan([huge], true, false).fault, 1002)
  const large = Buffer.from([0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4])
  t.equal(scan([large], true, false).fault, 1009)
  const first = buildFrame(2, Buffer.alloc(0), true)
  const next = buildFrame(0, Buffer.alloc(0), true)
  first[0] = 2
  next[0] = 0
  t.equal(scan([first, ...new Array(20_000).fill(next)], true, false).fault, 1008)
})
