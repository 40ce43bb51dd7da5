// Writes to sockets at the end of the turn, so that their reader is woken once, and tracks whether the other side has taken everything.
// The rule for all bytes of a connection: a chunk given to a callback is valid until the callback returns, and what it keeps
// or writes is copied.
import { type Contained, contain } from '../values/contain.ts'

export interface Waiting extends Contained {
  flush(): void
}

const waiting: Waiting[] = []

const flushAll = () => {
  for (let i = 0; i < waiting.length; i++) {
    const one = waiting[i]
    if (one !== undefined) contain(one, due => due.flush())
  }
  waiting.length = 0
}

/** Flushes the socket before the event loop waits again. */
export const flushSoon = (one: Waiting): void => {
  if (waiting.length === 0) setImmediate(flushAll)
  waiting.push(one)
}

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

/** The parts of a socket that the outbox uses. */
interface Outlet {
  write(text: string, encoding: 'latin1'): boolean
  write(bytes: Uint8Array, written?: (error?: Error | null) => void): boolean
  cork(): void
  uncork(): void
  /** Bytes that the other side has not taken. */
  readonly writableLength: number
}

export interface OutboxOwner extends Contained {
  /** Flushes the outbox at the end of this turn of the event loop. */
  flushSoon(outbox: Waiting): void
  /** Everything that was sent has been taken. */
  onTaken(): void
}

/** Smaller parts of a body are joined with the text before them. */
const MAX_COPIED_BYTES = 8 * 1024
const MAX_TEXT_LENGTH = 64 * 1024
const NOTHING = new Uint8Array()

export class Outbox implements Waiting {
  readonly #outlet: Outlet
  readonly #owner: OutboxOwner
  #text = ''
  #isDue = false
  #isWaiting = false
  #isClosed = false

  constructor(outlet: Outlet, owner: OutboxOwner) {
    this.#outlet = outlet
    this.#owner = owner
  }

  /** Latin-1. */
  send(text: string): void {
    this.#text += text
    if (this.#isDue) return
    this.#isDue = true
    this.#owner.flushSoon(this)
  }

  /** Copies bytes between two texts. Returns whether everything was taken; otherwise the owner is notified. */
  sendBytes(before: string, bytes: Buffer, after: string): boolean {
    if (this.#isClosed) return true
    if (bytes.length <= MAX_COPIED_BYTES && this.#text.length < MAX_TEXT_LENGTH) {
      this.send(before + bytes.toString('latin1') + after)
      return !this.#isWaiting
    }
    const text = this.#text + before
    this.#text = ''
    this.#outlet.cork()
    if (text !== '') this.#outlet.write(text, 'latin1')
    writeCopy(this.#outlet, bytes)
    this.#outlet.uncork()
    if (after !== '') this.send(after)
    return this.#isTaken()
  }

  flush(): void {
    this.#isDue = false
    if (this.#isClosed) return
    if (this.#text !== '') {
      const text = this.#text
      this.#text = ''
      this.#outlet.write(text, 'latin1')
    }
    if (this.#isTaken()) this.#owner.onTaken()
  }

  onThrown(error: unknown): void {
    this.#owner.onThrown(error)
  }

  /** Stops writing. */
  close(): void {
    this.#isClosed = true
    this.#text = ''
  }

  #isTaken(): boolean {
    if (this.#outlet.writableLength === 0) return true
    if (!this.#isWaiting) {
      this.#isWaiting = true
      // Its turn comes when everything before it has been taken, however little that was.
      this.#outlet.write(NOTHING, error => contain(this, outbox => outbox.#onWritten(error)))
    }
    return false
  }

  #onWritten(error?: Error | null) {
    this.#isWaiting = false
    if (this.#isClosed || (error !== undefined && error !== null)) return
    if (this.#isTaken() && !this.#isDue) this.#owner.onTaken()
  }
}
