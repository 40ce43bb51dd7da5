// Lists the metrics: each with a name, a help text, a type and the one place where its values are read from.

import type { LimiterStatus } from '../limits/limiter.ts'
import type { TokenCacheCounts } from '../tokens/verified-tokens.ts'
import type { UpstreamStatus } from '../upstream/upstreams.ts'
import { VERSION } from '../values/version.ts'
import { type Family, requestFamilies, type Value } from './metric-requests.ts'
import type { Reachability } from './reachability.ts'
import type { RequestCounters } from './request-counters.ts'

export interface MetricSources {
  readonly requests: RequestCounters
  readonly streams: () => Readonly<Record<string, number>>
  /** Socket.IO events that rules refused. */
  readonly refusedEvents: () => readonly { route: string; namespace: string; count: number }[]
  readonly limiter: () => LimiterStatus
  readonly routes: () => { ok: boolean; loadedAt: Date; checksum: string; count: number }
  readonly reloads: () => { ok: number; failed: number }
  readonly tokenCache: () => TokenCacheCounts
  /** Verified tokens by the secret that signed them, the current one first. */
  readonly tokensByKey: () => readonly number[]
  readonly revocations: () => { known: number; stalenessMs: number }
  readonly upstreams: () => readonly UpstreamStatus[]
  /** Of the listener; undefined: it speaks no TLS. */
  readonly certificate: () => { readonly current: boolean; readonly pair: { readonly expiresAt: number } } | undefined
  /** Connections closed over their PROXY header. */
  readonly proxyViolations: () => number
  readonly logLinesDropped: () => number
  /** undefined: no cloud login. */
  readonly provider: () => Reachability | undefined
  readonly audit: () => { state: 'unknown' | 'ok' | 'broken'; checkedAt: Date | undefined }
  /** Whether the database answers; asked at most once a second. */
  readonly databaseOk: () => Promise<boolean>
  /** undefined: directory login is not active. */
  readonly directory: () => string | undefined
  /** Settings that weaken a protection, and whether they do. */
  readonly insecure: Readonly<Record<string, boolean>>
  readonly isReady: () => boolean
}

type Read = (sources: MetricSources) => Value[] | Promise<Value[]>
type Row = readonly [name: string, type: 'counter' | 'gauge', help: string, read: Read]

const one = (value: number, labels: Record<string, string> = {}): Value[] => [{ value, labels }]
const each = <T>(items: Iterable<T>, labels: (item: T) => Record<string, string>, value: (item: T) => number) =>
  Array.from(items, item => ({ value: value(item), labels: labels(item) }))

const keyName = (index: number): string => (index === 0 ? 'current' : `previous-${index}`)

const certificateOf = (
  sources: MetricSources,
  read: (certificate: NonNullable<ReturnType<MetricSources['certificate']>>) => number
): Value[] => {
  const certificate = sources.certificate()
  return certificate === undefined ? [] : one(read(certificate))
}

const targetsOf = (sources: MetricSources) =>
  sources
    .upstreams()
    .flatMap(({ name, targets }) =>
      targets.map(target => ({ ...target, labels: { upstream: name, target: target.url } }))
    )

const PROVIDER_STATES: readonly Reachability[] = ['ok', 'away', 'unknown']

const ROWS: readonly Row[] = [
  [
    'build_info',
    'gauge',
    'Always 1, labelled with the version of the gateway and of Node',
    () => one(1, { version: VERSION, node: process.versions.node })
  ],
  ['ready', 'gauge', 'Whether requests are wanted', sources => one(Number(sources.isReady()))],
  [
    'open_streams',
    'gauge',
    'Open WebSockets, Socket.IO connections and event streams',
    sources =>
      each(
        Object.entries(sources.streams()),
        ([kind]) => ({ kind }),
        ([, count]) => count
      )
  ],
  [
    'socketio_events_refused_total',
    'counter',
    'Socket.IO events that the `events` of a namespace refused',
    sources =>
      each(
        sources.refusedEvents(),
        ({ route, namespace }) => ({ route, namespace }),
        ({ count }) => count
      )
  ],
  [
    'limiter_mode',
    'gauge',
    'Where requests are counted: 1 for the mode in use',
    sources =>
      each(
        ['memory', 'redis', 'degraded'],
        mode => ({ mode }),
        mode => Number(sources.limiter().mode === mode)
      )
  ],
  ['limiter_redis_commands_total', 'counter', 'Commands sent to Redis', sources => one(sources.limiter().commands)],
  ['limiter_windows', 'gauge', 'Windows kept in memory', sources => one(sources.limiter().entries)],
  ['limiter_leases', 'gauge', 'Keys that hold permits lent by Redis', sources => one(sources.limiter().leases)],
  [
    'logins_total',
    'counter',
    'Logins by provider, result and reason',
    sources =>
      each(
        sources.requests.logins(),
        ({ provider, result, reason }) => ({ provider, result, reason }),
        ({ count }) => count
      )
  ],
  [
    'reloads_total',
    'counter',
    'Reloads of the route files by result',
    sources =>
      each(
        Object.entries(sources.reloads()),
        ([result]) => ({ result }),
        ([, count]) => count
      )
  ],
  ['routes_ok', 'gauge', 'Whether the files on disk are those in use', sources => one(Number(sources.routes().ok))],
  [
    'routes_loaded_timestamp_seconds',
    'gauge',
    'When the table in use was loaded',
    sources => one(sources.routes().loadedAt.getTime() / 1000)
  ],
  [
    'routes',
    'gauge',
    "Routes in use, the gateway's own included, labelled with the checksum of their files",
    sources => one(sources.routes().count, { checksum: sources.routes().checksum })
  ],
  ['token_cache_hits_total', 'counter', 'Tokens known already', sources => one(sources.tokenCache().hits)],
  [
    'token_cache_misses_total',
    'counter',
    'Tokens that had to be verified',
    sources => one(sources.tokenCache().misses)
  ],
  ['token_cache_entries', 'gauge', 'Tokens remembered', sources => one(sources.tokenCache().size)],
  [
    'tokens_verified_total',
    'counter',
    'Tokens verified, by the secret that signed them',
    sources =>
      each(
        sources.tokensByKey().entries(),
        ([index]) => ({ key: keyName(index) }),
        ([, count]) => count
      )
  ],
  ['revocations', 'gauge', 'Ended tokens and changed people known', sources => one(sources.revocations().known)],
  [
    'revocations_staleness_seconds',
    'gauge',
    'Since revocations were last known to be complete',
    sources => one(sources.revocations().stalenessMs / 1000)
  ],
  [
    'upstream_target_up',
    'gauge',
    '1 up, 0.5 coming back, 0 out',
    sources =>
      each(
        targetsOf(sources),
        ({ labels }) => labels,
        ({ state }) => ({ up: 1, returning: 0.5, down: 0 })[state]
      )
  ],
  [
    'upstream_connections',
    'gauge',
    'Connections to a target',
    sources =>
      targetsOf(sources).flatMap(({ labels, busy, connections }) => [
        { value: busy, labels: { ...labels, state: 'busy' } },
        { value: connections - busy, labels: { ...labels, state: 'idle' } }
      ])
  ],
  [
    'upstream_faults_total',
    'counter',
    'Requests that failed at a target',
    sources =>
      targetsOf(sources).flatMap(({ labels, faults }) =>
        Object.entries(faults).map(([fault, value]) => ({ value, labels: { ...labels, fault } }))
      )
  ],
  [
    'directory_state',
    'gauge',
    'What was last found of the directory: 1 for its state',
    sources => {
      const state = sources.directory()
      return state === undefined
        ? []
        : each(
            ['ok', 'away', 'refused', 'unknown'],
            name => ({ state: name }),
            name => Number(name === state)
          )
    }
  ],
  [
    'database_up',
    'gauge',
    'Whether the database answers and can be written',
    async sources => one(Number(await sources.databaseOk()))
  ],
  [
    'audit_chain_ok',
    'gauge',
    'Whether the last check of the audit log found it whole; absent before the first',
    sources => (sources.audit().state === 'unknown' ? [] : one(Number(sources.audit().state === 'ok')))
  ],
  [
    'audit_checked_timestamp_seconds',
    'gauge',
    'When the audit log was last read as a whole; absent before the first time',
    sources => {
      const { checkedAt } = sources.audit()
      return checkedAt === undefined ? [] : one(checkedAt.getTime() / 1000)
    }
  ],
  [
    'tls_certificate_ok',
    'gauge',
    'Whether the listener serves what its certificate files hold; absent without TLS',
    sources => certificateOf(sources, ({ current }) => Number(current))
  ],
  [
    'tls_certificate_expires_timestamp_seconds',
    'gauge',
    'When the certificate that is served, or one of its chain, expires',
    sources => certificateOf(sources, ({ pair }) => pair.expiresAt / 1000)
  ],
  [
    'proxy_header_violations_total',
    'counter',
    'Connections of peers in TRUST_PROXY closed for want of a good PROXY header',
    sources => one(sources.proxyViolations())
  ],
  [
    'provider_state',
    'gauge',
    'What was last found of the cloud provider: 1 for its state',
    sources => {
      const found = sources.provider()
      return found === undefined
        ? []
        : each(
            PROVIDER_STATES,
            state => ({ state }),
            state => Number(state === found)
          )
    }
  ],
  ['log_lines_dropped_total', 'counter', 'Log lines lost', sources => one(sources.logLinesDropped())],
  [
    'insecure',
    'gauge',
    'Settings that switch a protection off: 1 when they do',
    sources =>
      each(
        Object.entries(sources.insecure),
        ([setting]) => ({ setting }),
        ([, on]) => Number(on)
      )
  ]
]

export const families = (sources: () => MetricSources | undefined): Family[] => {
  const reading = (read: Read) => (): Value[] | Promise<Value[]> => {
    const known = sources()
    return known === undefined ? [] : read(known)
  }
  return [
    ...requestFamilies(() => sources()?.requests),
    ...ROWS.map(([name, type, help, read]) => ({ name: `portaria_${name}`, help, type, read: reading(read) }))
  ]
}
