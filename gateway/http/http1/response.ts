// Writes the response to one request, framed for its client, in one piece if it is complete (RFC 9112 §4, §6, §9).
import { ownText } from '../../values/bounded-map.ts'
import type { Outbox } from '../outbox.ts'
import { CLIENT_KEEP_ALIVE_MS, type FinalHead, HttpResponse } from '../response.ts'

const { STATUS_CODES } = process.getBuiltinModule('node:http')

// Flat, like all text that is written again and again: V8 puts concatenated text together again at every write.
const standardLines = new Map(
  Object.entries(STATUS_CODES).map(([code, reason]) => [Number(code), ownText(`HTTP/1.1 ${code} ${reason}\r\n`)])
)

/** @param reason the standard phrase if undefined */
const statusLine = (status: number, reason: string | undefined): string => {
  const standard = standardLines.get(status)
  if (standard !== undefined && (reason === undefined || reason === STATUS_CODES[status])) return standard
  return `HTTP/1.1 ${status} ${reason ?? ''}\r\n`
}

let dateText = ''
let dateUntil = 0

/** The Date field as a line (RFC 9110 §6.6.1), built once per second, and again if the clock is set back. */
const dateLine = (): string => {
  const now = Date.now()
  if (now >= dateUntil || now < dateUntil - 1000) {
    dateText = ownText(`date: ${new Date(now).toUTCString()}\r\n`)
    dateUntil = now - (now % 1000) + 1000
  }
  return dateText
}

/** `[name, value, …]` as lines of a head, each ending in CRLF. */
export const headerLines = (headers: readonly string[]): string => {
  let lines = ''
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    const value = headers[i + 1] ?? ''
    // biome-ignore lint/style/useTemplate: V8 converts what a template holds, and adds known strings as they are.
    lines += name + ': ' + value + '\r\n'
  }
  return lines
}

const isDated = (headers: readonly string[]): boolean => {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'date') return true
  }
  return false
}

const KEEPS = `connection: keep-alive\r\nkeep-alive: timeout=${CLIENT_KEEP_ALIVE_MS / 1000}\r\n`
const CLOSES = 'connection: close\r\n'
const CHUNKED = 'transfer-encoding: chunked\r\n'
// How a head ends, each as one piece of text.
const PLAIN_ENDS = { keeps: ownText(`${KEEPS}\r\n`), closes: ownText(`${CLOSES}\r\n`) }
const CHUNKED_ENDS = { keeps: ownText(`${KEEPS}${CHUNKED}\r\n`), closes: ownText(`${CLOSES}${CHUNKED}\r\n`) }

type Framing = 'length' | 'chunks' | 'until-close'

/** The destination of a response's bytes. */
export interface Http1Sink {
  readonly outbox: Pick<Outbox, 'send' | 'sendBytes'>
  /** All of the response has been given. */
  onEnded(): void
  /** Cuts the connection, so that a response in progress does not look complete. */
  destroy(): void
  readonly isDraining: boolean
  readonly isBodyDue: boolean
}

/** The properties of its request that a response depends on. */
interface Asked {
  readonly isHead: boolean
  readonly versionMinor: number
  keepAlive: boolean
}

export class Http1Response extends HttpResponse {
  readonly #sink: Http1Sink
  readonly #isHead: boolean
  readonly #versionMinor: number
  #framing: Framing = 'length'

  constructor(sink: Http1Sink, asked: Asked) {
    super()
    this.#sink = sink
    this.#isHead = asked.isHead
    this.#versionMinor = asked.versionMinor
    this.keepAlive = asked.keepAlive
  }

  whole(head: FinalHead, body: string): void {
    if (this.#isOver) return
    this.isEnded = true
    this.#sink.outbox.send(`${this.#headText(head, PLAIN_ENDS)}${this.#isHead ? '' : body}`)
    this.#sink.onEnded()
  }

  begin(head: FinalHead, bodyLength: number): void {
    if (this.#isOver) return
    if (bodyLength < 0) this.#framing = this.#versionMinor >= 1 ? 'chunks' : 'until-close'
    this.endsWithConnection = this.#framing === 'until-close'
    if (this.endsWithConnection) this.keepAlive = false
    this.#sink.outbox.send(this.#headText(head, this.#framing === 'chunks' ? CHUNKED_ENDS : PLAIN_ENDS))
  }

  write(chunk: Buffer): boolean {
    if (this.isEnded || this.isGone || chunk.length === 0) return true
    return this.#framing === 'chunks'
      ? this.#sink.outbox.sendBytes(`${chunk.length.toString(16)}\r\n`, chunk, '\r\n')
      : this.#sink.outbox.sendBytes('', chunk, '')
  }

  end(trailers = ''): void {
    if (this.isEnded || this.isGone) return
    this.isEnded = true
    this.#sink.outbox.send(this.#framing === 'chunks' ? `0\r\n${trailers}\r\n` : '')
    this.#sink.onEnded()
  }

  interim(status: number, reason: string, lines: string): void {
    if (this.#versionMinor === 0 || this.#isOver) return
    this.#sink.outbox.send(`HTTP/1.1 ${status} ${reason}\r\n${lines}\r\n`)
  }

  abort(): void {
    if (this.isEnded || this.isGone) return
    this.#sink.destroy()
  }

  get #isOver(): boolean {
    return this.status !== 0 || this.isGone
  }

  #headText(head: FinalHead, ends: typeof PLAIN_ENDS): string {
    const { status, lines = '', hasDate = false, headers = [] } = head
    this.status = status
    if (this.#sink.isDraining || this.#sink.isBodyDue) this.keepAlive = false
    const date = hasDate || isDated(headers) ? '' : dateLine()
    const end = this.keepAlive ? ends.keeps : ends.closes
    return statusLine(status, head.reason) + lines + headerLines(headers) + date + end
  }
}
