// Makes bodies whose every byte tells its position, and checks the bytes that arrive against them.
import { randomBytes } from 'node:crypto'

/** A prime, so that a block that was moved, repeated or left out is noticed. */
const PERIOD = 65_521
const MAX_PIECE = 64 * 1024
const period = randomBytes(PERIOD)
const repeated = Buffer.concat([period, period, period])

/** @param length at most 64 KB */
export const bytesAt = (position: number, length: number): Buffer => {
  const at = position % PERIOD
  return repeated.subarray(at, at + length)
}

/** The pieces that a body of this size is written in. */
export const piecesOf = function* (size: number): Generator<Buffer> {
  for (let at = 0; at < size; at += MAX_PIECE) yield bytesAt(at, Math.min(MAX_PIECE, size - at))
}

export interface BodyCheck {
  take(chunk: Buffer): void
  /** Number of bytes so far. */
  readonly length: number
  /** Where the first wrong byte arrived, roughly. */
  readonly wrongAt: number | undefined
}

/** @param start position of its first byte */
export const createBodyCheck = (start = 0): BodyCheck => {
  let length = 0
  let wrongAt: number | undefined
  return {
    take(chunk) {
      for (let at = 0; at < chunk.length; at += MAX_PIECE) {
        const part = chunk.subarray(at, at + MAX_PIECE)
        if (wrongAt === undefined && !part.equals(bytesAt(start + length, part.length))) wrongAt = length
        length += part.length
      }
    },
    get length() {
      return length
    },
    get wrongAt() {
      return wrongAt
    }
  }
}
