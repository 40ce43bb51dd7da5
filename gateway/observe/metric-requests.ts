// Shows counted requests and their times as Prometheus counters and cumulative histograms, by route.
import { OUTCOMES } from './access-log.ts'
import { BUCKETS_MS, type RequestCounters, type RouteCounts, STATUS_CLASSES, type Times } from './request-counters.ts'

export interface Value {
  readonly value: number
  readonly labels: Readonly<Record<string, string>>
  /** Of a histogram's parts. */
  readonly metricName?: string
}

export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly read: () => Value[] | Promise<Value[]>
}

const countsOf = ({ id, requests }: RouteCounts): Value[] =>
  OUTCOMES.flatMap((decision, o) =>
    STATUS_CLASSES.flatMap((status, s) => {
      const value = requests[o * STATUS_CLASSES.length + s] ?? 0
      return value === 0 ? [] : [{ value, labels: { route: id, decision, status } }]
    })
  )

const histogramOf = (name: string, route: string, { buckets, sumMs }: Times): Value[] => {
  const values: Value[] = []
  let count = 0
  buckets.forEach((inBucket, i) => {
    count += inBucket
    const bound = BUCKETS_MS[i]
    const le = bound === undefined ? '+Inf' : String(bound / 1000)
    values.push({ value: count, labels: { le, route }, metricName: `${name}_bucket` })
  })
  if (count === 0) return []
  values.push({ value: sumMs / 1000, labels: { route }, metricName: `${name}_sum` })
  values.push({ value: count, labels: { route }, metricName: `${name}_count` })
  return values
}

const histogram = (
  name: string,
  help: string,
  routes: () => RouteCounts[],
  times: (counts: RouteCounts) => Times
): Family => ({
  name,
  help,
  type: 'histogram',
  read: () => routes().flatMap(counts => histogramOf(name, counts.id, times(counts)))
})

export const requestFamilies = (counters: () => RequestCounters | undefined): Family[] => {
  const routes = () => counters()?.routes() ?? []
  return [
    {
      name: 'portaria_requests_total',
      help: 'Finished requests, by route, decision (allow, refuse, fail) and status class',
      type: 'counter',
      read: () => routes().flatMap(countsOf)
    },
    {
      name: 'portaria_requests_by_protocol_total',
      help: 'Finished requests, by the protocol of their clients: http/1.1 (and 1.0) or h2',
      type: 'counter',
      read: () =>
        Object.entries(counters()?.protocols() ?? {}).map(([protocol, value]) => ({ value, labels: { protocol } }))
    },
    {
      name: 'portaria_refusals_total',
      help: 'Requests refused or failed, by code and reason',
      type: 'counter',
      read: () =>
        (counters()?.refusals() ?? []).map(({ code, reason, count }) => ({ value: count, labels: { code, reason } }))
    },
    histogram(
      'portaria_gateway_duration_seconds',
      'Time until the response head was sent, without the time spent waiting for the upstream',
      routes,
      ({ gateway }) => gateway
    ),
    histogram(
      'portaria_upstream_duration_seconds',
      'Time from sending the request to the upstream until its response head arrived',
      routes,
      ({ upstream }) => upstream
    )
  ]
}
