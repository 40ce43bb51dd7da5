// An answer that came whole leaves in one write: head and body as one text, judged already by the response parser.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ResponseHead } from './response-parser.ts'

const MAX_BODY_BYTES = 16 * 1024
const KEEP_ALIVE = `connection: keep-alive\r\nkeep-alive: timeout=`

// Node's own text of the head: set, `end()` sends it as it is (OutgoingMessage#_send); there is no public way to one write.
type WithHeader = ServerResponse & { _header: string }

let dateText = ''
let dateUntil = 0

/** The Date field's value (RFC 9110 §6.6.1), made once a second. */
const date = (): string => {
  const now = Date.now()
  if (now >= dateUntil) {
    dateText = new Date(now).toUTCString()
    dateUntil = now - (now % 1000) + 1000
  }
  return dateText
}

/**
 * Whether a whole answer to this request may go out as one text: not to 1.0 clients, nor on connections that are about to
 * close, which Node must know of.
 */
export const leavesWhole = (req: IncomingMessage, res: ServerResponse, body: Buffer): boolean =>
  body.length <= MAX_BODY_BYTES && req.httpVersionMinor === 1 && res.shouldKeepAlive && req.complete && !res.headersSent

/** `headers` is `[name, value, …]`; their framing must be that of `body`. */
export const answerWhole = (
  res: ServerResponse,
  head: ResponseHead,
  headers: readonly string[],
  body: Buffer,
  keepAliveMs: number
): void => {
  let text = `HTTP/1.1 ${head.status} ${head.reason}\r\n`
  let dated = false
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'date') dated = true
    text += `${name}: ${headers[i + 1]}\r\n`
  }
  if (!dated) text += `date: ${date()}\r\n`
  text += `${KEEP_ALIVE}${Math.floor(keepAliveMs / 1000)}\r\n\r\n`
  res.statusCode = head.status
  ;(res as WithHeader)._header = body.length === 0 ? text : text + body.toString('latin1')
  res.end()
}
