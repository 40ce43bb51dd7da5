// Handles one side of a WebSocket: scans its frames, and tracks its idle time and its unread bytes.
import type { Duplex } from 'node:stream'
import { writeCopy } from '../http/outbox.ts'
import { isStalled, type Progress, progressOf } from '../http/progress.ts'
import { type Contained, contain } from '../values/contain.ts'
import type { Holder } from '../values/held-memory.ts'
import { FrameScanner, type FrameSink } from './frame-scanner.ts'
import { buildFrame, CLOSE, type FrameFault, PING, PONG } from './frames.ts'

export type Side = 'client' | 'upstream'

export interface Ending {
  /** RFC 6455 §7.4; 4000–4999 are the gateway's own. */
  readonly code: number
  readonly reason: string
}

export interface LegOptions {
  readonly maxMessageBytes: number
  /** Messages that the client may begin within a second; 0: limited only by the number of frames. */
  readonly messagesPerSecond: number
  /** Receives whole messages, which then pass only by `send`; without it, bytes pass as they come. */
  readonly reader?: {
    readonly onMessage: (from: Side, isText: boolean, payload: Buffer) => void
    /** What is kept of messages counts here. */
    readonly holder: Holder
  }
}

export interface LegOwner extends Contained {
  now(): number
  peerOf(leg: Leg): Leg
  passData(from: Leg, bytes: Buffer): void
  passMessage(from: Leg, isText: boolean, payload: Buffer): void
  onClose(from: Leg, payload: Buffer, frame: Buffer): void
  onFault(from: Leg, fault: FrameFault): void
  onEnd(leg: Leg): void
  onGone(leg: Leg): void
}

/** Where a socket keeps its leg, for the functions that all sockets share. */
const LEG = Symbol('leg')

interface LegSocket extends Duplex {
  [LEG]?: Leg
}

const listener = (act: (relay: LegOwner, leg: Leg) => void) =>
  function (this: LegSocket) {
    const leg = this[LEG]
    if (leg !== undefined) contain(leg.relay, relay => act(relay, leg))
  }

const onEnd = listener((relay, leg) => relay.onEnd(leg))
const onClose = listener((relay, leg) => relay.onGone(leg))
const onDrain = listener((relay, leg) => relay.peerOf(leg).unstall())

function onError(this: LegSocket) {
  this.destroy()
}

// Distinguishes replies to our own pings from the other side's.
const PING_PAYLOAD = Buffer.from('portaria')

/** Pieces up to this size are joined while they wait: each by itself takes 170 bytes beside its own, which may be two. */
const JOINED_BYTES = 4096
const NOTHING = Buffer.alloc(0)

export class Leg implements FrameSink {
  readonly relay: LegOwner
  readonly side: Side
  readonly socket: Duplex
  readonly scanner: FrameScanner
  readonly #reads: boolean
  lastSeen: number
  bytes = 0
  /** Idle periods counted and pings not yet answered. */
  misses = 0
  pings = 0
  closeSent = false
  gone = false
  faulted = false
  /** Payload of a close frame to send to this side once the frame in progress is complete. */
  pending: Buffer | undefined
  /** When this side stopped being read because the other accepts no bytes; 0: it is read. */
  stalledSince = 0
  #progress: Progress | undefined
  #held = false
  /** Small pieces, to be written when the socket has taken what it has. */
  #joined: Buffer | undefined
  #joinedBytes = 0
  #isAwaiting = false

  constructor(relay: LegOwner, side: Side, socket: Duplex, options: LegOptions) {
    this.relay = relay
    this.side = side
    this.socket = socket
    this.#reads = options.reader !== undefined
    const isClient = side === 'client'
    this.scanner = new FrameScanner({
      masked: isClient,
      maxMessageBytes: options.maxMessageBytes,
      holder: options.reader?.holder,
      messagesPerSecond: isClient ? options.messagesPerSecond : undefined
    })
    this.lastSeen = relay.now()
    const kept: LegSocket = socket
    kept[LEG] = this
    socket.on('end', onEnd).on('close', onClose).on('drain', onDrain)
    // A client's socket is already destroyed on errors.
    if (socket.listenerCount('error') === 0) socket.on('error', onError)
  }

  get isPartial(): boolean {
    return !this.#reads && this.scanner.remaining > 0
  }

  /** Of what was sent to this side. */
  get unreadBytes(): number {
    return this.gone ? 0 : this.socket.writableLength + this.#joinedBytes
  }

  take(bytes: Buffer) {
    if (this.gone || this.faulted || this.scanner.closed) return
    this.lastSeen = this.relay.now()
    this.misses = 0
    this.bytes += bytes.length
    const peer = this.relay.peerOf(this)
    if (peer.pending === undefined) return this.#scan(bytes)
    const rest = this.scanner.remaining
    this.#scan(bytes.subarray(0, rest))
    if (this.faulted || this.isPartial) return
    peer.sendClose(peer.pending)
    // Nothing more passes, but this side's own close is found.
    this.#scan(bytes.subarray(rest))
  }

  #scan(bytes: Buffer) {
    const fault = this.scanner.take(bytes, this, this.lastSeen)
    if (fault !== 0) this.relay.onFault(this, fault)
  }

  onData(bytes: Buffer) {
    this.relay.passData(this, bytes)
  }

  onMessage(isText: boolean, payload: Buffer) {
    this.relay.passMessage(this, isText, payload)
  }

  onControl(opcode: number, payload: Buffer, frame: Buffer) {
    if (opcode === CLOSE) this.relay.onClose(this, payload, frame)
    else if (opcode === PONG && this.pings > 0 && payload.equals(PING_PAYLOAD)) this.pings = 0
    else this.relay.passData(this, frame)
  }

  /** Bytes that nothing else uses. Returns whether there is room for more; otherwise the socket emits `drain`. */
  write(bytes: Buffer): boolean {
    if (!this.#isWritable) return true
    if (!this.#join(bytes)) this.socket.write(bytes)
    return !this.socket.writableNeedDrain
  }

  /** The same with bytes that the other side has just sent. */
  pass(bytes: Buffer): boolean {
    if (!this.#isWritable) return true
    if (!this.#join(bytes)) writeCopy(this.socket, bytes)
    return !this.socket.writableNeedDrain
  }

  /** Ends this side behind everything that was sent to it. */
  end() {
    this.#writeJoined()
    this.socket.end()
  }

  /** Keeps a copy of a small piece that would have to wait. False: it can be written. */
  #join(bytes: Buffer): boolean {
    if (this.#joinedBytes + bytes.length > JOINED_BYTES) this.#writeJoined()
    const waits = this.#joinedBytes > 0 || this.socket.writableLength > 0
    if (!waits || bytes.length > JOINED_BYTES) return false
    this.#joined ??= Buffer.allocUnsafeSlow(JOINED_BYTES)
    this.#joinedBytes += bytes.copy(this.#joined, this.#joinedBytes)
    if (this.#isAwaiting) return true
    this.#isAwaiting = true
    const onTurn = () => {
      this.#isAwaiting = false
      this.#writeJoined()
    }
    this.socket.write(NOTHING, () => contain(this.relay, onTurn))
    return true
  }

  #writeJoined() {
    const bytes = this.#joined?.subarray(0, this.#joinedBytes)
    this.#joined = undefined
    this.#joinedBytes = 0
    if (bytes !== undefined && this.#isWritable) this.socket.write(bytes)
  }

  get #isWritable(): boolean {
    return !this.gone && !this.socket.destroyed && !this.socket.writableEnded
  }

  /** Whether this side has taken any of what waits for it since this was asked last. */
  hasTaken(): boolean {
    const before = this.#progress
    this.#progress = progressOf(this.socket)
    return before !== undefined && this.#progress !== undefined && !isStalled(before, this.#progress)
  }

  sendClose(payload: Buffer) {
    this.pending = undefined
    if (this.closeSent) return
    this.closeSent = true
    this.write(buildFrame(CLOSE, payload, this.side === 'upstream'))
    if (this.scanner.closed || this.faulted) this.end()
  }

  ping() {
    this.pings++
    this.write(buildFrame(PING, PING_PAYLOAD, this.side === 'upstream'))
  }

  stall(now: number) {
    if (this.stalledSince === 0) this.stalledSince = now
    this.socket.pause()
  }

  unstall() {
    this.stalledSince = 0
    if (!this.#held) this.socket.resume()
  }

  /** Stops and resumes reading on behalf of the message handler. */
  hold(held: boolean) {
    this.#held = held
    if (held) this.socket.pause()
    else if (this.stalledSince === 0) this.socket.resume()
  }
}
