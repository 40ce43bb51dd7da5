// Passes the bytes of an HTTP/2 connection on, counts their frames, and ends it so that its last frames arrive.
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { allowedIn, allowedOut, FrameCounter } from './frame-counter.ts'

const PREFACE_BYTES = 24
/** Bytes that still arrive would reset the connection, and GOAWAY with it. */
const LINGER_MS = 1000

interface MeteredOwner {
  /** Reads the socket. @param take returns whether to keep reading */
  read(take: (bytes: Buffer) => boolean): void
  /** Called once. */
  onFlood(): void
  /** More has been passed on. */
  onBytes(): void
  /** The client has closed its side: it can take no more than its windows allow, and has most likely left. */
  onEnd(): void
  /** The client resets a stream. */
  onClientReset(stream: number): void
  /** A stream of the client is being reset with this code. Returns whether that may be a sign of a flood. */
  onReset(code: number | undefined): boolean
}

export class MeteredSocket extends Duplex {
  readonly #socket: Socket
  readonly #owner: MeteredOwner
  readonly #received = new FrameCounter(allowedIn, PREFACE_BYTES)
  readonly #sent = new FrameCounter(allowedOut)
  #isHeld = false
  /** Nothing more is read: each byte of a flood would take memory and time. */
  #isStopped = false

  constructor(socket: Socket, owner: MeteredOwner) {
    super({ allowHalfOpen: true })
    this.#socket = socket
    this.#owner = owner
    this.#received.onReset = stream => {
      owner.onClientReset(stream)
      return true
    }
    this.#sent.onReset = (_stream, code) => owner.onReset(code)
    owner.read(bytes => this.#take(bytes))
    socket.on('end', () => owner.onEnd())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => this.destroy())
  }

  /** The client, or its link, has yet to take what was written. */
  get hasBacklog(): boolean {
    return this.#socket.writableLength > 0
  }

  /** While it is held, nothing is read from the client. */
  hold(isHeld: boolean): void {
    if (this.#isHeld === isHeld || this.#isStopped) return
    this.#isHeld = isHeld
    if (isHeld) this.#socket.pause()
    else this.#socket.resume()
  }

  /** Reads nothing more, until the end. What is written still leaves. */
  stop(): void {
    this.#isStopped = true
    this.#socket.pause()
  }

  #take(bytes: Buffer): boolean {
    if (this.#isStopped || this.destroyed) return !this.#isStopped
    if (this.#received.isFlood(bytes)) {
      this.#noteFlood()
      return false
    }
    const isTaken = this.push(bytes)
    this.#owner.onBytes()
    return isTaken && !this.#isHeld && !this.#isStopped
  }

  #noteFlood() {
    this.stop()
    this.#owner.onFlood()
  }

  #write(bytes: Buffer, done: (error?: Error | null) => void) {
    this.#socket.write(bytes, done)
    this.#received.noteSent(bytes.length)
    if (!this.#isStopped && this.#sent.isFlood(bytes)) setImmediate(() => this.#noteFlood())
  }

  override _read(): void {
    if (!this.#isHeld && !this.#isStopped) this.#socket.resume()
  }

  override _write(bytes: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#write(bytes, done)
  }

  /** Frames that are written together leave in one TLS record. */
  override _writev(chunks: { chunk: Buffer }[], done: (error?: Error | null) => void): void {
    this.#write(Buffer.concat(chunks.map(({ chunk }) => chunk)), done)
  }

  override _final(done: () => void): void {
    this.#socket.end(done)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // After GOAWAY, it ended a while ago.
    const lingerMs = this.#socket.writableFinished ? 0 : LINGER_MS
    this.#socket.end()
    if (!this.#isStopped) this.#socket.resume()
    setTimeout(() => this.#socket.destroy(), lingerMs).unref()
    done(error)
  }
}
