// Counts finished requests and logins in plain numbers, by a few bounded labels.

import type { GatewayError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import type { LoginOutcome } from '../login/sign-in.ts'
import type { Route, RouteTable } from '../routes/route.ts'
import { OUTCOMES, type Outcome, outcomeOf } from './access-log.ts'

/** Upper bounds in milliseconds; one more bucket follows for everything slower. */
export const BUCKETS_MS = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000] as const

/** First digit of the status; `none`: the client left before the response began. */
export const STATUS_CLASSES = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

export interface Times {
  /** Not cumulative: one entry per bucket of BUCKETS_MS, and one for the rest. */
  readonly buckets: Float64Array
  sumMs: number
}

export interface RouteCounts {
  /** The route's id, or `other`. */
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

/** Counts by two words; words beyond the limit share one entry. */
const createPairCounts = () => {
  const counts = new Map<string, Map<string, number>>()
  let size = 0
  const add = (one: string, two: string) => {
    let inner = counts.get(one)
    if (inner === undefined) {
      inner = new Map()
      counts.set(one, inner)
    }
    const known = inner.get(two)
    if (known === undefined) size++
    const word = known === undefined && size > MAX_REASONS ? 'other' : two
    inner.set(word, (inner.get(word) ?? 0) + 1)
  }
  const list = () => [...counts].flatMap(([one, inner]) => [...inner].map(([two, count]) => ({ one, two, count })))
  return { add, list }
}

export const createRequestCounters = () => {
  const other = createRouteCounts('other')
  const byId = new Map<string, RouteCounts>()
  /** 0: not known yet; 1: beyond the number of routes that are counted. */
  const noSlots = (): (RouteCounts | undefined)[] => [undefined, other]
  // The position in `bySlot` of the counts of each route of the table: thousands of routes fit into few cache lines.
  let slots = new Uint16Array(0)
  let firstNumber = 0
  let bySlot = noSlots()
  const protocols = { 'http/1.1': 0, h2: 0 }
  const refusals = createPairCounts()
  const logins = createPairCounts()

  const enterCounts = (route: Route, index: number): RouteCounts => {
    const counts = byId.get(route.id) ?? (byId.size < MAX_ROUTES ? createRouteCounts(route.id) : other)
    if (counts !== other) byId.set(route.id, counts)
    if (index >= 0 && index < slots.length) {
      const known = bySlot.indexOf(counts)
      slots[index] = known === -1 ? bySlot.push(counts) - 1 : known
    }
    return counts
  }
  const countsOf = (route: Route | undefined): RouteCounts => {
    if (route === undefined) return other
    const index = route.number - firstNumber
    // A request in progress may have a route of the previous table.
    return (index < 0 ? undefined : bySlot[slots[index] ?? 0]) ?? enterCounts(route, index)
  }

  return {
    /** Takes well under a microsecond. @param now monotonic ms */
    record(exchange: Exchange, now: number): void {
      const { route, response, error, upstreamMs } = exchange
      const counts = countsOf(route)
      const statusClass = exchange.upgraded ? 1 : response.hasBegun ? Math.trunc(response.status / 100) : 0
      const index = OUTCOME_INDEX[outcomeOf(exchange)] * STATUS_CLASSES.length + statusClass
      counts.requests[index] = (counts.requests[index] ?? 0) + 1
      addTime(counts.gateway, Math.max(0, answeredAfterMs(exchange, now) - Math.max(0, upstreamMs)))
      if (upstreamMs >= 0) addTime(counts.upstream, upstreamMs)
      protocols[exchange.request.connection.isHttp2 ? 'h2' : 'http/1.1']++
      if (error !== undefined) refusals.add(error.code, error.reason ?? '')
    },
    /** A refusal within an exchange, which counts as allowed itself. */
    recordRefusal: ({ code, reason = '' }: Pick<GatewayError, 'code' | 'reason'>): void => refusals.add(code, reason),
    recordLogin: ({ provider, ok, reason }: Pick<LoginOutcome, 'provider' | 'ok' | 'reason'>): void =>
      logins.add(`${provider} ${ok ? 'ok' : 'refused'}`, reason),
    /** A new table is in use: drops the routes that it no longer contains. */
    retain(table: RouteTable): void {
      const ids = new Set(table.routes.map(route => route.id))
      for (const id of byId.keys()) if (!ids.has(id)) byId.delete(id)
      slots = new Uint16Array(table.routes.length)
      firstNumber = table.routes[0]?.number ?? 0
      bySlot = noSlots()
    },
    routes: (): RouteCounts[] => [...byId.values(), other],
    protocols: (): Readonly<Record<string, number>> => protocols,
    refusals: () => refusals.list().map(({ one, two, count }) => ({ code: one, reason: two, count })),
    logins: () =>
      logins.list().map(({ one, two, count }) => {
        const [provider = '', result] = one.split(' ')
        return { provider, result: result === 'ok' ? 'ok' : 'refused', reason: two, count }
      })
  }
}
