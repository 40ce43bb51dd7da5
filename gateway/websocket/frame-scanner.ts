// Scans one direction of a WebSocket for frames: data passes unchanged, control frames are handed over whole.
import { isUtf8 } from 'node:buffer'
import type { Holder } from '../values/held-memory.ts'
import {
  BINARY,
  CLOSE,
  CONTINUATION,
  checkMaskedText,
  type FrameFault,
  INVALID_UTF8,
  MAX_CONTROL_BYTES,
  PONG,
  TEXT,
  unmaskInto
} from './frames.ts'

export interface FrameSink {
  /** Bytes of data frames exactly as received, including headers; not kept by the scanner. */
  onData(bytes: Buffer): void
  /** A whole message, unmasked; only from a scanner that collects. */
  onMessage(isText: boolean, payload: Buffer): void
  /** `payload` is unmasked, `frame` is as received. */
  onControl(opcode: number, payload: Buffer, frame: Buffer): void
}

// Counted as the bytes are taken, because no timer could limit a burst. Control frames are written one by one.
const MAX_FRAMES_PER_SECOND = 20_000
const MAX_CONTROLS_PER_SECOND = 200
const MAX_FRAGMENTS = 16_384
const EMPTY = Buffer.alloc(0)

interface ScannerOptions {
  /** Frames from a client are masked, frames from a server are not (RFC 6455 §5.1). */
  readonly masked: boolean
  /** Payload of one message, including all fragments. */
  readonly maxMessageBytes: number
  /** Deliver whole messages instead of passing data through; what has arrived of one counts here. */
  readonly holder: Holder | undefined
  /** Messages that may begin within a second, 0: no limit of their own; undefined: frames of any kind are not counted. */
  readonly messagesPerSecond?: number | undefined
}

/** One per direction. A class, for memory: there are two per open socket. */
export class FrameScanner {
  readonly #masked: boolean
  /** Undefined: data passes through. */
  readonly #holder: Holder | undefined
  readonly #maxMessageBytes: number
  #held: Buffer = EMPTY
  #remaining = 0
  #final = true
  #mask = 0
  #position = 0
  /** 0: between messages, else TEXT or BINARY. */
  #message = 0
  #messageBytes = 0
  #fragments = 0
  #utf8 = 0
  /** Grows as bytes arrive, not with the length in the header. */
  #collected: Buffer = EMPTY
  #collectedBytes = 0
  #closed = false
  /** -1: nothing is counted. */
  readonly #maxMessages: number
  /** The second to which the three counts belong. */
  #second = 0
  #frames = 0
  #controls = 0
  #messages = 0

  constructor({ masked, maxMessageBytes, holder, messagesPerSecond = -1 }: ScannerOptions) {
    this.#masked = masked
    this.#maxMessages = messagesPerSecond
    this.#maxMessageBytes = maxMessageBytes
    this.#holder = holder
  }

  /** Bytes that the current data frame still lacks; 0: what was passed on ends at a frame boundary. */
  get remaining(): number {
    return this.#remaining
  }

  /** A close frame has arrived: everything after it is ignored (RFC 6455 §5.5.1). */
  get closed(): boolean {
    return this.#closed
  }

  /** Takes bytes; the buffer is not kept. After a fault the scanner must not be used again. @param atMs monotonic */
  take(bytes: Buffer, sink: FrameSink, atMs = 0): FrameFault {
    const second = Math.floor(atMs / 1000)
    if (second !== this.#second) this.#beginSecond(second)
    const chunk = this.#held.length > 0 ? this.#joinHeld(bytes) : bytes
    let passFrom = 0
    // Where the current data frame begins in this chunk; -1: in an earlier one.
    let frameFrom = this.#remaining > 0 ? -1 : 0
    let i = 0
    while (i < chunk.length && !this.#closed) {
      if (this.#remaining > 0) {
        const end = Math.min(chunk.length, i + this.#remaining)
        const fault = this.#takePayload(chunk, i, end, sink)
        if (fault !== 0) return this.#cutBefore(frameFrom, chunk, passFrom, sink, fault)
        i = end
        continue
      }
      frameFrom = i
      const size = this.#headerSize(chunk, i)
      const wrong = size === 0 ? 0 : this.#checkStart(chunk[i] ?? 0, chunk[i + 1] ?? 0)
      if (wrong !== 0) return this.#cutBefore(frameFrom, chunk, passFrom, sink, wrong)
      if (size === 0 || chunk.length - i < size) {
        this.#pass(chunk, passFrom, i, sink)
        this.#held = Buffer.from(chunk.subarray(i))
        return 0
      }
      const isControl = ((chunk[i] ?? 0) & 0x08) !== 0
      const fault = this.#takeHeader(chunk, i) || (isControl || this.#remaining > 0 ? 0 : this.#endFrame(sink))
      if (fault !== 0) return this.#cutBefore(frameFrom, chunk, passFrom, sink, fault)
      if (isControl) {
        this.#pass(chunk, passFrom, i, sink)
        this.#takeControl(chunk, i, size, sink)
        passFrom = i + size
      }
      i += size
    }
    if (!this.#closed) this.#pass(chunk, passFrom, chunk.length, sink)
    return 0
  }

  /** Nothing more will be taken. */
  release(): void {
    this.#collectIn(EMPTY)
  }

  #collectIn(memory: Buffer): void {
    this.#holder?.count(memory.length - this.#collected.length)
    this.#collected = memory
  }

  #beginSecond(second: number): void {
    this.#second = second
    this.#frames = 0
    this.#controls = 0
    this.#messages = 0
  }

  #joinHeld(bytes: Buffer): Buffer {
    const chunk = Buffer.concat([this.#held, bytes])
    this.#held = EMPTY
    return chunk
  }

  /** What precedes the faulty frame is passed on; `remaining` then says whether that ends at a frame boundary. */
  #cutBefore(frameFrom: number, chunk: Buffer, passFrom: number, sink: FrameSink, fault: FrameFault): FrameFault {
    this.#pass(chunk, passFrom, frameFrom, sink)
    this.#remaining = frameFrom === -1 ? 1 : 0
    return fault
  }

  #pass(chunk: Buffer, from: number, to: number, sink: FrameSink) {
    if (this.#holder === undefined && to > from)
      sink.onData(from === 0 && to === chunk.length ? chunk : chunk.subarray(from, to))
  }

  /** Length of the header at `i`, or of the whole frame for a control frame; 0: too few bytes to know. Faults come later. */
  #headerSize(chunk: Buffer, i: number): number {
    if (chunk.length - i < 2) return 0
    const short = (chunk[i + 1] ?? 0) & 0x7f
    const header = 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (this.#masked ? 4 : 0)
    return ((chunk[i] ?? 0) & 0x08) !== 0 ? header + short : header
  }

  /** What the first two bytes alone reveal, so that the rest of an invalid frame is not waited for. */
  #checkStart(first: number, second: number): FrameFault {
    // No extension is ever negotiated, so no reserved bit has a meaning (RFC 6455 §5.2).
    if ((first & 0x70) !== 0 || ((second & 0x80) !== 0) !== this.#masked) return 1002
    const opcode = first & 0x0f
    if (opcode >= CLOSE) {
      return opcode > PONG || (first & 0x80) === 0 || (second & 0x7f) > MAX_CONTROL_BYTES ? 1002 : 0
    }
    return opcode > BINARY || (opcode === CONTINUATION) !== (this.#message !== 0) ? 1002 : 0
  }

  #takeHeader(chunk: Buffer, i: number): FrameFault {
    const first = chunk[i] ?? 0
    const opcode = first & 0x0f
    const short = (chunk[i + 1] ?? 0) & 0x7f
    if (this.#isFlood(opcode)) return 1008
    if (opcode >= CLOSE) return 0
    let length = short
    if (short === 126) length = chunk.readUInt16BE(i + 2)
    else if (short === 127) {
      const high = chunk.readUInt32BE(i + 2)
      if (high > 0x7fffffff) return 1002
      length = high * 0x100000000 + chunk.readUInt32BE(i + 6)
    }
    if (opcode !== CONTINUATION) {
      this.#message = opcode
      this.#messageBytes = 0
      this.#fragments = 0
      this.#utf8 = 0
    }
    this.#messageBytes += length
    if (this.#messageBytes > this.#maxMessageBytes) return 1009
    if (++this.#fragments > MAX_FRAGMENTS) return 1008
    if (this.#masked) this.#mask = chunk.readUInt32BE(i + 2 + (short === 126 ? 2 : short === 127 ? 8 : 0))
    this.#remaining = length
    this.#position = 0
    this.#final = (first & 0x80) !== 0
    return 0
  }

  #isFlood(opcode: number): boolean {
    if (this.#maxMessages === -1) return false
    if (++this.#frames > MAX_FRAMES_PER_SECOND) return true
    if (opcode >= CLOSE) return ++this.#controls > MAX_CONTROLS_PER_SECOND
    return opcode !== CONTINUATION && this.#maxMessages !== 0 && ++this.#messages > this.#maxMessages
  }

  #takePayload(chunk: Buffer, from: number, to: number, sink: FrameSink): FrameFault {
    if (this.#holder !== undefined) {
      if (!this.#keep(this.#holder, chunk, from, to)) return 1013
    } else if (this.#masked && this.#message === TEXT) {
      this.#utf8 = checkMaskedText(this.#utf8, chunk, { from, to }, this.#mask, this.#position)
      if (this.#utf8 === INVALID_UTF8) return 1007
    }
    this.#position += to - from
    this.#remaining -= to - from
    return this.#remaining === 0 ? this.#endFrame(sink) : 0
  }

  /** False: there is no room for it. */
  #keep(holder: Holder, chunk: Buffer, from: number, to: number): boolean {
    const needed = this.#collectedBytes + to - from
    if (needed > this.#collected.length) {
      if (holder.isTooMuch(needed, this.#collected.length)) return false
      const roomy = Buffer.allocUnsafe(Math.min(this.#messageBytes, Math.max(needed, 2 * this.#collected.length)))
      this.#collected.copy(roomy, 0, 0, this.#collectedBytes)
      this.#collectIn(roomy)
    }
    if (!this.#masked) chunk.copy(this.#collected, this.#collectedBytes, from, to)
    else unmaskInto(this.#collected, this.#collectedBytes, chunk, { from, to }, this.#mask, this.#position)
    this.#collectedBytes = needed
    return true
  }

  #endFrame(sink: FrameSink): FrameFault {
    if (!this.#final) return 0
    const isText = this.#message === TEXT
    this.#message = 0
    if (this.#holder === undefined) return this.#utf8 === 0 ? 0 : 1007
    const payload = this.#collected.subarray(0, this.#collectedBytes)
    this.#collectIn(EMPTY)
    this.#collectedBytes = 0
    if (isText && !isUtf8(payload)) return 1007
    sink.onMessage(isText, payload)
    return 0
  }

  #takeControl(chunk: Buffer, i: number, size: number, sink: FrameSink) {
    const header = this.#masked ? 6 : 2
    const payload = Buffer.allocUnsafe(size - header)
    if (this.#masked) {
      unmaskInto(payload, 0, chunk, { from: i + header, to: i + size }, chunk.readUInt32BE(i + 2), 0)
    } else chunk.copy(payload, 0, i + header, i + size)
    const opcode = (chunk[i] ?? 0) & 0x0f
    if (opcode === CLOSE) this.#closed = true
    sink.onControl(opcode, payload, Buffer.from(chunk.subarray(i, i + size)))
  }
}
