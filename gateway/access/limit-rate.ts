// After this step the request has been counted, whatever it is; one too many is refused before anything costly happens.

import { type GatewayError, RateLimited } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { secondsLeft } from '../http/limit-headers.ts'
import type { Limiter, Verdict } from '../limits/limiter.ts'
import type { RateLimit } from '../settings/settings.ts'
import { boundedMap } from '../values/bounded-map.ts'

type Refused = GatewayError | undefined

const judge = (exchange: Exchange, verdict: Verdict): Refused => {
  // The tightest limit is the one that the headers speak of.
  if (exchange.limit === undefined || verdict.remaining < exchange.limit.remaining || !verdict.allowed)
    exchange.limit = verdict
  if (verdict.allowed) return undefined
  return tooMany(secondsLeft(verdict))
}

const MOST_REMEMBERED = 1024
const refusals = boundedMap<number, GatewayError>(MOST_REMEMBERED)

// Refusals differ in the seconds they speak of and in nothing else: one is made for each, since a flood asks for many.
const tooMany = (resetS: number): GatewayError => {
  const known = refusals.get(resetS)
  if (known !== undefined) return known
  const refusal = new RateLimited({ reason: 'rate-limit', headers: { 'retry-after': String(resetS) } })
  refusals.set(resetS, refusal)
  return refusal
}

const settle = (exchange: Exchange, verdict: Verdict | Promise<Verdict>): Refused | Promise<Refused> =>
  verdict instanceof Promise ? verdict.then(known => judge(exchange, known)) : judge(exchange, verdict)

/** The global limit, per client address. */
export const createLimitRate =
  (limiter: Limiter, { max, windowMs }: RateLimit) =>
  (exchange: Exchange): Refused | Promise<Refused> =>
    settle(exchange, limiter.take('global', exchange.client.key, max, windowMs))

/** A route's own limit, beside the global one; after authentication, since it may count by person. */
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
    return settle(exchange, limiter.take(`route ${route.id}`, key, limit.max, limit.windowMs))
  }
