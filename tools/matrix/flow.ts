// Writes with backpressure, and waits until the other side can write no more because nothing is read.
import type { Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'

const LOOK_EVERY_MS = 5
const LOOKS = 4

/** Resolves once more may be written, or nothing will ever be. */
export const write = async (to: Writable, chunk: Buffer): Promise<void> => {
  if (to.write(chunk) || to.destroyed) return
  await new Promise<void>(resolve => {
    const settle = () => {
      to.off('drain', settle).off('close', settle)
      resolve()
    }
    to.on('drain', settle).on('close', settle)
  })
}

/** @param progress what the other side has done; `done` when that is everything */
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
