// Collects the body of a request in one piece of memory, however small the parts in which it arrives.

/** What all of them may hold; beyond it, uploads are sent on with what has arrived. */
const MOST_HELD_BYTES = 64 * 1024 * 1024
const SMALLEST_BYTES = 1024
const NOTHING = Buffer.alloc(0)

let held = 0

/** Bytes of memory that buffered bodies hold in this process. */
export const heldBodyBytes = (): number => held

export class BodyBuffer {
  readonly #limitBytes: number
  #memory: Buffer = NOTHING
  #length = 0
  /** Its part of what all of them hold. */
  #held = 0

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes
  }

  /** Whether what has arrived is to be sent on. */
  get isFull(): boolean {
    return this.#length >= this.#limitBytes || held > MOST_HELD_BYTES
  }

  get length(): number {
    return this.#length
  }

  get bytes(): Buffer {
    return this.#memory.subarray(0, this.#length)
  }

  /** Adds a copy, even beyond the limit. */
  add(chunk: Buffer): void {
    const length = this.#length + chunk.length
    // Doubled, so that neither many small pieces nor a body that never arrives hold more than twice what has arrived.
    if (length > this.#memory.length)
      this.#resize(Math.max(length, Math.min(this.#limitBytes, 2 * this.#memory.length)))
    chunk.copy(this.#memory, this.#length)
    this.#length = length
  }

  /** Its bytes have been copied to a socket, and count until `release`. */
  handOver(): void {
    this.#memory = NOTHING
    this.#length = 0
  }

  release(): void {
    this.handOver()
    held -= this.#held
    this.#held = 0
  }

  #resize(least: number) {
    const memory = Buffer.allocUnsafeSlow(Math.max(SMALLEST_BYTES, least))
    this.bytes.copy(memory)
    held += memory.length - this.#held
    this.#held = memory.length
    this.#memory = memory
  }
}
