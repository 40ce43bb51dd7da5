// An answer that is whole leaves in one write: head and body as one text.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { flushSoon } from './write-batch.ts'

const MAX_BODY_BYTES = 16 * 1024

/** What clients are told; the listener keeps its connections for as long. */
export const CLIENT_KEEP_ALIVE_MS = 75_000
const KEEP_ALIVE = `connection: keep-alive\r\nkeep-alive: timeout=${CLIENT_KEEP_ALIVE_MS / 1000}\r\n\r\n`

// Node's own text of the head: set, `end()` sends it as it is (OutgoingMessage#_send); there is no public way to one write.
type WithHeader = ServerResponse & { _header: string }

let dateText = ''
let dateUntil = 0

/** The Date field as a line (RFC 9110 §6.6.1), made once a second; anew also when the clock was set back. */
export const dateLine = (): string => {
  const now = Date.now()
  if (now >= dateUntil || now < dateUntil - 1000) {
    dateText = `date: ${new Date(now).toUTCString()}\r\n`
    dateUntil = now - (now % 1000) + 1000
  }
  return dateText
}

interface WholeAnswer {
  status: number
  reason: string
  /** Field lines made before, each ended by CRLF; no Date among them. */
  lines?: string
  /** `[name, value, …]`, judged already; their framing must be that of `body`. */
  headers: readonly string[]
  /** Latin-1. */
  body: string
}

/** `[name, value, …]` as lines of a head, each ended by CRLF. */
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

export const isDated = (headers: readonly string[]): boolean => {
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'date') return true
  }
  return false
}

class EndedSoon {
  readonly #res: ServerResponse

  constructor(res: ServerResponse) {
    this.#res = res
  }

  flush() {
    this.#res.end()
  }
}

/**
 * Sends the answer as one text at the end of this turn of the event loop, unless that may not be: to 1.0 clients, and on
 * connections that are about to close, which Node must know of. Returns whether it did: then nobody else ends it.
 */
export const sendWhole = (req: IncomingMessage, res: ServerResponse, answer: WholeAnswer): boolean => {
  const { status, reason, lines = '', headers, body } = answer
  if (body.length > MAX_BODY_BYTES || req.httpVersionMinor !== 1 || !res.shouldKeepAlive || res.headersSent)
    return false
  const date = isDated(headers) ? '' : dateLine()
  const head = `HTTP/1.1 ${status} ${reason}\r\n${lines}${headerLines(headers)}${date}${KEEP_ALIVE}`
  res.statusCode = status
  ;(res as WithHeader)._header = head + body
  flushSoon(new EndedSoon(res))
  return true
}
