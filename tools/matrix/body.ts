// Makes bodies whose every byte tells its position, writes them with backpressure, and checks the bytes that arrive against them.
import { randomBytes } from 'node:crypto'
import type { Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'

/** A body on its way through a gateway, and what its sender and receiver do. */
export interface Body {
  /** Bytes. */
  readonly size: number
  /** Of the response; only that can end with its connection. */
  readonly framing: 'length' | 'chunked' | 'close' | 'trailers'
  /** Where it goes: to the client, to the backend, or both ways at once. */
  readonly direction: 'down' | 'up' | 'both'
  /** What its receiver does: the backend's for `up`, else the client's. */
  readonly reader: 'fast' | 'slow' | 'leaves'
  /** Where the backend resets the connection, or answers without reading the body. */
  readonly breaks?: 'before' | 'midway' | 'early'
  /** The first bytes of a response come together with its head. */
  readonly isWithHead?: boolean
  /** Uploaded in chunks whatever the framing of the response is. */
  readonly isUploadChunked?: boolean
  /** It is written in pieces of these sizes; by default of 64 KB. */
  readonly pieceSizes?: readonly number[]
  /** Between the first pieces. */
  readonly pauseMs?: number
}

/** A prime, so that a block that was moved, repeated or left out is noticed. */
const PERIOD = 65_521
const MAX_PIECE = 64 * 1024
/** Records may be small, and a pause takes as long as the machine is busy. */
const PAUSES = 50
const LOOK_EVERY_MS = 5
const LOOKS = 4
const period = randomBytes(PERIOD)
const repeated = Buffer.concat([period, period, period])

export const some = <T>(values: readonly T[]): T => values[Math.floor(Math.random() * values.length)] as T

/** @param length at most 64 KB */
const bytesAt = (position: number, length: number): Buffer => {
  const at = position % PERIOD
  return repeated.subarray(at, at + length)
}

/** Resolves once more may be written, or nothing will ever be. */
const write = async (to: Writable, chunk: Buffer): Promise<void> => {
  if (to.write(chunk) || to.destroyed) return
  await new Promise<void>(resolve => {
    const settle = () => {
      to.off('drain', settle).off('close', settle)
      resolve()
    }
    to.on('drain', settle).on('close', settle)
  })
}

/**
 * @param start position of its first byte
 * @param beforePiece resolves when a piece that ends there may be written
 */
export const writeBody = async (
  to: Writable,
  { pieceSizes = [MAX_PIECE], pauseMs }: Pick<Body, 'pieceSizes' | 'pauseMs'>,
  start: number,
  size: number,
  onWritten: (bytes: number) => void,
  beforePiece: (end: number) => unknown = () => undefined
) => {
  for (let at = 0, pauses = 0; at < size && !to.destroyed; ) {
    const piece = bytesAt(start + at, Math.min(some(pieceSizes), size - at))
    at += piece.length
    await beforePiece(at)
    await write(to, piece)
    onWritten(piece.length)
    if (pauseMs !== undefined && pauses++ < PAUSES) await delay(pauseMs)
  }
}

/**
 * Waits until the other side can write no more because nothing is read.
 *
 * @param progress what the other side has done; `done` when that is everything
 */
export const stall = async (progress: () => number | 'done'): Promise<void> => {
  let before = progress()
  for (let unchanged = 0; unchanged < LOOKS; ) {
    await delay(LOOK_EVERY_MS)
    const now = progress()
    if (now === 'done') return
    unchanged = now === before ? unchanged + 1 : 0
    before = now
  }
}

export type BodyCheck = ReturnType<typeof createBodyCheck>

/** @param start position of its first byte */
export const createBodyCheck = (start: number) => {
  let length = 0
  let wrongAt: number | undefined
  return {
    take(chunk: Buffer) {
      for (let at = 0; at < chunk.length; at += MAX_PIECE) {
        const part = chunk.subarray(at, at + MAX_PIECE)
        if (wrongAt === undefined && !part.equals(bytesAt(start + length, part.length))) wrongAt = length
        length += part.length
      }
    },
    /** Number of bytes so far. */
    get length() {
      return length
    },
    /** Where the first wrong byte arrived, roughly. */
    get wrongAt() {
      return wrongAt
    }
  }
}
