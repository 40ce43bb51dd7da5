// What is HTTP about a poll: the body of a request is read whole, and which fields of an answer reach the client.
import { BadRequest, BodyTooLarge, type GatewayError, RequestTimeout } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { OwnCookies } from '../http/fields.ts'
import type { ResponseHead } from '../upstream/parser.ts'
import { clientHead } from '../upstream/response-head.ts'
import type { Upstreams } from '../upstream/upstreams.ts'
import type { SessionOrigin } from './session.ts'

const BODY_MS = 30_000
const NOT_REPEATED = /^(?:content-.*|transfer-encoding|set-cookie|date|etag|x-request-id|x-ratelimit-.*)$/i

export interface PollingForwarding {
  readonly upstreams: Upstreams
  readonly addedHeaders: (exchange: Exchange) => readonly string[]
  readonly ownCookies: OwnCookies
  readonly refuse: (exchange: Exchange, error: GatewayError) => void
}

export const clientFields = (
  head: ResponseHead,
  forwarding: PollingForwarding,
  { route, upstream }: SessionOrigin
): string[] => {
  const context = {
    ownCookies: forwarding.ownCookies,
    upstream,
    strippedPrefix: route.stripPrefix ?? '',
    host: ''
  }
  const { headers } = clientHead(head, context)
  const kept: string[] = []
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] ?? ''
    if (!NOT_REPEATED.test(name)) kept.push(name, headers[i + 1] ?? '')
  }
  return kept
}

/** Reads a body of at most `limit` bytes; rejects with 408 or 413. */
export const readBody = (exchange: Exchange, limit: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const { req, res } = exchange
    if (Number(exchange.head.contentLength ?? 0) > limit) return reject(new BodyTooLarge({ reason: 'body-too-large' }))
    if (req.readableEnded) return resolve(Buffer.alloc(0))
    if (exchange.awaitsContinue) res.writeContinue()
    const parts: Buffer[] = []
    let size = 0
    const timer = setTimeout(() => settle(() => reject(new RequestTimeout({ reason: 'upload-too-slow' }))), BODY_MS)
    const settle = (then: () => void) => {
      clearTimeout(timer)
      req.off('data', onData)
      then()
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) parts.push(chunk)
      else settle(() => reject(new BodyTooLarge({ reason: 'body-too-large' })))
    }
    req.on('data', onData)
    req.on('end', () => settle(() => resolve(Buffer.concat(parts))))
    req.on('close', () => settle(() => reject(new BadRequest({ reason: 'client-gone' }))))
  })
