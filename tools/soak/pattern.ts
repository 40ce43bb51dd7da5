// Makes and checks bodies in which no byte can be lost, doubled or moved without being noticed.
import { createHash } from 'node:crypto'

/** A prime, so that no size of a buffer or of a record divides it. */
const PERIOD = 65_537

const once = Buffer.alloc(PERIOD)
for (let at = 0, block = 0; at < PERIOD; block++) {
  at += createHash('sha256').update(`soak ${block}`).digest().copy(once, at)
}
const twice = Buffer.concat([once, once])

/** The bytes of the body of this seed from `at` on, at most 64 KB. */
export const patternAt = (seed: number, at: number, length: number): Buffer => {
  const from = (seed + at) % PERIOD
  return twice.subarray(from, from + Math.min(length, PERIOD))
}

export interface PatternCheck {
  /** Bytes so far; all of them are right while `wrongAt` is undefined. */
  readonly length: number
  /** Position of the first wrong byte. */
  readonly wrongAt: number | undefined
  take(bytes: Buffer): void
}

export const checkPattern = (seed: number): PatternCheck => {
  const check = {
    length: 0,
    wrongAt: undefined as number | undefined,
    take(bytes: Buffer) {
      for (let at = 0; at < bytes.length; at += PERIOD) {
        const part = bytes.subarray(at, at + PERIOD)
        const expected = patternAt(seed, check.length + at, part.length)
        if (check.wrongAt === undefined && !part.equals(expected))
          check.wrongAt = check.length + at + part.findIndex((byte, index) => byte !== expected[index])
      }
      check.length += bytes.length
    }
  }
  return check
}
