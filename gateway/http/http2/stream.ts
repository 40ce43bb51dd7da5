// Holds one stream: its request goes to the handler like any other, and its body on demand (RFC 9113 §5.1, §8.1).
import { constants, type ServerHttp2Stream } from 'node:http2'
import { type Contained, contain, noteFault } from '../../values/contain.ts'
import { type ClientConnection, HttpRequest, readHead, type Takeover } from '../request.ts'
import type { MessageHandler } from '../served-connection.ts'
import { readRequestHead } from './request-head.ts'
import { Http2Response } from './response.ts'

/** How long a client may keep the end of a stream back once all else has been sent; milliseconds. */
const END_MS = 5000
/** How long a client may take to make room for a response that any number of requests may get; milliseconds. */
const SOON_MS = 250
/** What a piece of a body takes beside its bytes. */
const PIECE_BYTES = 128

/** The pieces of a body that wait, which is no documented property; guarded by test/http/http2/connections.test.ts. */
interface Inside {
  readonly readableBuffer?: { readonly length: number }
}

export class Stream implements ClientConnection, Contained {
  /** Its head was malformed or too large. */
  isRefused = false
  readonly isTls = true
  readonly isHttp2 = true
  readonly peer: string | undefined
  readonly covers: ClientConnection['covers']
  readonly client: ClientConnection['client']
  readonly #stream: ServerHttp2Stream
  readonly #response: Http2Response
  #request: HttpRequest | undefined
  #hasBody = false
  /** Bytes of the body that are still to come, by Content-Length; NaN: it has none. */
  #left = Number.NaN
  /** It ended before everything was written. */
  #isCut = false
  /** Bytes that the client had taken when that was looked at last. */
  #lastTaken: number | undefined

  constructor(
    stream: ServerHttp2Stream,
    { peer, covers }: Pick<ClientConnection, 'peer' | 'covers'>,
    client: ClientConnection['client']
  ) {
    this.#stream = stream
    this.#response = new Http2Response(stream, this)
    this.peer = peer
    this.covers = covers
    this.client = client
  }

  get isOpen(): boolean {
    return !this.#stream.destroyed
  }

  get id(): number | undefined {
    return this.#stream.id
  }

  /** Of the body, not taken by its consumer: a client may send each byte in a frame of its own. */
  get waitingBytes(): number {
    const { readableLength, readableBuffer }: ServerHttp2Stream & Inside = this.#stream
    return readableLength + PIECE_BYTES * (readableBuffer?.length ?? 0)
  }

  /** @param raw as node:http2 gives it: `[name, value, …]` with pseudo-fields */
  start(raw: readonly string[], isComplete: boolean, handler: MessageHandler): void {
    // What is wrong with a stream ends it.
    this.#stream.on('error', () => undefined)
    // It was reset before it was known.
    if (this.#stream.aborted) this.onReset()
    // Of a complete request nothing is read, not even its end: node:http2 would destroy the stream in the middle of its last write.
    if (!isComplete) this.#takeBody()
    const parts = readRequestHead(raw, !isComplete)
    if (typeof parts === 'string') {
      this.isRefused = true
      handler.onFault(this, parts, this.#response)
      return
    }
    this.#response.isHead = parts.method === 'HEAD'
    const head = readHead(parts.fields)
    this.#left = Number(head.contentLength ?? Number.NaN)
    this.#request = new HttpRequest(parts, head, this, this.#response, isComplete || this.#left === 0)
    handler.onRequest(this.#request)
  }

  #takeBody() {
    const stream = this.#stream
    this.#hasBody = true
    stream.pause()
    // As text, because a Buffer that waits here would keep all of what was read with it, however much of that is of other streams.
    stream.setEncoding('latin1')
    stream.on('data', (text: string) => contain(this, one => one.#give(Buffer.from(text, 'latin1'))))
    stream.on('end', () => contain(this, one => one.#giveEnd()))
  }

  #give(chunk: Buffer) {
    this.#request?.consumer?.onUpload(chunk)
    this.#left -= chunk.length
    // A backend may answer before the empty frame that ends the stream: that is no upload to be refused.
    if (this.#left === 0) this.#giveEnd()
    if (this.#request?.isPaused === true) this.#stream.pause()
  }

  #giveEnd() {
    if (this.#request === undefined || this.#request.isComplete || this.#stream.aborted) return
    this.#request.isComplete = true
    this.#request.consumer?.onUploadEnd()
  }

  /** The rest of a body that its response did not wait for is not wanted (RFC 9113 §8.1). */
  onSent(): void {
    if (!this.#hasBody || this.#stream.readableEnded) return
    const close = () => this.#stream.close(constants.NGHTTP2_NO_ERROR)
    if (this.#request?.isComplete === true) this.#stream.setTimeout(END_MS, close)
    else close()
    // node:http2 keeps a stream, as one of those at once, until what has arrived of it is read, also if that is the whole body.
    if (this.#request !== undefined) this.#request.isPaused = false
    this.#stream.resume()
  }

  /** A client whose windows have no room could let a hundred streams of each connection wait. */
  endSoon(): void {
    const end = () => {
      const isWritten = this.#stream.state.localClose === 1
      this.#stream.close(isWritten ? constants.NGHTTP2_NO_ERROR : constants.NGHTTP2_CANCEL)
    }
    setTimeout(() => contain(this, end), SOON_MS).unref()
  }

  pump(): void {
    if (this.#request?.consumer !== undefined && !this.#request.isPaused) this.#stream.resume()
  }

  takeOver(): Takeover {
    throw new Error('an HTTP/2 stream cannot be taken over by another protocol')
  }

  /** Ends a stream whose client has taken nothing of what waits for it since this was called last. */
  endStalled(): void {
    const { writableLength } = this.#stream
    const taken = writableLength === 0 ? undefined : this.#response.writtenBytes - writableLength
    if (taken !== undefined && taken === this.#lastTaken) this.#stream.close(constants.NGHTTP2_CANCEL)
    this.#lastTaken = taken
  }

  /** A response in progress is broken off, with INTERNAL_ERROR: with NO_ERROR, clients would take it for complete. */
  destroy(): void {
    this.noteCut()
    this.#stream.destroy(this.#isCut ? new Error('the response is broken off') : undefined)
  }

  /** The client resets it. With NO_ERROR, node:http2 would wait until what has arrived is read, and for its last write. */
  onReset(): void {
    this.noteCut()
    setImmediate(() => this.#stream.destroy())
  }

  /** What has not been written so far does not arrive. */
  noteCut(): void {
    this.#isCut ||= !this.#stream.writableFinished
  }

  onThrown(error: unknown): void {
    const request = this.#request
    if (request?.owner !== undefined && !request.response.isEnded) request.owner.onThrown(error)
    else {
      noteFault('client', error)
      this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR)
    }
  }

  onClose(): void {
    const request = this.#request
    // V8 may keep an ended stream for a while, through the maps that it was in, so it holds as little as possible.
    this.#request = undefined
    if (request === undefined) return
    const { response } = request
    // Where the connection was lost, it is CANCEL. After a request with a body, node:http2 does not report the last write.
    const { rstCode } = this.#stream
    response.isDelivered = response.isEnded && !this.#isCut && rstCode === constants.NGHTTP2_NO_ERROR
    response.isGone = !response.isDelivered
    request.owner?.onClosed()
  }
}
