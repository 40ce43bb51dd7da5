// Reads WebSocket frames with the gateway's scanner, and with a model of RFC 6455 §5 that sees all bytes at once.
import { isUtf8 } from 'node:buffer'
import { FrameScanner } from '../../../../gateway/websocket/frame-scanner.ts'
import type { Random } from '../../mutate.ts'
import { Fault, type Target } from '../engine.ts'
import { splitBytes } from '../split.ts'

const MAX_MESSAGE = 300

interface Read {
  /** Messages and control frames in their order. */
  readonly events: string[]
  fault: number
}

const readByGateway = (pieces: readonly Buffer[]): Read => {
  const scanner = new FrameScanner({ masked: true, maxMessageBytes: MAX_MESSAGE, collect: true })
  const read: Read = { events: [], fault: 0 }
  const sink = {
    onData: () => undefined,
    onMessage: (isText: boolean, payload: Buffer) => void read.events.push(`${isText} ${payload.toString('latin1')}`),
    onControl: (opcode: number, payload: Buffer) => void read.events.push(`${opcode} ${payload.toString('latin1')}`)
  }
  for (const piece of pieces) {
    read.fault = scanner.take(piece, sink)
    if (read.fault !== 0 || scanner.closed) break
  }
  return read
}

const readByModel = (bytes: Buffer): Read => {
  const read: Read = { events: [], fault: 0 }
  const fail = (fault: number): Read => ({ ...read, fault })
  let at = 0
  let message: { isText: boolean; parts: Buffer[] } | undefined
  while (bytes.length - at >= 2) {
    const [first = 0, second = 0] = bytes.subarray(at)
    const [isFinal, opcode, short] = [first >= 0x80, first & 15, second & 127]
    // §5.2: no extension was negotiated; §5.1: clients mask; §5.5: control frames are whole and short.
    if ((first & 0x70) !== 0 || second < 0x80) return fail(1002)
    if ((opcode > 2 && opcode < 8) || opcode > 10) return fail(1002)
    if (opcode >= 8 && (!isFinal || short > 125)) return fail(1002)
    if (opcode < 8 && (opcode === 0) === (message === undefined)) return fail(1002)
    const wide = short === 126 ? 2 : short === 127 ? 8 : 0
    if (bytes.length - at < 6 + wide) return read
    const length = wide === 0 ? short : wide === 2 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
    const known = message?.parts.reduce((sum, part) => sum + part.length, 0) ?? 0
    if (opcode < 8 && known + length > MAX_MESSAGE) return fail(1009)
    const start = at + 6 + wide
    if (bytes.length - start < length) return read
    const payload = Buffer.from(bytes.subarray(start, start + length))
    for (const [index, byte] of payload.entries()) payload[index] = byte ^ (bytes[start - 4 + (index & 3)] ?? 0)
    at = start + length
    if (opcode >= 8) {
      read.events.push(`${opcode} ${payload.toString('latin1')}`)
      if (opcode === 8) return read
      continue
    }
    message ??= { isText: opcode === 1, parts: [] }
    message.parts.push(payload)
    if (!isFinal) continue
    const whole = Buffer.concat(message.parts)
    if (message.isText && !isUtf8(whole)) return fail(1007)
    read.events.push(`${message.isText} ${whole.toString('latin1')}`)
    message = undefined
  }
  return read
}

const run = (input: string, random: Random): string => {
  const bytes = Buffer.from(input, 'latin1')
  const [ours, split, model] = [readByGateway([bytes]), readByGateway(splitBytes(bytes, random)), readByModel(bytes)]
  const textOf = ({ events, fault }: Read) => `${fault} ${events.join('\0')}`
  if (textOf(ours) !== textOf(split))
    throw new Fault(`split frames are read in another way: ${ours.fault} or ${split.fault}`)
  if (ours.fault === 0 && model.fault === 0 && textOf(ours) !== textOf(model))
    throw new Fault('other messages by the model')
  // The gateway may know of a fault earlier, from a header or the first bytes of a text that is none.
  if (ours.fault === 0 && model.fault !== 0) throw new Fault(`a fault by the model alone: ${model.fault}`)
  for (const [index, event] of ours.events.entries())
    if (event !== model.events[index]) throw new Fault(`event ${index + 1} is another one by the model`)
  return `${ours.fault} ${model.fault} ${ours.events.map(event => `${event.slice(0, 2)}${Math.min(event.length, 4)}`).join()}`
}

/** A masked frame with a mask of zeros, so that its payload can be read. */
const frame = (first: number, payload: string): string => {
  const length =
    payload.length < 126
      ? String.fromCharCode(0x80 | payload.length)
      : `\xfe${String.fromCharCode(payload.length >> 8, payload.length & 255)}`
  return `${String.fromCharCode(first)}${length}\0\0\0\0${payload}`
}

const PAYLOADS = [
  '',
  'a',
  'hello',
  '\xc3\xa9',
  '\xe2\x82\xac',
  '\xf0\x9f\x98\x80',
  '\xc3',
  '\xa9',
  '\xed\xa0\x80',
  'x'.repeat(130),
  '\x03\xe8bye'
]

export const webSocketFrames: Target = {
  name: 'websocket-frames',
  words: [
    ...[
      '\x81\x80\0\0\0\0',
      '\x01\x80\0\0\0\0',
      '\x80\x80\0\0\0\0',
      '\0\x80\0\0\0\0',
      '\x88\x82\0\0\0\0\x03\xe8',
      '\x89\x80\0\0\0\0'
    ],
    ...[
      '\xff',
      '\xfe',
      '\x7f',
      '\xc3',
      '\xa9',
      '\xf0\x9f',
      '\x98\x80',
      '\x82\xfe\0\x7e',
      '\x82\xff\0\0\0\0\0\0\0\x01',
      '\x91',
      '\x83',
      '\x8b'
    ]
  ],
  seeds: [
    frame(0x81, 'hello'),
    frame(0x01, '\xc3') + frame(0x80, '\xa9'),
    frame(0x89, 'x') + frame(0x88, '\x03\xe8'),
    frame(0x82, 'x'.repeat(200))
  ],
  generate: random =>
    Array.from({ length: 1 + random.below(4) }, () =>
      frame(random.pick([0x81, 0x01, 0x80, 0x00, 0x82, 0x89, 0x8a, 0x88]), random.pick(PAYLOADS))
    ).join(''),
  run
}
