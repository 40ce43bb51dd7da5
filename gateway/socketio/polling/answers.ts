// Answers requests of a polling client, with the fields that its upstream sent.
import type { Exchange } from '../../http/exchange.ts'
import { clientHeadFields } from '../../upstream/headers/client-head.ts'
import { privateAnswersOf } from '../../upstream/headers/private-answers.ts'
import type { ResponseHead } from '../../upstream/parser.ts'
import { fieldsWithout } from '../../websocket/handshake.ts'
import type { SessionSource } from '../session-source.ts'
import type { SocketIoForwarding } from './polling-parts.ts'

const NOT_REPEATED = /^(?:content-.*|transfer-encoding|set-cookie|date|etag|x-request-id|x-ratelimit-.*)$/i

/** `[name, value, …]` of an upstream's response, as far as the client may see them. */
export const clientFields = (
  head: ResponseHead,
  forwarding: SocketIoForwarding,
  { route, upstream }: SessionSource
): string[] => {
  const context = forwarding.responseContext(route, upstream, '')
  return fieldsWithout(clientHeadFields(head, context, privateAnswersOf(route)), NOT_REPEATED)
}

/** @param fields `[name, value, …]` of the upstream */
export const answerText = (
  exchange: Exchange,
  forwarding: SocketIoForwarding,
  fields: readonly string[],
  body: Buffer
): void => {
  exchange.underway = undefined
  const type = ['content-type', 'text/plain; charset=UTF-8', 'content-length', String(body.length)]
  const headers = [...fields, ...forwarding.pollHeaders(exchange, fields), ...type]
  exchange.response.whole({ status: 200, headers }, body.toString('latin1'))
}

/** The upstream's own refusal, without its body. */
export const answerFailure = (
  exchange: Exchange,
  forwarding: SocketIoForwarding,
  source: SessionSource,
  head: ResponseHead
): void => {
  const fields = clientFields(head, forwarding, source)
  const headers = [...fields, ...forwarding.pollHeaders(exchange, fields), 'content-length', '0']
  exchange.response.whole({ status: head.status < 400 ? 502 : head.status, headers }, '')
}
