// Writes the response to one request of an HTTP/2 stream (RFC 9113 §8.1, §8.3.2).
import type { OutgoingHttpHeaders, ServerHttp2Stream } from 'node:http2'
import { type Contained, contain } from '../../values/contain.ts'
import { parseFieldLines } from '../field-lines.ts'
import { type FinalHead, HttpResponse } from '../response.ts'
import { CONNECTION_FIELDS } from './request-head.ts'

const PART_BYTES = 64 * 1024
/** Parts of a body that wait take more than a hundred bytes each beside their own. */
const MOST_PARTS = 500

interface ResponseOwner extends Contained {
  /** The response has been handed over completely. */
  onSent(): void
  endSoon(): void
}

export class Http2Response extends HttpResponse {
  isHead = false
  writtenBytes = 0
  readonly #stream: ServerHttp2Stream
  readonly #owner: ResponseOwner
  #hasBody = false
  #trailers = ''
  /** Written since the client had last taken everything. */
  #parts = 0

  constructor(stream: ServerHttp2Stream, owner: ResponseOwner) {
    super()
    this.#stream = stream
    this.#owner = owner
  }

  whole(head: FinalHead, body: string): void {
    if (this.#isOver) return
    const isEmpty = body === '' || !this.#mayHaveBody(head)
    this.#respond(head, { endStream: isEmpty })
    this.isEnded = true
    if (!isEmpty) this.#endWith(body)
  }

  /** Each part is written when the one before it has been taken, so that `writtenBytes` shows whether the client takes any. */
  #endWith(body: string) {
    const part = body.length > PART_BYTES ? body.slice(0, PART_BYTES) : body
    this.writtenBytes += part.length
    if (part === body) return void this.#stream.end(body, 'latin1')
    this.#stream.write(part, 'latin1', error => {
      if (!error) contain(this.#owner, () => this.#endWith(body.slice(PART_BYTES)))
    })
  }

  begin(head: FinalHead, bodyLength: number): void {
    if (this.#isOver) return
    this.#hasBody = this.#mayHaveBody(head)
    // Only a body of unknown length has trailers, as in HTTP/1.1.
    const waitForTrailers = this.#hasBody && bodyLength < 0
    this.#stream.on('drain', () => contain(this.#owner, () => this.taker?.onTaken()))
    this.#respond(head, { endStream: !this.#hasBody, waitForTrailers })
  }

  write(chunk: Buffer): boolean {
    if (this.isEnded || this.isGone || chunk.length === 0 || !this.#hasBody) return true
    this.writtenBytes += chunk.length
    this.#parts = this.#stream.writableLength === 0 ? 1 : this.#parts + 1
    if (this.#parts < MOST_PARTS) return this.#stream.write(Buffer.from(chunk))
    // `drain` comes only where bytes were too many.
    this.#stream.write(Buffer.from(chunk), error => {
      if (!error) contain(this.#owner, () => this.taker?.onTaken())
    })
    return false
  }

  end(trailers = ''): void {
    if (this.isEnded || this.isGone) return
    this.isEnded = true
    this.#trailers = trailers
    this.#stream.end()
  }

  interim(status: number, _reason: string, lines: string): void {
    if (!this.#isOver) this.#stream.additionalHeaders(headersOf(parseFieldLines(lines), status))
  }

  abort(): void {
    if (this.isEnded || this.isGone) return
    // With INTERNAL_ERROR. `close` would first end the stream, as if the response were complete.
    this.#stream.destroy(new Error('the response is broken off'))
  }

  override endSoon(): void {
    this.#owner.endSoon()
  }

  #mayHaveBody({ status }: FinalHead): boolean {
    return !this.isHead && status !== 204 && status !== 205 && status !== 304
  }

  /** Throws if node:http2 refuses it; another response can be sent then. */
  #respond(head: FinalHead, options: { endStream: boolean; waitForTrailers?: boolean }) {
    // What is no status is read as one of a server's error (RFC 9110 §15); node:http2 writes none.
    const status = head.status > 599 ? 502 : head.status
    const fields = parseFieldLines(head.lines ?? '')
    if (head.headers !== undefined) fields.push(...head.headers)
    const headers = headersOf(fields, status)
    // Backends send content with it, although it has none (RFC 9110 §15.3.6).
    if (status === 205) headers['content-length'] = '0'
    this.#stream.respond(headers, options)
    this.status = status
    if (options.waitForTrailers === true)
      this.#stream.on('wantTrailers', () => contain(this.#owner, () => this.#sendTrailers()))
    else if (this.#stream.writableFinished) this.#noteSentSoon()
    else this.#stream.on('finish', () => contain(this.#owner, owner => owner.onSent()))
  }

  /** What is sent last is written when this returns, and a reset would overtake it. Of a HEAD, node:http2 has ended its side before. */
  #noteSentSoon() {
    setImmediate(() => contain(this.#owner, owner => owner.onSent()))
  }

  #sendTrailers() {
    this.#stream.sendTrailers(headersOf(parseFieldLines(this.#trailers)))
    this.#noteSentSoon()
  }

  get #isOver(): boolean {
    // Of one that its client has reset, node:http2 sends nothing more.
    return this.status !== 0 || this.isGone || this.#stream.closed || this.#stream.destroyed
  }
}

/** They are no lists (RFC 6265 §3, RFC 6797 §8.1). */
const NEVER_JOINED: ReadonlySet<string> = new Set(['set-cookie', 'strict-transport-security'])

/** Of `[name, value, …]`, Latin-1, without what HTTP/2 does not have. Fields that are sent more than once are joined (RFC 9110 §5.3). */
const headersOf = (fields: readonly string[], status?: number): OutgoingHttpHeaders => {
  const headers: Record<string, string | string[]> = Object.create(null)
  if (status !== undefined) headers[':status'] = String(status)
  for (let i = 0; i < fields.length; i += 2) {
    const [name = '', value = ''] = [fields[i]?.toLowerCase(), fields[i + 1]]
    if (CONNECTION_FIELDS.has(name)) continue
    const before = headers[name]
    if (before === undefined || before === '') headers[name] = value
    else if (value !== '') headers[name] = NEVER_JOINED.has(name) ? [before, value].flat() : `${before}, ${value}`
  }
  return headers
}
