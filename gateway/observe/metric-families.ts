// Lists the metrics: the name, type and help text of each, where its values are read from, and how those of processes are combined.
import type { ServedCertificate } from '../listener/certificates.ts'
import { GRANTS_STATES } from '../store/regranting.ts'
import { faultCounts } from '../values/contain.ts'
import { timesOutOfDescriptors } from '../values/descriptors.ts'
import { VERSION } from '../values/package-files.ts'
import { OUTCOMES } from './access-log.ts'
import type { Known } from './health.ts'
import { READY_HELP } from './ops-listener.ts'
import { BUCKETS_MS, type RequestCounters, type RouteCounts, STATUS_CLASSES, type Times } from './request-counters.ts'

export interface MetricSources extends Known {
  readonly requests: RequestCounters
  readonly reloads: () => { ok: number; failed: number }
  readonly logLinesDropped: () => number
  readonly insecure: Readonly<Record<string, boolean>>
  readonly isReady: () => boolean
}

interface Value {
  readonly value: number
  readonly labels: Readonly<Record<string, string>>
  /** Of a histogram's parts. */
  readonly metricName?: string
}

type Found = number | Value[]
/** Values of several processes are added up, unless a row says otherwise. */
type Row = readonly [
  help: string,
  read: (sources: MetricSources) => Found | Promise<Found>,
  combined?: 'min' | 'max' | 'average'
]

/** One value for each entry, under its name. */
const by = (label: string, values: Iterable<readonly [name: string, value: number | boolean]>): Value[] =>
  Array.from(values, ([name, value]) => ({ value: Number(value), labels: { [label]: name } }))

/** 1 for the current word, 0 for all others; nothing if there is none. */
const stateOf = (words: readonly string[], current: string | undefined, label = 'state'): Value[] =>
  current === undefined
    ? []
    : by(
        label,
        words.map(word => [word, word === current])
      )

const counted = (counts: readonly { readonly count: number }[]): Value[] =>
  counts.map(({ count, ...labels }) => ({ value: count, labels }))

const keyName = (index: number): string => (index === 0 ? 'current' : `previous-${index}`)

const certificatesOf = (sources: MetricSources, read: (certificate: ServedCertificate) => number): Value[] =>
  by(
    'file',
    sources.certificates().map(certificate => [certificate.file, read(certificate)])
  )

const targetsOf = (sources: MetricSources) =>
  sources
    .upstreams()
    .flatMap(({ name, targets }) =>
      targets.map(target => ({ ...target, labels: { upstream: name, target: target.url } }))
    )

const TARGET_STATES = { up: 1, returning: 0.5, down: 0 } as const

const countsOf = ({ id, requests }: RouteCounts): Value[] =>
  OUTCOMES.flatMap((decision, o) =>
    STATUS_CLASSES.flatMap((status, s) => {
      const value = requests[o * STATUS_CLASSES.length + s] ?? 0
      return value === 0 ? [] : [{ value, labels: { route: id, decision, status } }]
    })
  )

const histogramOf = (of: 'gateway' | 'upstream', route: string, { buckets, sumMs }: Times): Value[] => {
  const name = `portaria_${of}_duration_seconds`
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

const ROWS: Readonly<Record<string, Row>> = {
  requests_total: [
    'Finished requests, by route, decision (allow, refuse, fail) and status class',
    ({ requests }) => requests.routes().flatMap(countsOf)
  ],
  requests_by_protocol_total: [
    'Finished requests, by the protocol of their clients: http/1.1 (and 1.0) or h2',
    ({ requests }) => by('protocol', Object.entries(requests.protocols()))
  ],
  refusals_total: ['Requests refused or failed, by code and reason', ({ requests }) => counted(requests.refusals())],
  gateway_duration_seconds: [
    'Time until the response head was sent, without the time until the upstream sent its own, if it did',
    ({ requests }) => requests.routes().flatMap(({ id, gateway }) => histogramOf('gateway', id, gateway))
  ],
  upstream_duration_seconds: [
    'Time from sending the request to the upstream until its response head arrived',
    ({ requests }) => requests.routes().flatMap(({ id, upstream }) => histogramOf('upstream', id, upstream))
  ],
  build_info: [
    'Always 1; the labels hold the versions of the gateway and of Node.js',
    () => [{ value: 1, labels: { version: VERSION, node: process.versions.node } }],
    'max'
  ],
  ready: [READY_HELP, ({ isReady }) => Number(isReady())],
  open_streams: [
    'Open WebSockets, Socket.IO connections and event streams',
    ({ streams }) => by('kind', Object.entries(streams()))
  ],
  socketio_events_refused_total: [
    'Socket.IO events refused by the `events` of a namespace',
    ({ refusedEvents }) => counted(refusedEvents())
  ],
  limiter_mode: [
    'Where requests are counted: 1 for the current mode',
    ({ limiter }) => stateOf(['memory', 'redis', 'degraded'], limiter().mode, 'mode'),
    'max'
  ],
  limiter_redis_commands_total: ['Commands sent to Redis', ({ limiter }) => limiter().commands],
  limiter_windows: ['Windows held in memory', ({ limiter }) => limiter().entries],
  limiter_windows_forgotten_total: [
    'Windows dropped before their end because there were too many: their counts began anew',
    ({ limiter }) => limiter().forgotten
  ],
  limiter_leases: ['Keys with permits leased from Redis', ({ limiter }) => limiter().leases],
  logins_total: ['Logins by provider, result and reason', ({ requests }) => counted(requests.logins())],
  reloads_total: [
    'Reloads of the route files, by result',
    ({ reloads }) => by('result', Object.entries(reloads())),
    'max'
  ],
  routes_ok: ['Whether the files on disk are the ones in use', ({ routes }) => Number(routes().ok), 'min'],
  routes_loaded_timestamp_seconds: [
    'When the route table in use was loaded',
    ({ routes }) => routes().loadedAt.getTime() / 1000,
    'min'
  ],
  routes: [
    "Routes in use, including the gateway's own; labelled with the checksum of the route files",
    ({ routes }) => by('checksum', [[routes().checksum, routes().count]]),
    'max'
  ],
  token_cache_hits_total: ['Tokens found in the cache', ({ tokenCache }) => tokenCache().hits],
  token_cache_misses_total: ['Tokens that had to be verified', ({ tokenCache }) => tokenCache().misses],
  token_cache_entries: ['Tokens in the cache', ({ tokenCache }) => tokenCache().size],
  tokens_verified_total: [
    'Tokens verified, by the secret that signed them',
    ({ tokensByKey }) => tokensByKey().map((value, index) => ({ value, labels: { key: keyName(index) } }))
  ],
  revocations: ['Known ended tokens and changed people', ({ revocations }) => revocations().known, 'max'],
  revocations_staleness_seconds: [
    'Time since the known revocations were last complete',
    ({ revocations }) => revocations().stalenessMs / 1000,
    'max'
  ],
  grants_state: [
    'State of what the route files grant to groups: 1 for the current state',
    ({ grants }) => stateOf(GRANTS_STATES, grants.state()),
    'max'
  ],
  grants_people_total: [
    'People whose access was worked out again because grants had changed',
    ({ grants }) => grants.people()
  ],
  upstream_target_up: [
    'State of a target: 1 up, 0.5 returning to service, 0 down',
    sources => targetsOf(sources).map(({ labels, state }) => ({ value: TARGET_STATES[state], labels })),
    'min'
  ],
  upstream_connections: [
    'Connections to a target, busy or idle',
    sources =>
      targetsOf(sources).flatMap(({ labels, busy, connections }) => [
        { value: busy, labels: { ...labels, state: 'busy' } },
        { value: connections - busy, labels: { ...labels, state: 'idle' } }
      ])
  ],
  upstream_faults_total: [
    'Requests that failed at a target, by fault',
    sources =>
      targetsOf(sources).flatMap(({ labels, faults }) =>
        Object.entries(faults).map(([fault, value]) => ({ value, labels: { ...labels, fault } }))
      )
  ],
  directory_state: [
    'State of the directory at its last check: 1 for the current state',
    ({ directory }) => stateOf(['ok', 'away', 'refused', 'unknown', 'groups-unreadable'], directory()),
    'max'
  ],
  database_up: [
    'Whether the database responds and can be written',
    async ({ databaseOk }) => Number(await databaseOk()),
    'min'
  ],
  clock_ahead_seconds: [
    "How far the clock of the database, and of Redis, is ahead of this machine's; 0 within the accuracy of the measurement",
    ({ clock }) => by('of', clock()?.aheadS ?? []),
    'average'
  ],
  audit_chain_ok: [
    'Whether the last check found the audit log intact; absent before the first check',
    ({ audit }) => (audit().state === 'unknown' ? [] : Number(audit().state === 'ok')),
    'min'
  ],
  audit_checked_timestamp_seconds: [
    'When the audit log was last checked; absent before the first check',
    ({ audit }) => {
      const { checkedAt } = audit()
      return checkedAt === undefined ? [] : checkedAt.getTime() / 1000
    },
    'min'
  ],
  tls_certificate_ok: [
    'Whether the listener uses the certificate on disk, by its file; absent without TLS',
    sources => certificatesOf(sources, ({ current }) => Number(current)),
    'min'
  ],
  tls_certificate_expires_timestamp_seconds: [
    'When the certificate in use, or the first one in its chain, expires; by its file',
    sources => certificatesOf(sources, ({ pair }) => pair.expiresAt / 1000),
    'min'
  ],
  proxy_header_violations_total: [
    'Connections of peers in TRUST_PROXY that were closed because of a missing or invalid PROXY header',
    ({ proxyViolations }) => proxyViolations()
  ],
  provider_state: [
    'State of the cloud provider at its last check: 1 for the current state',
    ({ provider }) => stateOf(['ok', 'away', 'unknown'], provider()),
    'max'
  ],
  faults_total: [
    'Faults of the gateway itself, by what each of them ended: report them',
    () => by('place', Object.entries(faultCounts()))
  ],
  descriptors_exhausted_total: [
    'Times that the process had no file descriptor left for a connection or a file',
    () => timesOutOfDescriptors()
  ],
  log_lines_dropped_total: ['Log lines lost', ({ logLinesDropped }) => logLinesDropped()],
  insecure: [
    '1 for each setting that switches a protection off',
    ({ insecure }) => by('setting', Object.entries(insecure)),
    'max'
  ]
}

const typeOf = (name: string): 'counter' | 'gauge' | 'histogram' => {
  if (name.endsWith('_total')) return 'counter'
  return name.endsWith('_duration_seconds') ? 'histogram' : 'gauge'
}

/** While there are no sources, the instance is not ready, and nothing else is known. */
export const families = (sources: () => MetricSources | undefined) =>
  Object.entries(ROWS).map(([name, [help, read, aggregator = 'sum']]) => ({
    ...{ name: `portaria_${name}`, help, type: typeOf(name), aggregator },
    async read(): Promise<Value[]> {
      const known = sources()
      const found = known !== undefined ? await read(known) : name === 'ready' ? 0 : []
      return typeof found === 'number' ? [{ value: found, labels: {} }] : found
    }
  }))
