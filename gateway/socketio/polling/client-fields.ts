// Selects the fields of an upstream's poll response that reach the client.
import type { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../http/exchange.ts'
import { clientHead, type ResponseContextOf } from '../../upstream/headers/client-head.ts'
import type { ResponseHead } from '../../upstream/parser.ts'
import type { Upstreams } from '../../upstream/upstreams.ts'
import type { SessionSource } from '../session-source.ts'

const NOT_REPEATED = /^(?:content-.*|transfer-encoding|set-cookie|date|etag|x-request-id|x-ratelimit-.*)$/i

export interface PollingForwarding {
  readonly upstreams: Upstreams
  /** `[name, value, …]` to add to a response with the fields `passed`. */
  readonly pollHeaders: (exchange: Exchange, passed: readonly string[]) => readonly string[]
  readonly responseContext: ResponseContextOf
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
}

export const clientFields = (
  head: ResponseHead,
  forwarding: PollingForwarding,
  { route, upstream }: SessionSource
): string[] => {
  const { headers } = clientHead(head, forwarding.responseContext(route, upstream, ''))
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (!NOT_REPEATED.test(name)) kept.push(name, headers[i + 1] ?? '')
  }
  return kept
}
