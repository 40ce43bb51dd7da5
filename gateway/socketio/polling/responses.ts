// Makes the responses to polls and posts from what the upstream sent.
import { clientHeadFields } from '../../upstream/headers/client-head.ts'
import { privateAnswersOf } from '../../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../../upstream/parser.ts'
import { fieldsWithout } from '../../websocket/handshake.ts'
import type { SessionSource } from '../session-source.ts'
import type { PollingResponse, SocketIoForwarding } from './polling-parts.ts'

const NOT_REPEATED = /^(?:content-.*|transfer-encoding|set-cookie|date|etag|x-request-id|x-ratelimit-.*)$/i
const NOTHING = Buffer.alloc(0)

/** `[name, value, …]` of an upstream's response, as far as the client may see them. */
export const clientFields = (
  head: ResponseHead,
  forwarding: SocketIoForwarding,
  { route, upstream }: SessionSource
): string[] => {
  const context = forwarding.responseContext(route, upstream, '')
  return fieldsWithout(clientHeadFields(head, context, privateAnswersOf(route)), NOT_REPEATED)
}

export const textResponse = (fields: readonly string[], text: string): PollingResponse => ({
  status: 200,
  fields: [...fields, 'content-type', 'text/plain; charset=UTF-8'],
  bytes: Buffer.from(text)
})

/** The upstream's own refusal, without its body. */
export const failureResponse = ({ status }: ResponseHead, fields: readonly string[]): PollingResponse => ({
  status: status < 400 ? 502 : status,
  fields,
  bytes: NOTHING
})
