// Provides the memory that bodies and frames pass through: one buffer to read into, and copies for sockets to write.
// The rule for all bytes of a connection: a chunk given to a callback is valid until the callback returns, and what it keeps
// or writes is copied.

const READ_BYTES = 64 * 1024
/** Copies from this size on use the same memory again, because V8 traverses its heap whenever much memory outside it was allocated. */
const BULK_BYTES = 16 * 1024
const MOST_SPARE = 64

/** Every plain socket reads into it. */
export const readMemory = Buffer.allocUnsafeSlow(READ_BYTES)

/** Only what no write uses any more. */
const spare: Buffer[] = []

interface Writes {
  write(bytes: Uint8Array, written?: (error?: Error | null) => void): boolean
}

/** Writes a copy of bytes, and returns what `write` returns. */
export const writeCopy = (to: Writes, bytes: Buffer): boolean => {
  if (bytes.length < BULK_BYTES || bytes.length > READ_BYTES) return to.write(Buffer.from(bytes))
  const copy = spare.pop() ?? Buffer.allocUnsafeSlow(READ_BYTES)
  bytes.copy(copy)
  return to.write(copy.subarray(0, bytes.length), error => {
    // The memory of a failed write is left to the collector.
    if (!error && spare.length < MOST_SPARE) spare.push(copy)
  })
}
