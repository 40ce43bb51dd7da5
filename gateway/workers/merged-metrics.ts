// Adds up the metrics of all workers, so that no counter falls when a worker ends.
import { AggregatorRegistry, Counter, Gauge, type MetricObject } from 'prom-client'

interface WorkerMetricsParts {
  /** Each worker's metrics as prom-client's JSON; undefined for one that does not respond. */
  ask: () => Promise<ReadonlyMap<number, unknown>>
  readyWorkers: () => number
  restarts: () => number
}

const COUNTED: ReadonlySet<unknown> = new Set(['counter', 'histogram'])

const counted = (metrics: readonly MetricObject[]): MetricObject[] => metrics.filter(({ type }) => COUNTED.has(type))

/** The result of a worker's `metrics.json()`, sent through the channel between our own processes. */
const asMetrics = (told: unknown): MetricObject[] | undefined =>
  Array.isArray(told) ? (told as MetricObject[]) : undefined

const add = (all: readonly MetricObject[][]) => AggregatorRegistry.aggregate(all as unknown as MetricObject[])

export const createWorkerMetrics = ({ ask, readyWorkers, restarts }: WorkerMetricsParts) => {
  const last = new Map<number, MetricObject[]>()
  let ended: Promise<MetricObject[]> = Promise.resolve([])

  return {
    contentType: AggregatorRegistry.PROMETHEUS_CONTENT_TYPE,
    async text(): Promise<string> {
      const answers = await ask()
      for (const [worker, told] of answers) {
        const metrics = asMetrics(told)
        if (metrics !== undefined) last.set(worker, metrics)
      }
      // For a worker that is busy, the last counts are used: a decreasing sum would be read as a restart.
      const living = [...last].map(([worker, metrics]) => (answers.has(worker) ? metrics : counted(metrics)))
      const registry = add([...living, await ended])
      const ready = new Gauge({ name: 'portaria_workers', help: 'Workers that take requests', registers: [registry] })
      ready.set(readyWorkers())
      const help = 'Workers that ended unasked and were replaced'
      new Counter({ name: 'portaria_worker_restarts_total', help, registers: [registry] }).inc(restarts())
      return registry.metrics()
    },
    /** A worker has ended; its counts are kept. */
    forget(worker: number): void {
      const metrics = last.get(worker)
      last.delete(worker)
      if (metrics !== undefined) ended = ended.then(before => add([before, counted(metrics)]).getMetricsAsJSON())
    }
  }
}
