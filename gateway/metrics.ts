// Everything the gateway counts is readable as Prometheus text; nothing is computed until somebody asks.
import { collectDefaultMetrics, type Metric, Registry } from 'prom-client'
import { type Family, families, type MetricSources } from './metrics-families.ts'

export interface Metrics {
  readonly contentType: string
  text(): Promise<string>
}

/** prom-client asks a metric for its values with `get`: ours are read from where they are counted anyway. */
const asMetric = ({ name, help, type, read }: Family) => ({
  name,
  help,
  type,
  aggregator: 'sum',
  get: async () => ({ name, help, type, aggregator: 'sum', values: read() }),
  reset: () => undefined
})

/** @param sources undefined as long as the gateway starts: then only the process itself is told of. */
export const createMetrics = (sources: () => MetricSources | undefined): Metrics => {
  const registry = new Registry()
  // Process, heap, garbage collection and event-loop lag.
  collectDefaultMetrics({ register: registry })
  for (const family of families(sources)) registry.registerMetric(asMetric(family) as unknown as Metric)
  return { contentType: registry.contentType, text: () => registry.metrics() }
}
