// Checks masked text that arrives in pieces for valid UTF-8 (RFC 6455 §8.1).
import { isUtf8 } from 'node:buffer'

const PIECE_BYTES = 16 * 1024
// Room for the bytes of a character that the previous piece left incomplete.
const scratch = Buffer.allocUnsafeSlow(PIECE_BYTES + 4)

/** The byte of a masking key for a position in the payload (RFC 6455 §5.3). */
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

/** Number of bytes at the end that belong to an incomplete character. */
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
