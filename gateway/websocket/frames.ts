// Builds frames of a WebSocket, and reads what is in them: masked text in pieces, and close codes (RFC 6455 §5, §8.1).
import { isUtf8 } from 'node:buffer'
import { randomFillSync } from 'node:crypto'

const PIECE_BYTES = 16 * 1024
// Room for the bytes of a character that the previous piece left incomplete.
const scratch = Buffer.allocUnsafeSlow(PIECE_BYTES + 4)

const maskByte = (mask: number, position: number): number => (mask >>> (24 - 8 * (position & 3))) & 255

/** Writes `source[from, to)` unmasked to `target` at `at`; `position` is that of `from` within the frame's payload. */
export const unmaskInto = (
  target: Buffer,
  at: number,
  source: Buffer,
  range: { from: number; to: number },
  mask: number,
  position: number
): void => {
  const m0 = maskByte(mask, position)
  const m1 = maskByte(mask, position + 1)
  const m2 = maskByte(mask, position + 2)
  const m3 = maskByte(mask, position + 3)
  let out = at
  let i = range.from
  for (const last = range.to - 3; i < last; i += 4, out += 4) {
    target[out] = (source[i] ?? 0) ^ m0
    target[out + 1] = (source[i + 1] ?? 0) ^ m1
    target[out + 2] = (source[i + 2] ?? 0) ^ m2
    target[out + 3] = (source[i + 3] ?? 0) ^ m3
  }
  if (i < range.to) target[out++] = (source[i++] ?? 0) ^ m0
  if (i < range.to) target[out++] = (source[i++] ?? 0) ^ m1
  if (i < range.to) target[out++] = (source[i++] ?? 0) ^ m2
}

const incompleteAtEnd = (end: number): number => {
  for (let back = 1; back <= 3 && back <= end; back++) {
    const byte = scratch[end - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return needed > back ? back : 0
  }
  return 0
}

/** Up to three bytes and their number in one integer; 0: none. */
const packCarry = (end: number, count: number): number => {
  let carry = count
  for (let i = 0; i < 3; i++) carry = carry * 256 + (i < count ? (scratch[end - count + i] ?? 0) : 0)
  return carry
}

const unpackCarry = (carry: number): number => {
  const count = Math.floor(carry / 0x1000000)
  for (let i = 0; i < count; i++) scratch[i] = (carry >>> (16 - 8 * i)) & 255
  return count
}

const SHORT_BYTES = 64

/** Whether all of it is ASCII; for short pieces cheaper than the general check. */
const isMaskedAscii = (source: Buffer, from: number, to: number, mask: number, position: number): boolean => {
  for (let i = from; i < to; i++) {
    if (((source[i] ?? 0) ^ maskByte(mask, position + i - from)) > 0x7f) return false
  }
  return true
}

export const INVALID_UTF8 = -1

/** Takes the next masked bytes of a text message; returns the carry for the next call, or {@link INVALID_UTF8}. */
export const checkMaskedText = (
  carry: number,
  source: Buffer,
  range: { from: number; to: number },
  mask: number,
  position: number
): number => {
  const { from: begin, to: end } = range
  if (carry === 0 && end - begin <= SHORT_BYTES && isMaskedAscii(source, begin, end, mask, position)) return 0
  let kept = carry
  for (let from = begin; from < end; from += PIECE_BYTES) {
    const to = Math.min(end, from + PIECE_BYTES)
    const before = kept === 0 ? 0 : unpackCarry(kept)
    unmaskInto(scratch, before, source, { from, to }, mask, position + from - begin)
    const filled = before + to - from
    const incomplete = incompleteAtEnd(filled)
    if (!isUtf8(scratch.subarray(0, filled - incomplete))) return INVALID_UTF8
    kept = incomplete === 0 ? 0 : packCarry(filled, incomplete)
  }
  return kept
}

export const CONTINUATION = 0
export const TEXT = 1
export const BINARY = 2
export const CLOSE = 8
export const PING = 9
export const PONG = 10

/** Close code for the sender's violation (RFC 6455 §7.4.1), or for a message that there is no memory for; 0: none. */
export type FrameFault = 0 | 1002 | 1007 | 1008 | 1009 | 1013

/** Longest payload of a control frame (§5.5). */
export const MAX_CONTROL_BYTES = 125

/** One whole frame; masked with a new key if it goes to a server (RFC 6455 §5.3). */
export const buildFrame = (opcode: number, payload: Buffer, masked: boolean): Buffer => {
  const length = payload.length
  const extended = length > 0xffff ? 8 : length > MAX_CONTROL_BYTES ? 2 : 0
  const header = 2 + extended + (masked ? 4 : 0)
  const frame = Buffer.allocUnsafe(header + length)
  frame[0] = 0x80 | opcode
  frame[1] = (masked ? 0x80 : 0) | (extended === 8 ? 127 : extended === 2 ? 126 : length)
  if (extended === 2) frame.writeUInt16BE(length, 2)
  if (extended === 8) {
    frame.writeUInt32BE(Math.floor(length / 0x100000000), 2)
    frame.writeUInt32BE(length >>> 0, 6)
  }
  if (!masked) {
    payload.copy(frame, header)
    return frame
  }
  randomFillSync(frame, header - 4, 4)
  unmaskInto(frame, header, payload, { from: 0, to: length }, frame.readUInt32BE(header - 4), 0)
  return frame
}

/** The payload of a close frame; `reason` at most 123 bytes (RFC 6455 §5.5.1). */
export const closePayload = (code: number, reason: string): Buffer => {
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason))
  payload.writeUInt16BE(code, 0)
  payload.write(reason, 2)
  return payload
}

/** Validates the payload of a received close frame (RFC 6455 §5.5.1, §7.4). */
export const closeFault = (payload: Buffer): FrameFault => {
  if (payload.length === 0) return 0
  if (payload.length === 1) return 1002
  const code = payload.readUInt16BE(0)
  const isDefined = code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006
  if (!isDefined && (code < 3000 || code > 4999)) return 1002
  return isUtf8(payload.subarray(2)) ? 0 : 1007
}
