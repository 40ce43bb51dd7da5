// Frees the memory of forwarded bodies at once.
// That memory is outside the collector's heap, and would make it traverse the whole heap about every 64 MB, however little
// of it is in use: ten times a second while large bodies are forwarded.
import type { Writable } from 'node:stream'

const WORTH_FREEING_BYTES = 4096

/** Frees the memory of an unused chunk at once, if that is worthwhile; the chunk is then empty. */
export const freeMemory = ({ buffer, byteLength }: Buffer): void => {
  // A part of a larger buffer has other users.
  const isWhole = buffer.byteLength === byteLength && buffer instanceof ArrayBuffer
  if (isWhole && byteLength >= WORTH_FREEING_BYTES) buffer.transfer(0)
}

/** Writes a chunk that nothing else uses any more; returns what `write` returns. */
export const writeAndFree = (to: Writable, chunk: Buffer): boolean =>
  chunk.length < WORTH_FREEING_BYTES ? to.write(chunk) : to.write(chunk, () => freeMemory(chunk))
