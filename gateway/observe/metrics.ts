// Serves all metrics as Prometheus text, computed only on request.
import { type Aggregator, collectDefaultMetrics, type Metric, type MetricObject, Registry } from 'prom-client'
import { families, type MetricSources } from './metric-families.ts'
import type { Family } from './metric-requests.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** How the values of several processes are combined, if not by their sum. */
const AGGREGATORS: Readonly<Record<string, Aggregator>> = {
  portaria_ready: 'min',
  portaria_limiter_mode: 'max',
  portaria_reloads_total: 'max',
  portaria_routes_ok: 'min',
  portaria_routes_loaded_timestamp_seconds: 'min',
  portaria_routes: 'max',
  portaria_revocations: 'max',
  portaria_revocations_staleness_seconds: 'max',
  portaria_upstream_target_up: 'min',
  portaria_provider_state: 'max',
  portaria_audit_chain_ok: 'min',
  portaria_audit_checked_timestamp_seconds: 'min',
  portaria_build_info: 'max',
  portaria_clock_ahead_seconds: 'average',
  portaria_database_up: 'min',
  portaria_directory_state: 'max',
  portaria_grants_state: 'max',
  portaria_tls_certificate_ok: 'min',
  portaria_tls_certificate_expires_timestamp_seconds: 'min',
  portaria_insecure: 'max'
}

/** prom-client calls `get` for a metric's values; ours are read from the counters that exist anyway. */
const asMetric = ({ name, help, type, read }: Family) => {
  const described = { name, help, type, aggregator: AGGREGATORS[name] ?? 'sum' }
  return { ...described, get: async () => ({ ...described, values: await read() }), reset: () => undefined }
}

/** @param sources returns undefined while the gateway is starting; then there are only metrics of the process itself. */
export const createMetrics = (sources: () => MetricSources | undefined) => {
  const registry = new Registry()
  // Process, heap, garbage collection and event-loop lag.
  collectDefaultMetrics({ register: registry })
  for (const family of families(sources)) registry.registerMetric(asMetric(family) as unknown as Metric)
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    /** The values in the form in which prom-client combines them across processes. */
    json: (): Promise<MetricObject[]> => registry.getMetricsAsJSON()
  }
}
