// Reads a request body completely, within limits of size and time.
import { BadRequest, BodyTooLarge, type GatewayError, RequestTimeout } from '../errors.ts'
import type { Exchange, Underway } from './exchange.ts'
import type { BodyConsumer } from './request.ts'

interface BodyLimits {
  readonly maxBytes: number
  readonly timeoutMs: number
}

/** Rejects with 413, 408, or 400 if the client has gone. */
export const readBody = (exchange: Exchange, { maxBytes, timeoutMs }: BodyLimits): Promise<Buffer> => {
  // A length that is too large is refused before the body is requested.
  if (Number(exchange.head.contentLength ?? 0) > maxBytes)
    return Promise.reject(new BodyTooLarge({ reason: 'body-too-large' }))
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let size = 0
    let isOver = false
    const settle = (): boolean => {
      if (isOver) return false
      isOver = true
      clearTimeout(timer)
      if (exchange.underway === body) exchange.underway = undefined
      return true
    }
    const fail = (error: GatewayError) => {
      if (settle()) reject(error)
    }
    const body: BodyConsumer & Underway = {
      onUpload(chunk) {
        if (isOver) return
        size += chunk.length
        if (size <= maxBytes) parts.push(Buffer.from(chunk))
        else fail(new BodyTooLarge({ reason: 'body-too-large' }))
      },
      onUploadEnd() {
        if (settle()) resolve(Buffer.concat(parts))
      },
      abort: () => fail(new BadRequest({ reason: 'client-gone' }))
    }
    const timer = setTimeout(() => fail(new RequestTimeout({ reason: 'body-too-slow' })), timeoutMs)
    exchange.underway = body
    if (exchange.awaitsContinue) exchange.response.interim(100, 'Continue', '')
    exchange.request.read(body)
  })
}
