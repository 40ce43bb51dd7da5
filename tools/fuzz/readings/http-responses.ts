// Reads the responses of an upstream as RFC 9112 alone defines them, with what is accepted from backends besides: slow, independent
// of every other parser here.
import {
  type Body,
  endsConnection,
  type Field,
  lineAt,
  listOf,
  Refusal,
  readChunks,
  readFields,
  refuse,
  valuesOf
} from './http-lines.ts'

export interface ReadResponse {
  readonly status: number
  readonly fields: readonly Field[]
  /** Latin-1, without its framing; what has arrived of it when `complete` is false. */
  readonly body: string
  readonly trailers: readonly Field[]
  readonly complete: boolean
}

export interface ResponseReading {
  /** Interim and final ones; only the last can be incomplete. */
  readonly responses: readonly ReadResponse[]
  readonly refused: string | undefined
}

/**
 * @param bytes Latin-1, all that came on one connection until the upstream closed it
 * @param methods of the requests, each sent when the response before was complete
 */
export const readResponses = (bytes: string, methods: readonly string[]): ResponseReading => {
  const responses: ReadResponse[] = []
  let at = 0
  try {
    for (const method of methods) {
      for (let isFinal = false; !isFinal; ) {
        const head = readHead(bytes, at)
        if (head === undefined) return { responses, refused: undefined }
        isFinal = head.status >= 200
        const body = readBody(bytes, head, method)
        responses.push({ status: head.status, fields: head.fields, ...body })
        at = body.end
        if (!body.complete || (isFinal && endsConnection(head))) return { responses, refused: body.refused }
      }
    }
    return { responses, refused: at < bytes.length ? 'bytes that no request asked for' : undefined }
  } catch (error) {
    if (error instanceof Refusal) return { responses, refused: error.message }
    throw error
  }
}

interface Head {
  readonly version: string
  readonly status: number
  readonly fields: readonly Field[]
  readonly end: number
}

const readHead = (bytes: string, start: number): Head | undefined => {
  const found = lineAt(bytes, start, '\n')
  if (found === undefined) return undefined
  // §4 asks for the space before an absent reason; servers that leave it out are too many to refuse.
  const [, version = '', status = ''] =
    /^(HTTP\/1\.\d) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/.exec(found.line) ?? refuse('no status line')
  const section = readFields(bytes, found.next, '\n')
  if (section === undefined) return undefined
  // §7.8 of RFC 9110: no upgrade was asked for.
  if (status === '101') refuse('an upgrade')
  return { version, status: Number(status), ...section }
}

// §6.3, in its order.
const readBody = (bytes: string, { version, status, fields, end }: Head, method: string): Body => {
  const codings = valuesOf(fields, 'transfer-encoding')
  const lengths = valuesOf(fields, 'content-length')
  if (codings.length > 0 && lengths.length > 0) refuse('framed in two ways')
  if (codings.length > 0 && version === 'HTTP/1.0') refuse('Transfer-Encoding in HTTP/1.0')
  if (codings.length > 1 || (codings[0] ?? 'chunked').toLowerCase() !== 'chunked') refuse('another transfer coding')
  // §8.6 of RFC 9110: equal ones are one.
  const [length, ...others] = listOf(fields, 'content-length')
  if (!/^\d+$/.test(length ?? '0') || others.some(other => !/^\d+$/.test(other) || Number(other) !== Number(length)))
    refuse('no Content-Length')
  const whole = (last: number): Body => ({
    body: bytes.slice(end, last),
    trailers: [],
    complete: last <= bytes.length,
    refused: undefined,
    end: last
  })
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return whole(end)
  if (codings.length > 0) return readChunks(bytes, end, '\n')
  return whole(length === undefined ? bytes.length : end + Number(length))
}
