// Builds frames of a WebSocket, and reads the close code in one (RFC 6455 §5).
import { isUtf8 } from 'node:buffer'
import { randomFillSync } from 'node:crypto'
import { unmaskInto } from './utf8-stream.ts'

export const CONTINUATION = 0
export const TEXT = 1
export const BINARY = 2
export const CLOSE = 8
export const PING = 9
export const PONG = 10

/** Close code for the sender's violation (RFC 6455 §7.4.1); 0: none. */
export type FrameFault = 0 | 1002 | 1007 | 1008 | 1009

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
