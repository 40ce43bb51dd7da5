// Reads the responses of an upstream as RFC 9112 alone defines them, with what is accepted from backends besides: slow, independent
// of every other parser here.
import {
  type Body,
  endsConnection,
  type Field,
  isChunked,
  lineAt,
  listOf,
  type Message,
  readChunks,
  readFields,
  readLength,
  refusalIn,
  refuse
} from './http-lines.ts'

export interface ReadResponse extends Message {
  readonly status: number
}

/**
 * Interim and final ones, of which only the last can be incomplete, and why what follows is none.
 *
 * @param bytes Latin-1, all that came on one connection until the upstream closed it
 * @param methods of the requests, each sent when the response before was complete
 */
export const readResponses = (bytes: string, methods: readonly string[]) => {
  const responses: ReadResponse[] = []
  let at = 0
  const refused = refusalIn(() => {
    for (const method of methods) {
      for (let isFinal = false; !isFinal; ) {
        const head = readHead(bytes, at)
        if (head === undefined) return
        isFinal = head.status >= 200
        const body = readBody(bytes, head, method)
        responses.push({ status: head.status, fields: head.fields, ...body })
        at = body.end
        if (body.refused !== undefined) refuse(body.refused)
        if (!body.complete || (isFinal && endsConnection(head))) return
      }
    }
    if (at < bytes.length) refuse('bytes that no request asked for')
  })
  return { responses, refused }
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

// §6.3
const readBody = (bytes: string, head: Head, method: string): Body => {
  const { status, fields, end } = head
  const chunked = isChunked(head)
  // §8.6 of RFC 9110: equal ones are one.
  const [length, ...others] = listOf(fields, 'content-length')
  if (!/^\d+$/.test(length ?? '0') || others.some(other => !/^\d+$/.test(other) || Number(other) !== Number(length)))
    refuse('no Content-Length')
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return readLength(bytes, end, 0)
  if (chunked) return readChunks(bytes, end, '\n')
  return readLength(bytes, end, length === undefined ? bytes.length - end : Number(length))
}
