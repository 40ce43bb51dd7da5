// Parses bytes from an upstream into validated HTTP/1.1 responses for who requested them (RFC 9112 §4, §6, §7).
import { ChunkedBody, INCOMPLETE, MALFORMED } from '../http/chunked-body.ts'
import type { Contained } from '../values/contain.ts'
import type { UpstreamFault } from './faults.ts'
import { BadResponse, type ResponseHead, readResponseHead } from './headers/response-head.ts'

export { BadResponse, type ResponseHead, readResponseHead }

export class UnaskedBytes extends BadResponse {
  constructor() {
    super('bytes that no request asked for')
  }
}

export interface ResponseSink {
  /** A 1xx other than 101 (RFC 9110 §15.2). */
  onInterim(status: number, headers: readonly string[]): void
  /** `whole`: the complete body as Latin-1 text if it arrived together with the head, so that one write is enough. */
  onHead(head: ResponseHead, whole: string | undefined): void
  /** Valid until it returns. */
  onBody(chunk: Buffer): void
  onEnd(trailers: readonly string[]): void
}

/** Every request ends in exactly one of `onEnd`, `onFault` and `onThrown`. */
export interface Requester extends ResponseSink, Contained {
  /**
   * `nothingSent`: no byte of the request reached the kernel, so it may be sent again on another connection
   * (RFC 9110 §9.2.2 would allow more, but nothing else is retried).
   */
  onFault(fault: UpstreamFault, cause: unknown, nothingSent: boolean): void
  /** The connection was not established when it got the request, and is now. */
  onConnected?(): void
  /** The socket accepts bytes again after `write` returned false. */
  onDrain(): void
}

const MAX_INTERIM_RESPONSES = 32
const EMPTY = Buffer.alloc(0)
const NO_TRAILERS: readonly string[] = []

type State = 'idle' | 'head' | 'length' | 'chunked' | 'close'

/** Reads the responses of one connection, one after the other. */
export class ResponseParser {
  #state: State = 'idle'
  #method = ''
  #sink: ResponseSink | undefined
  #pending = EMPTY
  #remaining = 0
  #chunked: ChunkedBody | undefined
  #begun = false
  #interims = 0

  /** Whether no response is expected. */
  get isIdle(): boolean {
    return this.#state === 'idle'
  }

  /** Whether any byte of the expected response has arrived. */
  get hasBegun(): boolean {
    return this.#begun
  }

  /** A request with this method has been written; its response goes to `sink`. */
  begin(method: string, sink: ResponseSink): void {
    this.#state = 'head'
    this.#method = method
    this.#sink = sink
    this.#begun = false
    this.#interims = 0
    this.#pending = EMPTY
  }

  /** Takes bytes; the buffer is not kept after the call. Throws {@link BadResponse}; the connection must then be destroyed. */
  take(bytes: Buffer): void {
    this.#begun = true
    let rest = bytes
    if (this.#pending.length > 0) {
      rest = Buffer.concat([this.#pending, bytes])
      this.#pending = EMPTY
    }
    while (rest.length > 0) rest = this.#step(rest)
  }

  /** The upstream closed its side. Returns whether this completes the response. */
  finish(): boolean {
    if (this.#state !== 'close') return this.#state === 'idle'
    this.#end(NO_TRAILERS)
    return true
  }

  #end(trailers: readonly string[]) {
    this.#state = 'idle'
    const ended = this.#sink
    this.#sink = undefined
    ended?.onEnd(trailers)
  }

  #takeHead(bytes: Buffer): Buffer {
    const found = readResponseHead(bytes, this.#method)
    if (found === undefined) {
      this.#pending = Buffer.from(bytes)
      return EMPTY
    }
    const { head, end: bodyAt, text } = found
    if (head.status < 200) {
      if (head.status === 101) throw new BadResponse('unasked upgrade')
      if (++this.#interims > MAX_INTERIM_RESPONSES) throw new BadResponse('endless interim responses')
      this.#sink?.onInterim(head.status, head.headers)
      return bytes.subarray(bodyAt)
    }
    const bodyEnd = bodyAt + Math.max(0, head.contentLength)
    const isWhole = head.framing === 'none' || (head.framing === 'length' && bodyEnd <= text.length)
    if (!isWhole) return this.#startBody(head, bytes.subarray(bodyAt))
    this.#sink?.onHead(head, text.slice(bodyAt, bodyEnd))
    this.#end(NO_TRAILERS)
    return bodyEnd === bytes.length ? EMPTY : bytes.subarray(bodyEnd)
  }

  #startBody(head: ResponseHead, rest: Buffer): Buffer {
    this.#state = head.framing === 'none' ? 'idle' : head.framing
    this.#remaining = head.contentLength
    this.#chunked = head.framing === 'chunked' ? new ChunkedBody(false) : undefined
    this.#sink?.onHead(head, undefined)
    return rest
  }

  #takeLength(bytes: Buffer): Buffer {
    const size = Math.min(this.#remaining, bytes.length)
    this.#remaining -= size
    this.#sink?.onBody(bytes.subarray(0, size))
    if (this.#remaining === 0) this.#end(NO_TRAILERS)
    return bytes.subarray(size)
  }

  #takeChunks(bytes: Buffer, body: ChunkedBody): Buffer {
    const end = body.take(bytes, data => this.#sink?.onBody(data))
    if (end === MALFORMED) throw new BadResponse('malformed chunked body')
    if (end === INCOMPLETE) return EMPTY
    this.#end(body.trailers)
    return bytes.subarray(end)
  }

  #step(bytes: Buffer): Buffer {
    switch (this.#state) {
      case 'head':
        return this.#takeHead(bytes)
      case 'length':
        return this.#takeLength(bytes)
      case 'chunked':
        return this.#takeChunks(bytes, this.#chunked ?? new ChunkedBody(false))
      case 'close':
        this.#sink?.onBody(bytes)
        return EMPTY
      case 'idle':
        throw new UnaskedBytes()
    }
  }
}
