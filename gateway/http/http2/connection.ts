// Serves the streams of one HTTP/2 connection as requests (RFC 9113).
import { constants, performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import type { Socket } from 'node:net'
import { contain, noteFault } from '../../values/contain.ts'
import type { ClientConnection } from '../request.ts'
import type { ConnectionHost, ServedConnection } from '../served-connection.ts'
import { FrameMeter } from './frame-meter.ts'
import { Stream } from './stream.ts'

const MAX_STREAMS = 100
/** What a client may send of a body before it is taken. */
const STREAM_BYTES = 65_535
/** Of all bodies of a connection. Beyond, nothing more is read from it. */
const CONNECTION_BYTES = 1024 * 1024
/** Larger heads than are accepted, so that they can be answered. */
const HEAD_BYTES = 32 * 1024
const MOST_FIELDS = 1000
/** Announces the end of a connection without refusing a stream that is on its way (RFC 9113 §6.8). */
const LAST_STREAM = 2 ** 31 - 1

const { NGHTTP2_ENHANCE_YOUR_CALM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_NO_ERROR } = constants

export class Http2Connection implements ServedConnection {
  readonly peer: string | undefined
  isNew = true
  deadline: number
  readonly #host: ConnectionHost
  readonly #origin: Pick<ClientConnection, 'peer' | 'covers'>
  readonly #meter: FrameMeter
  readonly #session: ServerHttp2Session
  readonly #streams = new Set<Stream>()

  constructor(socket: Socket, host: ConnectionHost, origin: Pick<ClientConnection, 'peer' | 'covers'>) {
    this.#host = host
    this.#origin = origin
    this.peer = origin.peer
    this.deadline = host.now + host.limits.headMs
    this.#meter = new FrameMeter(socket, {
      onFlood: () => this.#end(NGHTTP2_ENHANCE_YOUR_CALM),
      onBytes: () => this.#holdOrRead()
    })
    this.#session = performServerHandshake(this.#meter, {
      maxHeaderListPairs: MOST_FIELDS,
      settings: {
        initialWindowSize: STREAM_BYTES,
        maxConcurrentStreams: MAX_STREAMS,
        maxHeaderListSize: HEAD_BYTES
      }
    })
    this.#session.setLocalWindowSize(CONNECTION_BYTES)
    this.#session.on('stream', (stream, _headers, flags, raw) =>
      contain(this, () =>
        this.#onStream(stream, raw as unknown as string[], (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0)
      )
    )
    this.#session.on('error', () => socket.destroy())
    this.#session.on('close', () => socket.destroy())
  }

  get isIdle(): boolean {
    return this.#streams.size === 0
  }

  #onStream(stream: ServerHttp2Stream, raw: readonly string[], isComplete: boolean) {
    this.deadline = Number.POSITIVE_INFINITY
    const one = new Stream(stream, this.#origin)
    this.#streams.add(one)
    stream.on('close', () => contain(this, () => this.#onStreamClosed(one)))
    contain(one, () => one.start(raw, isComplete, this.#host.handler))
    if (!isComplete) stream.on('data', () => this.#holdOrRead())
  }

  #onStreamClosed(stream: Stream) {
    this.#streams.delete(stream)
    this.isNew = false
    if (this.isIdle) this.deadline = this.#host.now + this.#host.limits.idleMs
    this.#holdOrRead()
    contain(stream, closed => closed.onClose())
  }

  /** Reads no more from a client that has too much waiting here. */
  #holdOrRead() {
    let bytes = 0
    for (const stream of this.#streams) bytes += stream.waitingBytes
    this.#meter.hold(bytes > CONNECTION_BYTES)
  }

  expire(): void {
    this.#end(NGHTTP2_NO_ERROR)
  }

  /** A stream whose client takes nothing of what waits for it is ended. */
  endStalled(): void {
    for (const stream of [...this.#streams]) contain(stream, one => one.endStalled())
  }

  onAnnounced(): void {
    if (!this.#session.destroyed) this.#session.goaway(NGHTTP2_NO_ERROR, LAST_STREAM)
  }

  onDrain(): void {
    if (!this.#session.closed) this.#session.close()
  }

  destroy(): void {
    this.#end(NGHTTP2_NO_ERROR)
  }

  #end(code: number) {
    if (!this.#session.destroyed) this.#session.destroy(undefined, code)
  }

  onThrown(error: unknown): void {
    noteFault('client', error)
    this.#end(NGHTTP2_INTERNAL_ERROR)
  }

  onClose(): void {
    this.deadline = Number.POSITIVE_INFINITY
    this.#end(NGHTTP2_NO_ERROR)
  }
}
