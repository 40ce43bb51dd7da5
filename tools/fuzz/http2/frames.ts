// Writes a message as HTTP/2 frames in one of the many ways that mean the same.
import { FRAMES, frame, literalText, stringText } from '../../../test/support/http2-client.ts'
import type { Random } from '../mutate.ts'
import type { Field, Message } from './messages.ts'

/** What must not be separated, for the stream that the message gets. */
type Frames = (stream: number) => Buffer

const [END_STREAM, END_HEADERS, PADDED, PRIORITY] = [0x1, 0x4, 0x8, 0x20]
const NO_PRIORITY = Buffer.from([0, 0, 0, 0, 15])

/** Of the static table (RFC 7541, Appendix A): names, and whole fields. */
const STATIC_NAMES: Readonly<Record<string, number>> = {
  ':authority': 1,
  ':method': 2,
  ':path': 4,
  accept: 19,
  'content-length': 28,
  cookie: 32,
  host: 38
}
const STATIC_FIELDS: Readonly<Record<string, string>> = {
  ':method GET': '\x82',
  ':method POST': '\x83',
  ':path /': '\x84',
  ':scheme https': '\x87'
}
const REPEATED = '\xbe'

const blockOf = (fields: readonly Field[], random: Random): Buffer => {
  let block = random.below(20) === 0 ? '\x3f\xe1\x1f' : ''
  let isInTable = false
  for (const [index, [name, value]] of fields.entries()) {
    const [before] = fields.slice(Math.max(0, index - 1), index)
    const whole = STATIC_FIELDS[`${name} ${value}`]
    const position = STATIC_NAMES[name]
    if (isInTable && before?.[0] === name && before[1] === value) block += REPEATED
    else if (whole !== undefined && random.below(4) > 0) block += whole
    else if (position !== undefined && random.below(2) === 0) {
      block += String.fromCharCode(0x40 + position) + stringText(value)
      isInTable = true
      continue
    } else {
      const kind = random.pick(['\0', '\0', '\x10', '\x40'])
      block += literalText(name, value, kind)
      isInTable = kind === '\x40'
      continue
    }
    isInTable &&= block.endsWith(REPEATED)
  }
  return Buffer.from(block, 'latin1')
}

const padded = (payload: Buffer, random: Random): { flag: number; payload: Buffer } => {
  if (random.below(12) > 0) return { flag: 0, payload }
  const length = random.below(9)
  return { flag: PADDED, payload: Buffer.concat([Buffer.from([length]), payload, Buffer.alloc(length)]) }
}

/** HEADERS, and CONTINUATION for what is left. */
const headersOf = (fields: readonly Field[], isLast: boolean, random: Random): Frames => {
  const block = blockOf(fields, random)
  const whole = block.length < 2 || random.below(4) > 0
  const cuts = whole ? [] : [block.length, 1 + random.below(block.length - 1), block.length].slice(random.below(3))
  const parts = [0, ...cuts.toSorted((a, b) => a - b)].map((from, index, all) => block.subarray(from, all[index + 1]))
  const [first = block, ...rest] = parts
  const weighted = random.below(6) === 0
  const { flag, payload } = padded(weighted ? Buffer.concat([NO_PRIORITY, first]) : first, random)
  const flags = flag | (weighted ? PRIORITY : 0) | (isLast ? END_STREAM : 0) | (rest.length === 0 ? END_HEADERS : 0)
  return stream =>
    Buffer.concat([
      frame(FRAMES.headers, flags, stream, payload),
      ...rest.map((part, index) =>
        frame(FRAMES.continuation, index === rest.length - 1 ? END_HEADERS : 0, stream, part)
      )
    ])
}

const dataOf = (text: string, isLast: boolean, random: Random): Frames => {
  const { flag, payload } = padded(Buffer.from(text, 'latin1'), random)
  return stream => frame(FRAMES.data, flag | (isLast ? END_STREAM : 0), stream, payload)
}

const bytes = (length: number, ...first: number[]) => Buffer.from([...first, ...Array(length - first.length).fill(0)])

/** Frames that change nothing. */
const HARMLESS: readonly Frames[] = [
  stream => frame(0xfa, 0xff, stream, bytes(3)),
  stream => frame(FRAMES.priority, 0, stream, NO_PRIORITY),
  () => frame(FRAMES.windowUpdate, 0, 0, bytes(4, 0, 0, 0, 9))
]

/** Whether a frame of it is padded. */
export const arePadded = (frames: readonly Frames[]): boolean =>
  frames.some(one => {
    const bytes = one(1)
    return (bytes[3] ?? 9) <= 1 && ((bytes[4] ?? 0) & PADDED) !== 0
  })

/** In the order in which they are sent, other streams' between them. */
export const framesOf = (message: Message, random: Random): Frames[] => {
  const { fields, body, end, trailers } = message
  const frames = [headersOf(fields, end === 'headers', random)]
  if (end !== 'headers')
    for (const [index, text] of body.entries())
      frames.push(dataOf(text, end === 'data' && index === body.length - 1, random))
  if (end === 'data' && body.length === 0) frames.push(dataOf('', true, random))
  if (end === 'trailers') frames.push(headersOf(trailers, true, random))
  if (end === 'reset') frames.push(stream => frame(FRAMES.resetStream, 0, stream, bytes(4, 0, 0, 0, 8)))
  // Not before the first, which begins the stream, nor behind the last.
  if (frames.length > 1 && random.below(5) === 0)
    frames.splice(1 + random.below(frames.length - 1), 0, random.pick(HARMLESS))
  return frames
}
