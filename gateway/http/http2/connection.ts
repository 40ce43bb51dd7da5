// Serves the streams of one HTTP/2 connection as requests (RFC 9113).
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { contain, noteFault } from '../../values/contain.ts'
import type { ClientConnection } from '../request.ts'
import type { ConnectionHost, ServedConnection } from '../served-connection.ts'
import { MeteredSocket } from './metered-socket.ts'
import { Stream } from './stream.ts'

const MAX_CONCURRENT_STREAMS = 100
/** What a client may send of a body before it is taken. */
const STREAM_BYTES = 65_535
/** Of all bodies of a connection. Beyond, nothing more is read from it. */
const CONNECTION_BYTES = 1024 * 1024
/** Bodies are bounded where they are written. Beyond this, node:http2 would refuse other streams while one large response is taken. */
const SESSION_MB = 1000
/** Larger heads than are accepted, so that they can be answered. */
const HEAD_BYTES = 32 * 1024
/** Browsers send each of up to 180 cookies as a field. */
const MOST_FIELDS = 300
/** Invalid ones, and resets: more than are read at once. They are counted here, which says why the connection ends; node:http2 would not. */
const MOST_FRAMES = 10_000
/** In a second; each takes far more to read and to answer than to send. A page may cause as many at once, by cookies that are too large. */
const MOST_REFUSED_HEADS = MAX_CONCURRENT_STREAMS
/** The time that a client has to receive GOAWAY; milliseconds. */
const GOAWAY_MS = 1000

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants

export class Http2Connection implements ServedConnection {
  readonly isTls = true
  readonly isHttp2 = true
  readonly peer: string | undefined
  deadline: number
  readonly #host: ConnectionHost
  readonly #origin: Pick<ClientConnection, 'peer' | 'covers'>
  readonly #socket: MeteredSocket
  readonly #session: ServerHttp2Session
  readonly #streams = new Set<Stream>()
  /** Those whose requests have bodies. */
  readonly #bodies = new Set<Stream>()
  #isNew = true
  #isEnding = false
  readonly #refused = { second: 0, heads: 0 }

  constructor(socket: Socket, host: ConnectionHost, origin: Pick<ClientConnection, 'peer' | 'covers'>) {
    this.#host = host
    this.#origin = origin
    this.peer = origin.peer
    this.deadline = host.now + host.limits.headMs
    this.#socket = new MeteredSocket(socket, {
      read: take => host.read(socket, take),
      onFlood: () => this.#end(NGHTTP2_ENHANCE_YOUR_CALM),
      onBytes: () => this.#holdOrRead(),
      onEnd: () => this.destroy(),
      onClientReset: id => {
        for (const stream of this.#streams) if (stream.id === id) stream.onReset()
      },
      onReset: code => {
        if (code === NGHTTP2_ENHANCE_YOUR_CALM) setImmediate(() => contain(this, one => one.#onHeadReset()))
        // With NO_ERROR, the response is complete; with INTERNAL_ERROR, it is broken off here, mostly because its backend did.
        return code !== NGHTTP2_NO_ERROR && code !== NGHTTP2_INTERNAL_ERROR
      }
    })
    this.#session = performServerHandshake(this.#socket, {
      maxHeaderListPairs: MOST_FIELDS,
      maxSessionMemory: SESSION_MB,
      maxSessionInvalidFrames: MOST_FRAMES,
      streamResetBurst: MOST_FRAMES,
      streamResetRate: MOST_FRAMES,
      // nghttp2 would leave out fields with blanks at an end of their value; here they are malformed (RFC 9113 §8.2.1).
      strictFieldWhitespaceValidation: false,
      settings: {
        initialWindowSize: STREAM_BYTES,
        maxConcurrentStreams: MAX_CONCURRENT_STREAMS,
        maxHeaderListSize: HEAD_BYTES
      }
    })
    this.#session.setLocalWindowSize(CONNECTION_BYTES)
    this.#session.on('stream', (stream, _headers, flags, raw) =>
      contain(this, () =>
        this.#onStream(stream, raw as unknown as string[], (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0)
      )
    )
    // What is wrong with a connection ends it.
    this.#session.on('error', () => undefined)
  }

  get isOpen(): boolean {
    return !this.#session.destroyed
  }

  #onStream(stream: ServerHttp2Stream, raw: readonly string[], isComplete: boolean) {
    this.deadline = Number.POSITIVE_INFINITY
    const one = new Stream(stream, this.#origin, this)
    this.#streams.add(one)
    stream.on('close', () => contain(this, () => this.#onStreamClosed(one)))
    contain(one, () => one.start(raw, isComplete, this.#host.handler))
    if (one.isRefused) this.#noteRefused()
    if (isComplete) return
    this.#bodies.add(one)
    stream.on('data', () => this.#holdOrRead())
  }

  /** node:http2 resets a stream with more fields, or a larger head, than it may have, and does not make it known. */
  #onHeadReset() {
    if (this.#isEnding || this.#session.destroyed) return
    this.#host.handler.onFault(this, 'too-large', undefined)
    this.#noteRefused()
  }

  #noteRefused() {
    const second = Math.floor(this.#host.now / 1000)
    if (second !== this.#refused.second) Object.assign(this.#refused, { second, heads: 0 })
    if (++this.#refused.heads > MOST_REFUSED_HEADS) this.#end(NGHTTP2_ENHANCE_YOUR_CALM)
  }

  #onStreamClosed(stream: Stream) {
    this.#streams.delete(stream)
    this.#isNew = false
    if (this.#host.isDraining) this.onDrain(false)
    if (this.#streams.size === 0)
      this.deadline = this.#host.now + (this.#session.closed ? GOAWAY_MS : this.#host.limits.idleMs)
    if (this.#bodies.delete(stream)) this.#holdOrRead()
    contain(stream, closed => closed.onClose())
  }

  /** Reads no more from a client that has too much waiting here. */
  #holdOrRead() {
    let bytes = 0
    for (const stream of this.#bodies) bytes += stream.waitingBytes
    this.#socket.hold(bytes > CONNECTION_BYTES)
  }

  /** It has been idle for too long, or its client does not close it after GOAWAY. */
  expire(): void {
    if (this.#session.closed) this.destroy()
    else this.onDrain(false)
  }

  endStalled(): void {
    // Parts of all streams leave in one write, which is judged as a whole while it is under way.
    if (this.#socket.hasBacklog) return
    for (const stream of [...this.#streams]) contain(stream, one => one.endStalled())
  }

  /** GOAWAY names the last stream served: after it, node:http2 ignores new ones, which clients may send again elsewhere (RFC 9113 §6.8). */
  onAnnounced(): void {
    this.onDrain(true)
  }

  onDrain(sparesNew: boolean): void {
    const isUnused = this.#isNew && this.#streams.size === 0
    if (this.#session.closed || (isUnused && sparesNew)) return
    this.#session.close()
    if (this.#streams.size === 0) this.deadline = this.#host.now + GOAWAY_MS
  }

  destroy(): void {
    // node:http2 would reset them with NO_ERROR.
    for (const stream of [...this.#streams]) stream.destroy()
    this.#session.destroy()
    this.#socket.destroy()
  }

  /** Ends all streams, and tells the client why. */
  #end(code: number) {
    if (this.#isEnding || this.#session.destroyed) return
    this.#isEnding = true
    this.#socket.stop()
    this.#session.goaway(code)
    this.#session.close()
    for (const stream of [...this.#streams]) stream.destroy()
    setTimeout(() => this.destroy(), GOAWAY_MS).unref()
  }

  onThrown(error: unknown): void {
    noteFault('client', error)
    this.#end(NGHTTP2_INTERNAL_ERROR)
  }

  onClose(): void {
    this.deadline = Number.POSITIVE_INFINITY
    this.destroy()
  }
}
