// Writes the response to one request: framed for its client, in one piece if it is complete (RFC 9112 §6, §9).
import { STATUS_CODES } from 'node:http'
import { dateLine, headerLines, isDated } from './response-head.ts'

/** What clients may rely on; the listener keeps its connections for as long. */
export const CLIENT_KEEP_ALIVE_MS = 75_000

const KEEP_ALIVE = `connection: keep-alive\r\nkeep-alive: timeout=${CLIENT_KEEP_ALIVE_MS / 1000}\r\n`
const CLOSE = 'connection: close\r\n'
const CHUNKED = 'transfer-encoding: chunked\r\n'

const WHOLE = 0
const LENGTH = 1
const CHUNKS = 2
const UNTIL_CLOSE = 3

/** Where an answer's bytes go. */
export interface AnswerSink {
  /** Latin-1; leaves at the end of this turn of the event loop. */
  send(text: string): void
  /** Returns whether the client's side has taken it, else the response's taker hears of it. */
  sendBytes(before: string, bytes: Buffer, after: string): boolean
  /** Cuts the connection; `isAmbiguous` when its end alone would end the answer. */
  cut(isAmbiguous: boolean): void
  readonly isDraining: boolean
  readonly isBodyDue: boolean
}

export interface AnswerTaker {
  onTaken(): void
}

/** What an answer needs to know of its request. */
interface Asked {
  readonly isHead: boolean
  readonly versionMinor: number
  keepAlive: boolean
}

interface AnswerHead {
  readonly status: number
  /** The usual one when absent. */
  readonly reason?: string
  /** Field lines made before, each ended by CRLF; no Date among them. */
  readonly lines?: string
  /** `[name, value, …]`, judged already; Content-Length among them where the length is known. */
  readonly headers: readonly string[]
}

export class HttpResponse {
  /** 0 until a final head has been given. */
  status = 0
  /** All of it was given. */
  isEnded = false
  /** All of it was taken by the client's side. */
  isDelivered = false
  /** The client has gone, or was cut off. */
  isGone = false
  /** Whether the connection goes on behind this answer. */
  keepAlive: boolean
  /** Hears when all that was written has been taken. */
  taker: AnswerTaker | undefined
  readonly #sink: AnswerSink
  readonly #isHead: boolean
  readonly #versionMinor: number
  #framing = WHOLE

  constructor(sink: AnswerSink, asked: Asked) {
    this.#sink = sink
    this.#isHead = asked.isHead
    this.#versionMinor = asked.versionMinor
    this.keepAlive = asked.keepAlive
    this.taker = undefined
  }

  get hasBegun(): boolean {
    return this.status !== 0
  }

  /** An answer in one piece. `body` is Latin-1, and what Content-Length says, but for HEAD. */
  whole(head: AnswerHead, body: string): void {
    if (this.#isOver) return
    this.isEnded = true
    this.#sink.send(`${this.#headText(head, '')}${this.#isHead ? '' : body}`)
  }

  /** @param bodyLength -1: not known, the answer is framed here */
  begin(head: AnswerHead, bodyLength: number): void {
    if (this.#isOver) return
    const hasBody = !this.#isHead && head.status !== 204 && head.status !== 304
    if (!hasBody) this.#framing = WHOLE
    else if (bodyLength >= 0) this.#framing = LENGTH
    else this.#framing = this.#versionMinor >= 1 ? CHUNKS : UNTIL_CLOSE
    if (this.#framing === UNTIL_CLOSE) this.keepAlive = false
    this.#sink.send(this.#headText(head, this.#framing === CHUNKS ? CHUNKED : ''))
  }

  /** More of the body. Returns false when the client does not take it: the taker hears once it has. */
  write(chunk: Buffer): boolean {
    if (this.isEnded || this.isGone || chunk.length === 0 || this.#framing === WHOLE) return true
    return this.#framing === CHUNKS
      ? this.#sink.sendBytes(`${chunk.length.toString(16)}\r\n`, chunk, '\r\n')
      : this.#sink.sendBytes('', chunk, '')
  }

  /** @param trailers field lines, each ended by CRLF; left out where the framing has no room for them */
  end(trailers = ''): void {
    if (this.isEnded || this.isGone) return
    this.isEnded = true
    this.#sink.send(this.#framing === CHUNKS ? `0\r\n${trailers}\r\n` : '')
  }

  /** An interim answer (RFC 9110 §15.2), which 1.0 clients do not know. */
  interim(status: number, reason: string, lines: string): void {
    if (this.#versionMinor === 0 || this.#isOver) return
    this.#sink.send(`HTTP/1.1 ${status} ${reason}\r\n${lines}\r\n`)
  }

  /** Breaks off an answer that has begun, so that it does not look complete. */
  abort(): void {
    if (this.isEnded || this.isGone) return
    this.#sink.cut(this.#framing === UNTIL_CLOSE)
  }

  get #isOver(): boolean {
    return this.status !== 0 || this.isGone
  }

  #headText({ status, reason = STATUS_CODES[status] ?? '', lines = '', headers }: AnswerHead, framing: string): string {
    this.status = status
    if (this.#sink.isDraining || this.#sink.isBodyDue) this.keepAlive = false
    const date = isDated(headers) ? '' : dateLine()
    const connection = this.keepAlive ? KEEP_ALIVE : CLOSE
    return `HTTP/1.1 ${status} ${reason}\r\n${lines}${headerLines(headers)}${date}${connection}${framing}\r\n`
  }
}
