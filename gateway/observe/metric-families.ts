// Lists the metrics: the name, type and help text of each, where its values are read from, and how those of processes are combined.
import type { ServedCertificate } from '../listener/certificates.ts'
import { GRANTS_STATES } from '../store/regranting.ts'
import { faultCounts } from '../values/contain.ts'
import { timesOutOfDescriptors } from '../values/descriptors.ts'
import { VERSION } from '../values/version.ts'
import { OUTCOMES } from './access-log.ts'
import type { Known } from './health.ts'
import { BUCKETS_MS, type RequestCounters, type RouteCounts, STATUS_CLASSES, type Times } from './request-counters.ts'

export interface MetricSources extends Known {
  readonly requests: RequestCounters
  readonly reloads: () => { ok: number; failed: number }
  readonly logLinesDropped: () => number
  /** Settings that weaken a protection, and whether they do. */
  readonly insecure: Readonly<Record<string, boolean>>
  readonly isReady: () => boolean
}

interface Value {
  readonly value: number
  readonly labels: Readonly<Record<string, string>>
  /** Of a histogram's parts. */
  readonly metricName?: string
}

type Read = (sources: MetricSources) => Value[] | Promise<Value[]>
/** Values of several processes are added up, unless a row says otherwise. */
type Row = readonly [
  type: 'counter' | 'gauge' | 'histogram',
  help: string,
  read: Read,
  combined?: 'min' | 'max' | 'average'
]

const one = (value: number, labels: Record<string, string> = {}): Value[] => [{ value, labels }]

/** 1 for the current word, 0 for all others; nothing if there is none. */
const stateOf = (words: readonly string[], current: string | undefined, label = 'state'): Value[] =>
  current === undefined ? [] : words.map(word => ({ value: Number(word === current), labels: { [label]: word } }))

const keyName = (index: number): string => (index === 0 ? 'current' : `previous-${index}`)

const certificatesOf = (sources: MetricSources, read: (certificate: ServedCertificate) => number): Value[] =>
  sources.certificates().map(certificate => ({ value: read(certificate), labels: { file: certificate.file } }))

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
    'counter',
    'Finished requests, by route, decision (allow, refuse, fail) and status class',
    sources => sources.requests.routes().flatMap(countsOf)
  ],
  requests_by_protocol_total: [
    'counter',
    'Finished requests, by the protocol of their clients: http/1.1 (and 1.0) or h2',
    sources =>
      Object.entries(sources.requests.protocols()).map(([protocol, value]) => ({ value, labels: { protocol } }))
  ],
  refusals_total: [
    'counter',
    'Requests refused or failed, by code and reason',
    sources => sources.requests.refusals().map(({ count, ...labels }) => ({ value: count, labels }))
  ],
  gateway_duration_seconds: [
    'histogram',
    'Time until the response head was sent, without the time spent waiting for the upstream',
    sources => sources.requests.routes().flatMap(({ id, gateway }) => histogramOf('gateway', id, gateway))
  ],
  upstream_duration_seconds: [
    'histogram',
    'Time from sending the request to the upstream until its response head arrived',
    sources => sources.requests.routes().flatMap(({ id, upstream }) => histogramOf('upstream', id, upstream))
  ],
  build_info: [
    'gauge',
    'Always 1; the labels hold the versions of the gateway and of Node.js',
    () => one(1, { version: VERSION, node: process.versions.node }),
    'max'
  ],
  ready: ['gauge', 'Whether the instance is ready', sources => one(Number(sources.isReady())), 'min'],
  open_streams: [
    'gauge',
    'Open WebSockets, Socket.IO connections and event streams',
    sources => Object.entries(sources.streams()).map(([kind, value]) => ({ value, labels: { kind } }))
  ],
  socketio_events_refused_total: [
    'counter',
    'Socket.IO events refused by the `events` of a namespace',
    sources => sources.refusedEvents().map(({ count, ...labels }) => ({ value: count, labels }))
  ],
  limiter_mode: [
    'gauge',
    'Where requests are counted: 1 for the current mode',
    sources => stateOf(['memory', 'redis', 'degraded'], sources.limiter().mode, 'mode'),
    'max'
  ],
  limiter_redis_commands_total: ['counter', 'Commands sent to Redis', sources => one(sources.limiter().commands)],
  limiter_windows: ['gauge', 'Windows held in memory', sources => one(sources.limiter().entries)],
  limiter_windows_forgotten_total: [
    'counter',
    'Windows dropped before their end because there were too many: their counts began anew',
    sources => one(sources.limiter().forgotten)
  ],
  limiter_leases: ['gauge', 'Keys with permits leased from Redis', sources => one(sources.limiter().leases)],
  logins_total: [
    'counter',
    'Logins by provider, result and reason',
    sources => sources.requests.logins().map(({ count, ...labels }) => ({ value: count, labels }))
  ],
  reloads_total: [
    'counter',
    'Reloads of the route files, by result',
    sources => Object.entries(sources.reloads()).map(([result, value]) => ({ value, labels: { result } })),
    'max'
  ],
  routes_ok: [
    'gauge',
    'Whether the files on disk are the ones in use',
    sources => one(Number(sources.routes().ok)),
    'min'
  ],
  routes_loaded_timestamp_seconds: [
    'gauge',
    'When the route table in use was loaded',
    sources => one(sources.routes().loadedAt.getTime() / 1000),
    'min'
  ],
  routes: [
    'gauge',
    "Routes in use, including the gateway's own; labelled with the checksum of the route files",
    sources => one(sources.routes().count, { checksum: sources.routes().checksum }),
    'max'
  ],
  token_cache_hits_total: ['counter', 'Tokens found in the cache', sources => one(sources.tokenCache().hits)],
  token_cache_misses_total: ['counter', 'Tokens that had to be verified', sources => one(sources.tokenCache().misses)],
  token_cache_entries: ['gauge', 'Tokens in the cache', sources => one(sources.tokenCache().size)],
  tokens_verified_total: [
    'counter',
    'Tokens verified, by the secret that signed them',
    sources => sources.tokensByKey().map((value, index) => ({ value, labels: { key: keyName(index) } }))
  ],
  revocations: ['gauge', 'Known ended tokens and changed people', sources => one(sources.revocations().known), 'max'],
  revocations_staleness_seconds: [
    'gauge',
    'Time since the known revocations were last complete',
    sources => one(sources.revocations().stalenessMs / 1000),
    'max'
  ],
  grants_state: [
    'gauge',
    'State of what the route files grant to groups: 1 for the current state',
    sources => stateOf(GRANTS_STATES, sources.grants.state()),
    'max'
  ],
  grants_people_total: [
    'counter',
    'People whose access was worked out again because grants had changed',
    sources => one(sources.grants.people())
  ],
  upstream_target_up: [
    'gauge',
    'State of a target: 1 up, 0.5 returning to service, 0 down',
    sources => targetsOf(sources).map(({ labels, state }) => ({ value: TARGET_STATES[state], labels })),
    'min'
  ],
  upstream_connections: [
    'gauge',
    'Connections to a target, busy or idle',
    sources =>
      targetsOf(sources).flatMap(({ labels, busy, connections }) => [
        { value: busy, labels: { ...labels, state: 'busy' } },
        { value: connections - busy, labels: { ...labels, state: 'idle' } }
      ])
  ],
  upstream_faults_total: [
    'counter',
    'Requests that failed at a target, by fault',
    sources =>
      targetsOf(sources).flatMap(({ labels, faults }) =>
        Object.entries(faults).map(([fault, value]) => ({ value, labels: { ...labels, fault } }))
      )
  ],
  directory_state: [
    'gauge',
    'State of the directory at its last check: 1 for the current state',
    sources => stateOf(['ok', 'away', 'refused', 'unknown', 'groups-unreadable'], sources.directory()),
    'max'
  ],
  database_up: [
    'gauge',
    'Whether the database responds and can be written',
    async sources => one(Number(await sources.databaseOk())),
    'min'
  ],
  clock_ahead_seconds: [
    'gauge',
    "How far the clock of the database, and of Redis, is ahead of this machine's; 0 within the accuracy of the measurement",
    sources => [...(sources.clock()?.aheadS ?? [])].map(([of, value]) => ({ value, labels: { of } })),
    'average'
  ],
  audit_chain_ok: [
    'gauge',
    'Whether the last check found the audit log intact; absent before the first check',
    sources => (sources.audit().state === 'unknown' ? [] : one(Number(sources.audit().state === 'ok'))),
    'min'
  ],
  audit_checked_timestamp_seconds: [
    'gauge',
    'When the audit log was last checked; absent before the first check',
    sources => {
      const { checkedAt } = sources.audit()
      return checkedAt === undefined ? [] : one(checkedAt.getTime() / 1000)
    },
    'min'
  ],
  tls_certificate_ok: [
    'gauge',
    'Whether the listener uses the certificate on disk, by its file; absent without TLS',
    sources => certificatesOf(sources, ({ current }) => Number(current)),
    'min'
  ],
  tls_certificate_expires_timestamp_seconds: [
    'gauge',
    'When the certificate in use, or the first one in its chain, expires; by its file',
    sources => certificatesOf(sources, ({ pair }) => pair.expiresAt / 1000),
    'min'
  ],
  proxy_header_violations_total: [
    'counter',
    'Connections of peers in TRUST_PROXY that were closed because of a missing or invalid PROXY header',
    sources => one(sources.proxyViolations())
  ],
  provider_state: [
    'gauge',
    'State of the cloud provider at its last check: 1 for the current state',
    sources => stateOf(['ok', 'away', 'unknown'], sources.provider()),
    'max'
  ],
  faults_total: [
    'counter',
    'Faults of the gateway itself, by what each of them ended: report them',
    () => Object.entries(faultCounts()).map(([place, value]) => ({ value, labels: { place } }))
  ],
  descriptors_exhausted_total: [
    'counter',
    'Times that the process had no file descriptor left for a connection or a file',
    () => one(timesOutOfDescriptors())
  ],
  log_lines_dropped_total: ['counter', 'Log lines lost', sources => one(sources.logLinesDropped())],
  insecure: [
    'gauge',
    '1 for each setting that switches a protection off',
    sources => Object.entries(sources.insecure).map(([setting, on]) => ({ value: Number(on), labels: { setting } })),
    'max'
  ]
}

/** Without values while there are no sources. */
export const families = (sources: () => MetricSources | undefined) =>
  Object.entries(ROWS).map(([name, [type, help, read, aggregator = 'sum']]) => ({
    ...{ name: `portaria_${name}`, help, type, aggregator },
    async read(): Promise<Value[]> {
      const known = sources()
      return known === undefined ? [] : read(known)
    }
  }))
