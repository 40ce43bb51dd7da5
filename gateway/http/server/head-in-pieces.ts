// Checks a request head that arrives in pieces: faults are found at once, and each byte is read once.
import { type HeadProbe, type Llhttp, MAX_REQUEST_HEAD_BYTES } from './llhttp.ts'

export class HeadInPieces {
  readonly #probe: HeadProbe
  #probed = 0

  constructor(llhttp: Llhttp) {
    this.#probe = llhttp.createHeadProbe()
  }

  /** @param held all of it so far @returns whether it is still incomplete */
  take(held: Buffer): boolean {
    const isUndecided = this.#probe.take(held.subarray(this.#probed)) === 'incomplete'
    this.#probed = held.length
    return isUndecided && held.length < MAX_REQUEST_HEAD_BYTES
  }

  release(): void {
    this.#probe.release()
  }
}
