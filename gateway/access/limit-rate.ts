// Counts every request, and refuses those over the limit before anything expensive happens.
import { type GatewayError, RateLimited } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { secondsLeft } from '../http/own-responses.ts'
import type { Limiter, Verdict } from '../limits/limiter.ts'
import type { RateLimit } from '../settings/settings.ts'

type Refused = GatewayError | undefined

const settle = (exchange: Exchange, verdict: Verdict): Refused => {
  // The headers describe the tightest limit.
  if (exchange.limit === undefined || verdict.remaining < exchange.limit.remaining || !verdict.allowed)
    exchange.limit = verdict
  return verdict.allowed ? undefined : overLimit(verdict)
}

export const overLimit = (verdict: Verdict): GatewayError =>
  new RateLimited({ reason: 'rate-limit', headers: { 'retry-after': String(secondsLeft(verdict)) } })

const count = (exchange: Exchange, verdict: Verdict | Promise<Verdict>): Refused | Promise<Refused> =>
  verdict instanceof Promise ? verdict.then(known => settle(exchange, known)) : settle(exchange, verdict)

/** The global limit, per client address. */
export const createLimitRate =
  (limiter: Limiter, { max, windowMs }: RateLimit) =>
  (exchange: Exchange): Refused | Promise<Refused> =>
    count(exchange, limiter.take('global', exchange.client.key, max, windowMs))

/** A route's own limit, in addition to the global one; after authentication, because it may count per person. */
export const createLimitRoute =
  (limiter: Limiter) =>
  (exchange: Exchange): Refused | Promise<Refused> => {
    const { route, identity } = exchange
    const limit = route?.rateLimit
    if (route === undefined || limit === undefined) return undefined
    const user = identity === undefined ? '' : `u${identity.user.id}`
    const key =
      limit.by === 'ip' || user === ''
        ? exchange.client.key
        : limit.by === 'user'
          ? user
          : `${user}@${exchange.client.key}`
    return count(exchange, limiter.take(`route ${route.id}`, key, limit.max, limit.windowMs))
  }
