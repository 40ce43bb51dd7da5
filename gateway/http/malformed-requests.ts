// Counts malformed requests like any other, and responds once before the connection ends.
import { BadRequest, type GatewayError, HeadersTooLarge, RateLimited, RequestTimeout } from '../errors.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { RateLimit } from '../settings/settings.ts'
import type { ClientAddressOf } from './client-address.ts'
import { answerUnread, type ResponseOptions } from './own-responses.ts'
import type { ClientConnection } from './request.ts'
import type { HttpResponse } from './response.ts'
import type { MessageFault } from './served-connection.ts'

const refusalFor = (fault: MessageFault): GatewayError => {
  if (fault === 'too-large') return new HeadersTooLarge({ reason: fault })
  if (fault === 'too-slow') return new RequestTimeout({ reason: fault })
  return new BadRequest({ reason: fault })
}

export const answerFault = (
  { peer, isTls }: ClientConnection,
  fault: MessageFault,
  response: HttpResponse,
  limiter: Limiter,
  { max, windowMs }: RateLimit,
  clientAddress: ClientAddressOf,
  answers: ResponseOptions
): void => {
  const verdict = limiter.take('global', clientAddress(peer, undefined).key, max, windowMs)
  const over = !(verdict instanceof Promise) && !verdict.allowed
  const refusal = over ? new RateLimited({ headers: { 'retry-after': '1' } }) : refusalFor(fault)
  answerUnread(response, refusal, isTls, answers)
}
