// Passes the bytes of an HTTP/2 connection on, and counts the frames that cost a client almost nothing (RFC 9113 §4.1, §10.5).

import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'

const PREFACE_BYTES = 24
const HEAD_BYTES = 9
const DATA = 0
const END_STREAM = 0x1

/** Types of frames, and how many of each a client may send within a second. Of DATA, only frames without data are counted. */
const PER_SECOND: ReadonlyMap<number, number> = new Map([
  [DATA, 100],
  [1 /* HEADERS */, Number.POSITIVE_INFINITY],
  [2 /* PRIORITY */, 500],
  [3 /* RST_STREAM */, 200],
  [4 /* SETTINGS */, 50],
  [6 /* PING */, 500],
  // Clients send two for each read.
  [8 /* WINDOW_UPDATE */, 20_000],
  [9 /* CONTINUATION */, 200]
])
/** Of any other type. */
const OTHERS_PER_SECOND = 100

interface MeterOwner {
  /** Called once; nothing is passed on from then on. */
  onFlood(): void
  onBytes(): void
}

/** What node:http2 takes for a connection. */
export class FrameMeter extends Duplex {
  readonly #socket: Socket
  readonly #owner: MeterOwner
  readonly #head = Buffer.alloc(HEAD_BYTES)
  #headLength = 0
  #skipped = PREFACE_BYTES
  readonly #counts = new Map<number, number>()
  #second = 0
  #isHeld = false

  constructor(socket: Socket, owner: MeterOwner) {
    super({ allowHalfOpen: true })
    this.#socket = socket
    this.#owner = owner
    socket.on('data', (bytes: Buffer) => this.#take(bytes))
    socket.on('end', () => this.push(null))
    socket.on('error', error => this.destroy(error))
    socket.on('close', () => this.destroy())
  }

  /** While it is held, nothing is read from the client. */
  hold(isHeld: boolean): void {
    if (this.#isHeld === isHeld) return
    this.#isHeld = isHeld
    if (isHeld) this.#socket.pause()
    else this.#socket.resume()
  }

  #take(bytes: Buffer) {
    if (this.#isFlood(bytes)) {
      this.#socket.pause()
      this.#socket.removeAllListeners('data')
      this.#owner.onFlood()
    } else {
      if (!this.push(bytes)) this.#socket.pause()
      this.#owner.onBytes()
    }
  }

  #isFlood(bytes: Buffer): boolean {
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
      const type = this.#head[3] ?? 0
      if (this.#isTooMany(type, this.#skipped, this.#head[4] ?? 0)) return true
    }
    return false
  }

  #isTooMany(type: number, length: number, flags: number): boolean {
    if (type === DATA && (length > 0 || (flags & END_STREAM) !== 0)) return false
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#counts.clear()
    }
    const count = (this.#counts.get(type) ?? 0) + 1
    this.#counts.set(type, count)
    return count > (PER_SECOND.get(type) ?? OTHERS_PER_SECOND)
  }

  override _read(): void {
    if (!this.#isHeld) this.#socket.resume()
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(bytes, done)
  }

  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#socket.cork()
    chunks.forEach(({ chunk }, index) => {
      this.#socket.write(chunk, index === chunks.length - 1 ? done : undefined)
    })
    this.#socket.uncork()
  }

  override _final(done: () => void): void {
    this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy()
    done(error)
  }
}
