// What is no HTTP request is counted like one, answered once in our own shape, and its connection closed.
import { randomUUID } from 'node:crypto'
import { ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { BadRequest, type GatewayError, HeadersTooLarge, RateLimited, RequestTimeout } from '../errors.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { RateLimit } from '../settings/settings.ts'
import type { AnswerOptions } from './answer.ts'
import type { ClientAddressOf } from './client-address.ts'

const refusalFor = (error: NodeJS.ErrnoException): GatewayError => {
  if (error.code === 'HPE_HEADER_OVERFLOW') return new HeadersTooLarge({ cause: error })
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return new RequestTimeout({ cause: error })
  return new BadRequest({ cause: error })
}

const responseText = (refusal: GatewayError, corsOrigin: string): string => {
  const requestId = randomUUID()
  const body = refusal.bodyText(requestId)
  const retry = refusal.statusCode === 429 ? 'retry-after: 1\r\n' : ''
  return (
    `HTTP/1.1 ${refusal.statusCode} ${STATUS_CODES[refusal.statusCode] ?? 'Error'}\r\n` +
    `content-type: application/json; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n` +
    `access-control-allow-origin: ${corsOrigin}\r\nvary: Origin\r\ncache-control: no-store\r\n` +
    `x-content-type-options: nosniff\r\nx-request-id: ${requestId}\r\n${retry}connection: close\r\n\r\n${body}`
  )
}

/**
 * The answer to another message that is due or under way on this connection. A request whose own body is what cannot be
 * parsed, and that has not been answered yet, may still be refused.
 */
const answerDue = (socket: Duplex): ServerResponse | undefined => {
  const message = '_httpMessage' in socket ? socket._httpMessage : undefined
  return message instanceof ServerResponse && (message.headersSent || message.req.complete) ? message : undefined
}

export const answerParserError = (
  error: NodeJS.ErrnoException,
  socket: Duplex,
  limiter: Limiter,
  { max, windowMs }: RateLimit,
  clientAddress: ClientAddressOf,
  { corsOrigin }: AnswerOptions
): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const due = answerDue(socket)
  if (due !== undefined) {
    due.once('finish', () => socket.end(() => socket.destroy()))
    return
  }
  const peer = socket instanceof Socket ? socket.remoteAddress : undefined
  const verdict = limiter.take('global', clientAddress(peer, undefined).key, max, windowMs)
  const over = !(verdict instanceof Promise) && !verdict.allowed
  const refusal = over ? new RateLimited({ cause: error }) : refusalFor(error)
  socket.end(responseText(refusal, corsOrigin), () => socket.destroy())
}
