// Serves all metrics as Prometheus text, computed only on request.
import { collectDefaultMetrics, type Metric, type MetricObject, Registry } from 'prom-client'
import { families, type MetricSources } from './metric-families.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** prom-client calls `get` for a metric's values; ours are read from the counters that exist anyway. */
const asMetric = ({ read, ...described }: ReturnType<typeof families>[number]) => ({
  ...described,
  get: async () => ({ ...described, values: await read() }),
  reset: () => undefined
})

/** @param sources returns undefined while the gateway is starting; then there are only metrics of the process itself, and that it is not ready. */
export const createMetrics = (sources: () => MetricSources | undefined) => {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const family of families(sources)) registry.registerMetric(asMetric(family) as unknown as Metric)
  return {
    contentType: registry.contentType,
    text: () => registry.metrics(),
    /** The values in the form in which prom-client combines them across processes. */
    json: (): Promise<MetricObject[]> => registry.getMetricsAsJSON()
  }
}
