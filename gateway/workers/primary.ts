// Runs several processes that share the listener as one gateway: one start, one reload, one drain.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { AggregatorRegistry, Counter, Gauge, type MetricObjectWithValues, type MetricValue } from 'prom-client'
import type { Gateway } from '../gateway.ts'
import { createCertificates } from '../listener/certificates.ts'
import { openOpsListener, READY_HELP } from '../observe/ops-listener.ts'
import type { Settings } from '../settings/settings.ts'
import { logFaultsTo } from '../values/contain.ts'
import { createMembers, type Member } from './members.ts'
import { StartFailure } from './start-failure.ts'

/** A worker whose database hangs replies after 2 s; Prometheus waits for 10 s. */
const METRICS_TIMEOUT_MS = 5000
const RELOAD_TIMEOUT_MS = 60_000
/** Time after the drain for closing stores; then the worker is killed. */
const CLOSE_GRACE_MS = 10_000

type State = 'starting' | 'ready' | 'draining'

interface WorkersEvents {
  onServing(gateway: Gateway): void
  onGiveUp(): void
}

/**
 * Forks the workers, beginning with a single one: problems with the environment are then reported once, and the others find
 * the database migrated.
 * @param onServing called when the first worker serves and the others have yet to start
 * @param onGiveUp called when no worker can be started any more
 * @throws {StartFailure} if a worker cannot start; none is left then
 */
export const startWorkers = async (
  settings: Settings,
  log: Logger,
  { onServing, onGiveUp }: WorkersEvents
): Promise<Gateway> => {
  logFaultsTo(log)
  const restarts = createRestarts()
  const pauses = new Set<NodeJS.Timeout>()
  let state: State = 'starting'

  const certificates = settings.tls && createCertificates({ tls: settings.tls, log })
  certificates?.onChange(next => {
    for (const { calls } of members.ready()) calls.call('certificate.changed', next).catch(() => undefined)
  })
  /** Each worker reads the files by itself; the first that sees a change has the others do so. */
  const reload = async (isAsked = false, except?: Member): Promise<boolean> => {
    await certificates?.reload()
    const options = { timeoutMs: RELOAD_TIMEOUT_MS }
    const others = members.ready().filter(member => member !== except)
    const read = await Promise.allSettled(others.map(({ calls }) => calls.call('reload', isAsked, options)))
    return read.length > 0 && read.every(one => one.status === 'fulfilled' && one.value === true)
  }

  const replace = ({ worker, startedAt, port, failure }: Member, code: number, signal: string) => {
    const end = { wasReady: port > 0, livedMs: performance.now() - startedAt, othersReady: members.ready().length }
    // node:cluster closes a passed socket with the last worker that has it, and only another start is passed it again.
    const isLost = settings.passedSockets > 0 && end.othersReady === 0
    const delayMs = isLost ? undefined : restarts.next(end)
    log.error({ worker: worker.process.pid, code, signal, failure: failure?.message, delayMs }, 'a worker has ended')
    startAnother(delayMs)
  }
  const startAnother = (delayMs: number | undefined) => {
    if (delayMs === undefined) return onGiveUp()
    const pause = setTimeout(() => {
      pauses.delete(pause)
      members.fork(true).then(
        () => log.info({ workers: members.ready().length }, 'a worker has been replaced'),
        error => {
          // `onEnded` handles the end of one that was started.
          if (error instanceof StartFailure || state === 'draining') return
          const next = restarts.next({ wasReady: false, livedMs: 0, othersReady: members.ready().length })
          log.error({ failure: String(error), delayMs: next }, 'a worker has ended')
          startAnother(next)
        }
      )
    }, delayMs)
    pauses.add(pause)
  }

  const members = createMembers({
    settings,
    certificates,
    reload: except => reload(false, except),
    onEnded(member, code, signal) {
      metrics.forget(member.worker.id)
      // One that ends in the first start lets that fail.
      if (state !== 'draining' && (member.port > 0 || member.isReplacement)) replace(member, code, signal)
    }
  })
  // However this process ends, nothing is left behind.
  process.once('exit', members.killAll)

  // Balancers must not drop the workers that serve because another one is missing.
  const readiness = () => (state === 'ready' && members.ready().length === 0 ? 'starting' : state)
  const metrics = createWorkerMetrics(members, restarts, () => readiness() === 'ready')
  const { port: opsPort, host } = settings.ops
  const ops = opsPort === undefined ? undefined : await openOpsListener({ port: opsPort, host, metrics, readiness })

  const startAll = async () => {
    try {
      const port = await members.fork()
      const gateway = gatewayAt(port)
      onServing(gateway)
      await Promise.all(Array.from({ length: settings.workers - 1 }, () => members.fork())).catch(error => {
        // Closed meanwhile: those that had not started were killed, and those that serve are still draining.
        if (state !== 'draining') throw error
      })
      return gateway
    } catch (error) {
      state = 'draining'
      members.killAll()
      await Promise.all([members.allGone(CLOSE_GRACE_MS), ops?.close()])
      throw error
    }
  }
  const gatewayAt = (port: number): Gateway => ({
    port,
    redirectPort: settings.redirectPort,
    opsPort: ops?.port,
    reload,
    async close() {
      state = 'draining'
      for (const pause of pauses) clearTimeout(pause)
      if (settings.drainDelayMs > 0) {
        members.announceEnd()
        await sleep(settings.drainDelayMs)
      }
      for (const { worker, calls, port } of members.all()) {
        if (port === 0) worker.process.kill('SIGKILL')
        else calls.call('close').catch(() => undefined)
      }
      const isClean = await members.allGone(settings.drainTimeoutMs + CLOSE_GRACE_MS)
      certificates?.close()
      await ops?.close()
      if (!isClean) throw new Error('a worker had to be killed')
    }
  })
  const gateway = await startAll()
  if (state === 'starting') state = 'ready'
  return gateway
}

const FIRST_DELAY_MS = 50
const MAX_DELAY_MS = 10_000
/** A worker that has served for this long did not end because of its start. */
const STEADY_MS = 10_000
const MAX_VAIN_STARTS = 6

/** Replaces a worker that ends, with increasing delays if workers keep ending, and gives up after too many failed starts. */
export const createRestarts = () => {
  let quickEnds = 0
  let vainStarts = 0
  let count = 0
  return {
    /** Delay before the next start; undefined: give up. @param end `othersReady`: other workers that accept requests */
    next(end: { wasReady: boolean; livedMs: number; othersReady: number }): number | undefined {
      const { wasReady, livedMs, othersReady } = end
      count++
      vainStarts = wasReady ? 0 : vainStarts + 1
      // While others serve, ending them too would gain nothing.
      if (vainStarts >= MAX_VAIN_STARTS && othersReady === 0) return undefined
      quickEnds = wasReady && livedMs >= STEADY_MS ? 0 : quickEnds + 1
      return quickEnds <= 1 ? 0 : Math.min(FIRST_DELAY_MS * 2 ** (quickEnds - 1), MAX_DELAY_MS)
    },
    count: () => count
  }
}

type MetricObject = MetricObjectWithValues<MetricValue<string>>

const COUNTED: ReadonlySet<unknown> = new Set(['counter', 'histogram'])

const counted = (metrics: readonly MetricObject[]): MetricObject[] => metrics.filter(({ type }) => COUNTED.has(type))

const routesIn = (metrics: readonly MetricObject[]): ReadonlySet<unknown> =>
  new Set(metrics.flatMap(({ values }) => values.map(({ labels }) => labels.route)))

const without = (metric: MetricObject, routes: ReadonlySet<unknown>): MetricObject => ({
  ...metric,
  values: metric.values.filter(({ labels }) => !routes.has(labels.route))
})

const add = (all: readonly MetricObject[][]) => AggregatorRegistry.aggregate(all as unknown as MetricObject[])

/** Adds up the metrics of all workers, so that no counter falls when a worker ends. */
const createWorkerMetrics = (
  members: Pick<ReturnType<typeof createMembers>, 'ready'>,
  restarts: Pick<ReturnType<typeof createRestarts>, 'count'>,
  isReady: () => boolean
) => {
  const last = new Map<number, MetricObject[]>()
  let ended: Promise<MetricObject[]> = Promise.resolve([])

  return {
    contentType: AggregatorRegistry.PROMETHEUS_CONTENT_TYPE,
    async text(): Promise<string> {
      const answered = new Set<number>()
      /** Routes that a worker has counted, and that are no longer in the route files. */
      const removed = new Set<unknown>()
      const asked = members.ready().map(async ({ worker, calls }) => {
        const metrics = (await calls.call('metrics', [], { timeoutMs: METRICS_TIMEOUT_MS })) as MetricObject[]
        const now = routesIn(metrics)
        for (const route of routesIn(last.get(worker.id) ?? [])) if (!now.has(route)) removed.add(route)
        last.set(worker.id, metrics)
        answered.add(worker.id)
      })
      await Promise.allSettled(asked)
      // What the others, or those that have ended, still count of such a route would be less than before.
      const remaining = (metrics: MetricObject[]) => metrics.map(one => without(one, removed))
      if (removed.size > 0) ended = ended.then(remaining)
      // For a worker that is busy, the last counts are used: a decreasing sum would be read as a restart.
      for (const [worker, metrics] of last) if (!answered.has(worker)) last.set(worker, remaining(counted(metrics)))
      const registry = add([...[...last.values()].map(remaining), await ended])
      const serving = new Gauge({ name: 'portaria_workers', help: 'Workers that take requests', registers: [registry] })
      serving.set(members.ready().length)
      // Of this process, which delays the drain: the workers know only about themselves.
      registry.removeSingleMetric('portaria_ready')
      const ready = new Gauge({ name: 'portaria_ready', help: READY_HELP, registers: [registry] })
      ready.set(Number(isReady()))
      const help = 'Workers that ended unasked and were replaced'
      new Counter({ name: 'portaria_worker_restarts_total', help, registers: [registry] }).inc(restarts.count())
      return registry.metrics()
    },
    forget(worker: number): void {
      const metrics = last.get(worker)
      last.delete(worker)
      if (metrics !== undefined) ended = ended.then(before => add([before, counted(metrics)]).getMetricsAsJSON())
    }
  }
}
