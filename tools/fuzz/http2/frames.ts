// Writes a message as HTTP/2 frames in one of the many ways that mean the same.
import { FRAMES, frame, literal } from '../../../test/support/http2-client.ts'
import type { Random } from '../mutate.ts'
import type { Field } from '../readings/http-lines.ts'
import type { Message } from './messages.ts'

/** What must not be separated, for the stream that the message gets. */
type Frames = (stream: number) => Buffer

const [END_STREAM, END_HEADERS] = [0x1, 0x4]
const endOf = (isLast: boolean): number => (isLast ? END_STREAM : 0)

/** HEADERS, and CONTINUATION for what is left. How a field is compressed is for nghttp2 alone. */
const headersOf = (fields: readonly Field[], isLast: boolean, random: Random): Frames => {
  const block = Buffer.concat(fields.map(([name, value]) => literal(name, value)))
  if (block.length < 2 || random.below(4) > 0)
    return stream => frame(FRAMES.headers, endOf(isLast) | END_HEADERS, stream, block)
  const cut = 1 + random.below(block.length - 1)
  return stream =>
    Buffer.concat([
      frame(FRAMES.headers, endOf(isLast), stream, block.subarray(0, cut)),
      frame(FRAMES.continuation, END_HEADERS, stream, block.subarray(cut))
    ])
}

const dataOf = (text: string, isLast: boolean): Frames => {
  const payload = Buffer.from(text, 'latin1')
  return stream => frame(FRAMES.data, endOf(isLast), stream, payload)
}

const bytes = (length: number, ...first: number[]) => Buffer.from([...first, ...Array(length - first.length).fill(0)])

/** Frames that change nothing. */
const HARMLESS: readonly Frames[] = [
  stream => frame(0xfa, 0xff, stream, bytes(3)),
  stream => frame(FRAMES.priority, 0, stream, bytes(5, 0, 0, 0, 0, 15)),
  () => frame(FRAMES.windowUpdate, 0, 0, bytes(4, 0, 0, 0, 9))
]

/** In the order in which they are sent, other streams' between them. */
export const framesOf = (message: Message, random: Random): Frames[] => {
  const { fields, body, end, trailers } = message
  const frames = [headersOf(fields, end === 'headers', random)]
  if (end !== 'headers')
    for (const [index, text] of body.entries()) frames.push(dataOf(text, end === 'data' && index === body.length - 1))
  if (end === 'data' && body.length === 0) frames.push(dataOf('', true))
  if (end === 'trailers') frames.push(headersOf(trailers, true, random))
  if (end === 'reset') frames.push(stream => frame(FRAMES.resetStream, 0, stream, bytes(4, 0, 0, 0, 8)))
  // Not before the first, which begins the stream, nor behind the last.
  if (frames.length > 1 && random.below(5) === 0)
    frames.splice(1 + random.below(frames.length - 1), 0, random.pick(HARMLESS))
  return frames
}
