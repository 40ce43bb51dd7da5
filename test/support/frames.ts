// Builds and reads WebSocket frames, for tests that speak the protocol byte by byte.
export { buildFrame, closePayload } from '../../gateway/websocket/frames.ts'
export { acceptOf } from '../../gateway/websocket/handshake.ts'

/** The whole frames at the start of these bytes, unmasked (RFC 6455 §5.2). */
export const framesIn = (bytes: Buffer) => {
  const found: { opcode: number; payload: Buffer }[] = []
  for (let at = 0; at + 2 <= bytes.length; ) {
    const [first = 0, second = 0] = bytes.subarray(at, at + 2)
    const [isMasked, short] = [second > 127, second & 127]
    const key = at + (short === 127 ? 10 : short === 126 ? 4 : 2)
    const start = key + (isMasked ? 4 : 0)
    if (start > bytes.length) break
    const length = short < 126 ? short : Number(`0x${bytes.toString('hex', at + 2, key)}`)
    if (start + length > bytes.length) break
    const sent = bytes.subarray(start, start + length)
    const payload = isMasked ? sent.map((byte, i) => byte ^ (bytes[key + (i & 3)] ?? 0)) : sent
    found.push({ opcode: first & 15, payload: Buffer.from(payload) })
    at = start + length
  }
  return found
}

/** The code of the close frame among them; 1005: it has none; undefined: no such frame has come. */
export const closeCodeIn = (bytes: Buffer): number | undefined => {
  const payload = framesIn(bytes).find(({ opcode }) => opcode === 8)?.payload
  return payload?.length === 0 ? 1005 : payload?.readUInt16BE(0)
}
