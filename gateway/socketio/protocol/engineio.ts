// Reads and writes Engine.IO 4 packets, for both transports.

/** Packet types of the protocol; `b` is a binary message. */
type EngineType = '0' | '1' | '2' | '3' | '4' | '5' | '6' | 'b'

export interface EnginePacket {
  readonly type: EngineType
  /** The whole packet as text, including its type; '' for a binary WebSocket frame. */
  readonly text: string
  /** The bytes of a binary WebSocket frame. */
  readonly bytes?: Buffer
}

/** How many bytes a server may answer to a poll, or send before it confirms a CONNECT: the stock one sends all that it has at once. */
export const burstBytes = (maxMessageBytes: number): number => Math.max(16_000_000, 4 * maxMessageBytes)

export const SEPARATOR = '\x1e'
/** Ends the session, whichever side sends it. */
export const ENGINE_CLOSE = '1'
const TYPES = /^[0-6b]/
const NOT_BASE64 = /[^A-Za-z0-9+/]/
/** How many `=` may follow, by the number of characters in the last group (RFC 4648 §4). */
const PADDINGS: readonly (readonly number[])[] = [[0], [], [0, 2], [0, 1]]

export const binaryFrame = (bytes: Buffer): EnginePacket => ({ type: 'b', text: '', bytes })

/** One packet from a text frame or a payload; undefined: not a packet of the protocol. */
export const readEnginePacket = (text: string): EnginePacket | undefined => {
  const type = TYPES.exec(text)?.[0]
  if (type === undefined) return undefined
  if (type === 'b') return readBase64(text.slice(1))
  return { type: type as EngineType, text }
}

/** Not by a pattern that repeats a group: V8 has room for a million of them, which is an attachment of 3 MB. */
const isBase64 = (text: string): boolean => {
  const digits = text.replace(/={1,2}$/, '')
  const padding = text.length - digits.length
  return !NOT_BASE64.test(digits) && PADDINGS[digits.length % 4]?.includes(padding) === true
}

/** Base64 with line breaks, as the Java client writes it, or without padding; forwarded in one spelling (RFC 4648 §4). */
const readBase64 = (text: string): EnginePacket | undefined => {
  const unbroken = text.replace(/[\r\n]/g, '')
  return isBase64(unbroken) ? { type: 'b', text: binaryText(Buffer.from(unbroken, 'base64')) } : undefined
}

const binaryText = (bytes: Buffer): string => `b${bytes.toString('base64')}`

/** A packet in the form for a payload or a store. */
export const textOf = ({ text, bytes }: EnginePacket): string => (bytes === undefined ? text : binaryText(bytes))

/** The bytes of a binary message given as text; undefined: not a binary message. */
export const bytesOf = (text: string): Buffer | undefined =>
  text.startsWith('b') ? Buffer.from(text.slice(1), 'base64') : undefined

/** All packets of a polling payload; undefined: one of them is invalid. */
export const readEnginePayload = (payload: string): EnginePacket[] | undefined => {
  const packets = payload.split(SEPARATOR).map(readEnginePacket)
  return packets.every(packet => packet !== undefined) ? packets : undefined
}
