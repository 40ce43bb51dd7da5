// Counts finished requests and logins in plain numbers, by a few bounded labels.
import type { GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { LoginOutcome } from '../login/sign-in.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { OUTCOMES, type Outcome, outcomeOf } from './access-log.ts'

/** Upper bounds in milliseconds; one more bucket follows for everything slower. */
export const BUCKETS_MS = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000] as const

/** First digit of the status, 5 for any above (RFC 9110 §15); `none`: the client left before the response began. */
export const STATUS_CLASSES = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

export interface Times {
  /** Not cumulative: one entry per bucket of BUCKETS_MS, and one for the rest. */
  readonly buckets: Float64Array
  sumMs: number
}

export interface RouteCounts {
  readonly id: string
  /** By outcome × status class: index `outcome * STATUS_CLASSES.length + class`. */
  readonly requests: Float64Array
  /** Until the response head, without the upstream's share. */
  readonly gateway: Times
  /** From the first byte sent to the upstream to its response head. */
  readonly upstream: Times
}

export type RequestCounters = ReturnType<typeof createRequestCounters>

/** Routes beyond this number share the counts of `other`. */
const MAX_ROUTES = 500
const MAX_REASONS = 500
const OTHER = 'other'

const createTimes = (): Times => ({ buckets: new Float64Array(BUCKETS_MS.length + 1), sumMs: 0 })

const createRouteCounts = (id: string): RouteCounts => ({
  id,
  requests: new Float64Array(OUTCOMES.length * STATUS_CLASSES.length),
  gateway: createTimes(),
  upstream: createTimes()
})

const addTime = (times: Times, ms: number): void => {
  let i = 0
  while (i < BUCKETS_MS.length && ms > (BUCKETS_MS[i] ?? 0)) i++
  times.buckets[i] = (times.buckets[i] ?? 0) + 1
  times.sumMs += ms
}

/** Milliseconds until the response head was ready for the client. */
export const answeredAfterMs = (exchange: Exchange, now: number): number =>
  exchange.headMs < 0 ? now - exchange.startedAt : exchange.headMs

const OUTCOME_INDEX: Record<Outcome, number> = { allow: 0, refuse: 1, fail: 2 }

/** Counts by labels; reasons beyond the limit share one entry. */
const createReasonCounts = <Labels extends { readonly reason: string }>() => {
  const counts = new Map<string, Labels & { count: number }>()
  const add = (labels: Labels): void => {
    const key = Object.values(labels).join(' ')
    const known = counts.get(key)
    if (known !== undefined) known.count++
    else if (counts.size < MAX_REASONS || labels.reason === OTHER) counts.set(key, { ...labels, count: 1 })
    else add({ ...labels, reason: OTHER })
  }
  return { add, list: () => [...counts.values()] }
}

export const createRequestCounters = () => {
  const other = createRouteCounts(OTHER)
  const byId = new Map<string, RouteCounts>()
  const protocols = { 'http/1.1': 0, h2: 0 }
  const refusals = createReasonCounts<{ code: string; reason: string }>()
  const logins = createReasonCounts<{ provider: string; result: 'ok' | 'refused'; reason: string }>()

  const countsOf = (route: Route | undefined): RouteCounts => {
    const known = route === undefined ? other : byId.get(route.id)
    if (known !== undefined) return known
    if (route === undefined || byId.size >= MAX_ROUTES) return other
    const counts = createRouteCounts(route.id)
    byId.set(route.id, counts)
    return counts
  }

  return {
    /** Takes well under a microsecond. @param now monotonic ms */
    record(exchange: Exchange, now: number): void {
      const { route, response, error, upstreamMs } = exchange
      const counts = countsOf(route)
      const statusClass = exchange.upgraded ? 1 : response.hasBegun ? Math.min(Math.trunc(response.status / 100), 5) : 0
      const index = OUTCOME_INDEX[outcomeOf(exchange)] * STATUS_CLASSES.length + statusClass
      counts.requests[index] = (counts.requests[index] ?? 0) + 1
      addTime(counts.gateway, Math.max(0, answeredAfterMs(exchange, now) - Math.max(0, upstreamMs)))
      if (upstreamMs >= 0) addTime(counts.upstream, upstreamMs)
      protocols[exchange.request.connection.isHttp2 ? 'h2' : 'http/1.1']++
      if (error !== undefined) refusals.add({ code: error.code, reason: error.reason ?? '' })
    },
    /** A refusal within an exchange, which counts as allowed itself. */
    recordRefusal: ({ code, reason = '' }: Pick<GatewayError, 'code' | 'reason'>): void =>
      refusals.add({ code, reason }),
    recordLogin: ({ provider, ok, reason }: Pick<LoginOutcome, 'provider' | 'ok' | 'reason'>): void =>
      logins.add({ provider, result: ok ? 'ok' : 'refused', reason }),
    /** A new table is in use: drops the routes that it no longer contains. */
    retain(table: RouteTable): void {
      const ids = new Set(table.routes.map(route => route.id))
      for (const id of byId.keys()) if (!ids.has(id)) byId.delete(id)
    },
    routes: (): RouteCounts[] => [...byId.values(), other],
    protocols: (): Readonly<Record<string, number>> => protocols,
    refusals: refusals.list,
    logins: logins.list
  }
}
