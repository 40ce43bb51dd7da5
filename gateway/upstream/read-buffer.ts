// Chooses the memory that an upstream's socket reads into: one buffer for all sockets, or a private one for large bodies.

const BUFFER_BYTES = 64 * 1024
// A read of this size switches to a private buffer, and a smaller one switches back.
const BULK_BEGINS_BYTES = BUFFER_BYTES / 2
const BULK_ENDS_BYTES = BUFFER_BYTES / 16
/** Whatever is kept, small bodies too, is copied out before the next read of any socket. */
export const sharedReadBuffer = Buffer.allocUnsafeSlow(BUFFER_BYTES)

export class ReadBuffer {
  #own: Buffer | undefined

  /** What was read needs no copy until the next read. */
  get isPrivate(): boolean {
    return this.#own !== undefined
  }

  /** Where the next read goes. */
  get next(): Buffer {
    return this.#own ?? sharedReadBuffer
  }

  /** @param lastRead its bytes; 0 if the response is over */
  adapt(lastRead: number): void {
    if (lastRead < BULK_ENDS_BYTES) this.#own = undefined
    else if (lastRead >= BULK_BEGINS_BYTES) this.#own ??= Buffer.allocUnsafeSlow(BUFFER_BYTES)
  }
}
