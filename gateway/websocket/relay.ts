// Joins two upgraded sockets into one WebSocket: frames pass both ways with backpressure, and each close is passed on.
import type { Duplex } from 'node:stream'
import { contain, endThrown, every, noteFault } from '../values/contain.ts'
import { buildFrame, closeFault, closePayload, type FrameFault } from './frames.ts'
import { type Ending, Leg, type LegOptions, type LegOwner, type Side } from './leg.ts'

interface RelayOptions extends LegOptions {
  readonly requestId: string
  readonly client: Duplex
  readonly upstream: Duplex
  /** Idle time of both sides after which the socket ends; 0: never. */
  readonly idleTimeoutMs: number
  /** Whether bytes that one side has sent are read; otherwise they are discarded. */
  readonly mayTake?: (from: Side, count: number) => boolean
  /** One side closes or has broken, or both are about to be closed. True: the client is not to know until it sends more. */
  readonly onBreak?: () => boolean
  /** One side violated the protocol or a limit; both are being closed. */
  readonly onFault: (from: Side, ending: Ending) => void
  readonly onClosed: () => void
}

/** Idle time after which a side is pinged; it is dead after two more such periods. */
const PING_MS = 30_000
/** How long a side may take to answer a close: backends read it after what came before. */
const CLOSE_MS = 5000
const STALL_MS = 60_000
/** How long a close in the middle of a frame waits for the rest of that frame. */
const FRAME_REST_MS = 400
const AFTER_END_MS = 1000
/** How long a side that is slow to take what came before a close may take none of it. */
const TAKING_MS = 20_000
/** How long a client that is not to know of the end of its upstream may send nothing. */
const RETIRED_MS = 2000
/** A stream whose access has ended is gone within a second, whether it was acknowledged or not. */
const END_MS = 700

const SERVER_GONE: Ending = { code: 1011, reason: 'upstream gone' }
const CLIENT_GONE: Ending = { code: 1001, reason: 'client gone' }
const GOING_AWAY: Ending = { code: 1001, reason: '' }
const IDLE: Ending = { code: 1001, reason: 'idle' }
/** Reasons of the close frames: to the side at fault, and to the client if that side is its upstream. */
const FAULT_REASONS: Record<Exclude<FrameFault, 0>, readonly [own: string, ofUpstream: string]> = {
  1002: ['protocol error', 'upstream broke the protocol'],
  1007: ['invalid UTF-8', 'upstream sent invalid UTF-8'],
  1008: ['too many messages', 'upstream sent too many fragments'],
  1009: ['message too big', 'upstream message too big'],
  1013: ['too many large messages', 'too many large messages']
}

/** A class, for memory: there is one per open socket. */
export class Relay implements LegOwner {
  readonly #options: RelayOptions
  readonly #client: Leg
  readonly #upstream: Leg
  readonly #onOver: (relay: Relay) => void
  #lastActivity: number
  /** When to destroy what is still open; 0: the socket is not being closed. */
  #deadline = 0
  /** The close that came first, and the side that sent it. */
  #closedBy: { leg: Leg; payload: Buffer } | undefined
  /** Being closed by the gateway: nothing more is delivered. */
  #ended = false
  /** What was sent before the end is delivered, however long that takes. */
  #delivers = true
  /** When a side was last seen to be slow to take what is sent to it; 0: not lately. The kernel then holds much for it, too. */
  #slowAt = 0
  /** Only the client's side is left, and it does not know. */
  #retired = false
  /** Bytes that were sent and are counted, because they have not been read. */
  #counted = 0

  constructor(options: RelayOptions, onOver: (relay: Relay) => void) {
    this.#options = options
    this.#onOver = onOver
    this.#lastActivity = this.now()
    this.#client = new Leg(this, 'client', options.client, options)
    this.#upstream = new Leg(this, 'upstream', options.upstream, options)
  }

  now(): number {
    return performance.now()
  }

  peerOf(leg: Leg): Leg {
    return leg === this.#client ? this.#upstream : this.#client
  }

  #leg(side: Side): Leg {
    return side === 'client' ? this.#client : this.#upstream
  }

  get bytes(): number {
    return this.#client.bytes + this.#upstream.bytes
  }

  /** Bytes that one side has sent, valid until this returns. */
  take(from: Side, bytes: Buffer) {
    try {
      if (this.#options.mayTake?.(from, bytes.length) !== false) this.#leg(from).take(bytes)
    } catch (error) {
      endThrown(this, error)
    }
  }

  send(to: Side, opcode: number, payload: Buffer) {
    const leg = this.#leg(to)
    if (this.#ended || leg.closeSent) return
    if (leg.write(buildFrame(opcode, payload, to === 'upstream'))) return
    this.peerOf(leg).stall(this.now())
    this.countUnread()
  }

  /** Counts what both sides have not read, and returns what the client has not. */
  countUnread(): number {
    const unread = this.#client.unreadBytes + this.#upstream.unreadBytes
    this.#options.reader?.holder.count(unread - this.#counted)
    this.#counted = unread
    return this.#client.unreadBytes
  }

  hold(side: Side, held: boolean) {
    this.#leg(side).hold(held)
  }

  passData(from: Leg, bytes: Buffer) {
    const to = this.peerOf(from)
    if (this.#ended && to.pending === undefined) return
    this.#lastActivity = from.lastSeen
    if (!to.closeSent && !to.pass(bytes)) from.stall(from.lastSeen)
  }

  passMessage(from: Leg, isText: boolean, payload: Buffer) {
    if (this.#ended) return
    if (this.#retired) return from.side === 'client' ? this.end(SERVER_GONE) : undefined
    this.#lastActivity = from.lastSeen
    this.#options.reader?.onMessage(from.side, isText, payload)
  }

  onClose(from: Leg, payload: Buffer, frame: Buffer) {
    const fault = closeFault(payload)
    if (fault !== 0) return this.onFault(from, fault)
    if (this.#break(from)) return
    if (this.#retired && !this.#ended) return this.end(SERVER_GONE)
    const to = this.peerOf(from)
    if (!to.closeSent && !this.#ended) {
      to.closeSent = true
      // A frame to a server needs a mask, a frame to a client none; the frame at hand is right for its direction.
      to.write(frame)
    }
    this.#closedBy ??= { leg: from, payload }
    this.#deadline ||= this.now() + CLOSE_MS
    for (const leg of [from, to]) if (leg.closeSent && leg.scanner.closed) leg.end()
    if (from.closeSent && to.closeSent && to.scanner.closed) this.#deadline = this.now() + AFTER_END_MS
  }

  onFault(from: Leg, fault: FrameFault) {
    if (fault === 0) return
    const [reason, ofUpstream] = FAULT_REASONS[fault]
    const ending = { code: fault, reason }
    from.faulted = true
    this.#options.onFault(from.side, ending)
    if (from.side === 'client') this.end(ending, GOING_AWAY)
    else this.end({ code: 1011, reason: ofUpstream }, ending)
  }

  onEnd(leg: Leg) {
    if (leg.scanner.closed && leg.closeSent) leg.end()
    else leg.socket.destroy()
  }

  onGone(leg: Leg) {
    if (leg.gone) return
    leg.gone = true
    leg.scanner.release()
    this.countUnread()
    const peer = this.peerOf(leg)
    if (peer.gone) {
      this.#onOver(this)
      return this.#options.onClosed()
    }
    if (peer.closeSent) {
      peer.end()
      this.#deadline = Math.min(this.#deadline || Number.POSITIVE_INFINITY, this.now() + AFTER_END_MS)
      if (peer.stalledSince !== 0) peer.unstall()
    } else if (!this.#break(leg)) {
      const isFirst = !this.#ended
      this.end(SERVER_GONE, CLIENT_GONE)
      this.#delivers = isFirst
    }
  }

  /** One side is over. Returns whether the other is not to know yet. */
  #break({ side }: Leg): boolean {
    if (this.#ended) return false
    if (!this.#retired && this.#options.onBreak?.() === true) this.retire()
    return this.#retired && side === 'upstream'
  }

  /** Nothing more is delivered. The upstream gets a close frame now, the client when it sends more, or after a while. */
  retire() {
    if (this.#ended || this.#retired) return
    this.#retired = true
    this.#deadline = this.now() + RETIRED_MS
    this.#closeLeg(this.#upstream, GOING_AWAY)
  }

  /** Nothing more is delivered; both sides get a close frame, each its own, and have a moment to respond. */
  end(toClient: Ending, toUpstream: Ending = GOING_AWAY) {
    this.#delivers = false
    if (this.#ended) return
    this.#ended = true
    this.#options.onBreak?.()
    this.#deadline = this.now() + END_MS
    this.#closeLeg(this.#client, toClient)
    this.#closeLeg(this.#upstream, toUpstream)
  }

  #closeLeg(leg: Leg, ending: Ending) {
    const peer = this.peerOf(leg)
    if (leg.gone) return
    // Whatever this side sends from now on is read and discarded, so that its close frame is found.
    leg.unstall()
    if (leg.closeSent) return
    const payload = closePayload(ending.code, ending.reason)
    if (!peer.isPartial) return leg.sendClose(payload)
    if (peer.gone || peer.faulted) return void leg.socket.destroy()
    leg.pending = payload
    this.#deadline = Math.min(this.#deadline, this.now() + FRAME_REST_MS)
  }

  /** A close that the other side does not answer in time is answered with its own code and reason (RFC 6455 §5.5.1). */
  #answerClose(at: number): boolean {
    const { leg, payload } = this.#closedBy ?? {}
    if (leg === undefined || payload === undefined || this.#ended || leg.gone || leg.closeSent) return false
    const silent = this.peerOf(leg)
    if (silent.isPartial) return false
    leg.sendClose(payload)
    silent.socket.destroy()
    this.#deadline = at + AFTER_END_MS
    return true
  }

  destroy() {
    this.#ended = true
    this.#client.socket.destroy()
    this.#upstream.socket.destroy()
  }

  /** A callback has thrown: both sockets are cut. */
  onThrown(error: unknown) {
    noteFault('stream', error, this.#options.requestId)
    this.destroy()
  }

  /** For so long, this process read and sent nothing: that is no silence of a side. */
  postpone(ms: number) {
    this.#lastActivity += ms
    // What the gateway ends is over in time: a busy process is late again and again.
    if (this.#deadline !== 0 && !this.#ended) this.#deadline += ms
    if (this.#slowAt !== 0) this.#slowAt += ms
    for (const leg of [this.#client, this.#upstream]) {
      leg.lastSeen += ms
      if (leg.stalledSince !== 0) leg.stalledSince += ms
    }
  }

  sweep(at: number) {
    if (this.#counted > 0) this.countUnread()
    if (this.#deadline !== 0) {
      if (this.#isDelivering(at) || at < this.#deadline) return
      if (this.#retired && !this.#ended && !this.#client.gone) this.end(SERVER_GONE)
      else if (!this.#answerClose(at)) this.destroy()
      return
    }
    const { idleTimeoutMs } = this.#options
    if (idleTimeoutMs > 0 && at - this.#lastActivity >= idleTimeoutMs) return this.end(IDLE)
    if (at - this.#slowAt >= TAKING_MS) this.#slowAt = 0
    this.#check(this.#client, at)
    if (this.#deadline === 0) this.#check(this.#upstream, at)
  }

  /** Whether a side that is being closed may go on taking what came before. */
  #isDelivering(at: number): boolean {
    for (const leg of [this.#client, this.#upstream]) {
      if (leg.hasTaken() || (this.#slowAt === 0 && leg.unreadBytes > 0)) this.#slowAt = at
    }
    return this.#delivers && !this.#retired && this.#slowAt !== 0 && at - this.#slowAt < TAKING_MS
  }

  #check(leg: Leg, at: number) {
    const peer = this.peerOf(leg)
    if (leg.stalledSince !== 0) {
      this.#slowAt = at
      // The silence is our doing, because the other side does not read.
      leg.lastSeen = at
      // Its pong waits behind what it still has to take.
      if (peer.hasTaken()) leg.stalledSince = peer.lastSeen = at
      else if (at - leg.stalledSince >= STALL_MS) peer.socket.destroy()
      return
    }
    if (at - leg.lastSeen < PING_MS * (leg.misses + 1) || peer.isPartial) return
    if (leg.misses === 2) return void leg.socket.destroy()
    leg.misses++
    leg.ping()
  }
}

export type Relays = ReturnType<typeof createRelays>

const SWEEP_MS = 250
/** By which a sweep must be late to count as one after a standstill, such as that of a frozen container. */
const STANDSTILL_MS = 100

export const createRelays = () => {
  const open = new Set<Relay>()
  const onOver = (relay: Relay) => void open.delete(relay)
  let sweptAt = process.uptime()
  const sweep = () => {
    const lateMs = (process.uptime() - sweptAt) * 1000 - SWEEP_MS
    sweptAt = process.uptime()
    const at = performance.now()
    for (const relay of open) {
      if (lateMs >= STANDSTILL_MS) relay.postpone(lateMs)
      contain(relay, one => one.sweep(at))
    }
  }
  const stop = every(SWEEP_MS, sweep)
  return {
    /** Joins two upgraded sockets; the caller reads them and calls `take`. */
    join(options: RelayOptions): Relay {
      const relay = new Relay(options, onOver)
      open.add(relay)
      return relay
    },
    close() {
      stop()
      for (const relay of [...open]) contain(relay, one => one.destroy())
    }
  }
}
