// Counts the frames of one direction that cost their sender almost nothing, and says when there are too many (RFC 9113 §4.1, §10.5).
const HEAD_BYTES = 9
const DATA = 0
const RST_STREAM = 3
const RESET_BYTES = 4
const WINDOW_UPDATE = 8
const END_STREAM = 0x1
/** Without the reserved bit (RFC 9113 §4.1). */
const STREAM_ID = 0x7fffffff
const ANY = Number.POSITIVE_INFINITY

/** How many frames of each type may come within a second; of DATA, only frames without data are counted. */
type Allowed = (type: number) => number

const ALLOWED_IN: ReadonlyMap<number, number> = new Map([
  [DATA, 100],
  [1 /* HEADERS */, ANY],
  [2 /* PRIORITY */, 500],
  [RST_STREAM, 200],
  [4 /* SETTINGS */, 50],
  [6 /* PING */, 500],
  // In addition to those that follow from what is sent.
  [WINDOW_UPDATE, 20_000],
  [9 /* CONTINUATION */, 200],
  // RFC 9218 §7.1; browsers send one for each stream of a page, e.g. when its tab is shown.
  [16 /* PRIORITY_UPDATE */, 500]
])

export const allowedIn: Allowed = type => ALLOWED_IN.get(type) ?? 100

/** Go's clients send two WINDOW_UPDATE for each read, and read 4 KB at a time when they decompress. */
const BYTES_PER_UPDATE = 2048

/** What a client makes the gateway send: resets for heads that are malformed or too large, and for streams in a wrong state. */
export const allowedOut: Allowed = type => (type === RST_STREAM ? 100 : ANY)

export class FrameCounter {
  /** Called for each RST_STREAM; returns whether it counts. `code`: undefined if it is in later bytes. */
  onReset = (_stream: number, _code: number | undefined): boolean => true
  readonly #allowed: Allowed
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headLength = 0
  #skipped: number
  readonly #counts = new Map<number, number>()
  #second = 0
  readonly #now: () => number

  /** @param prefaceBytes before the first frame @param now milliseconds of a monotonic clock */
  constructor(allowed: Allowed, prefaceBytes = 0, now = () => performance.now()) {
    this.#allowed = allowed
    this.#skipped = prefaceBytes
    this.#now = now
  }

  /** Takes the next bytes, split anywhere. Returns whether the frames in them are too many. */
  isFlood(bytes: Buffer): boolean {
    let at = 0
    while (at < bytes.length) {
      if (this.#skipped > 0) {
        const skipped = Math.min(this.#skipped, bytes.length - at)
        this.#skipped -= skipped
        at += skipped
        continue
      }
      this.#head[this.#headLength++] = bytes[at++] ?? 0
      if (this.#headLength < HEAD_BYTES) continue
      this.#headLength = 0
      this.#skipped = this.#head.readUIntBE(0, 3)
      if (this.#head[3] === RST_STREAM) {
        const code = bytes.length >= at + RESET_BYTES ? bytes.readUInt32BE(at) : undefined
        if (!this.onReset(this.#head.readUInt32BE(5) & STREAM_ID, code)) continue
      }
      if (this.#isTooMany(this.#head[3] ?? 0, this.#head[4] ?? 0)) return true
    }
    return false
  }

  /** So many bytes go in the other direction, where they are answered with WINDOW_UPDATE. */
  noteSent(bytes: number): void {
    this.#count(WINDOW_UPDATE, -bytes / BYTES_PER_UPDATE)
  }

  #isTooMany(type: number, flags: number): boolean {
    if (type === DATA && (this.#skipped > 0 || (flags & END_STREAM) !== 0)) return false
    return this.#count(type, 1) > this.#allowed(type)
  }

  #count(type: number, by: number): number {
    const second = Math.floor(this.#now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#counts.clear()
    }
    const count = (this.#counts.get(type) ?? 0) + by
    this.#counts.set(type, count)
    return count
  }
}
