// Observes every exchange in one place: counters, live traffic, access log, traces, and the listener that serves them.
import type { Logger } from 'pino'
import type { Exchange } from '../http/exchange.ts'
import type { UnreadableRequest } from '../http/own-responses.ts'
import type { LoginOutcome } from '../login/sign-in.ts'
import type { Settings } from '../settings/settings.ts'
import { isLoopbackHost } from '../values/addresses.ts'
import { watchDescriptors } from '../values/descriptors.ts'
import { createAccessLog } from './access-log.ts'
import type { Known } from './health.ts'
import { droppedLines } from './logging.ts'
import type { MetricSources } from './metric-families.ts'
import type { Metrics } from './metrics.ts'
import { createRequestCounters } from './request-counters.ts'
import { createTraffic, STEP_MS } from './traffic.ts'

export type Observation = Awaited<ReturnType<typeof startObservation>>

/** Settings that weaken a protection, and whether they do. */
const insecureSettings = ({ ldap, cloudidp, publicUrl, plainAddresses }: Settings): Record<string, boolean> => ({
  LDAP_INSECURE: ldap.active && ldap.insecure,
  CLOUDIDP_INSECURE: cloudidp.active && cloudidp.insecure,
  CLOUDIDP_ALLOWED_TENANTS: cloudidp.active && (cloudidp.allowedTenants?.includes('*') ?? false),
  PUBLIC_URL: publicUrl.startsWith('http:') && !isLoopbackHost(new URL(publicUrl).hostname),
  ...Object.fromEntries(PLAIN_ADDRESSES.map(name => [name, plainAddresses.includes(name)]))
})

const PLAIN_ADDRESSES = ['FRONTEND_URL', 'CORS_ORIGINS', 'CLOUDIDP_SUCCESS_REDIRECT_URL'] as const

const openOps = async ({ port, host }: Settings['ops'], metrics: () => Promise<Metrics>, readiness: () => string) => {
  if (port === undefined) return undefined
  const { openOpsListener } = await import('./ops-listener.ts')
  return openOpsListener({ port, host, metrics: await metrics(), readiness })
}

const reportDescriptors = (log: Logger): (() => void) =>
  watchDescriptors({
    onExhausted: err =>
      log.error(
        { err, reason: 'descriptors-exhausted' },
        'no file descriptor is left: new connections are lost and requests answered with 503 until some are closed; allow the ' +
          'process more open files (ulimit -n, LimitNOFILE) or lower CONNECTIONS_PER_IP'
      ),
    onFree: () => log.info('file descriptors are left again')
  })

/** Opens the ops listener at once, because a starting process is already alive. Rejects if its port is unavailable. */
export const startObservation = async (settings: Settings, log: Logger) => {
  const requests = createRequestCounters()
  const traffic = createTraffic()
  const writeLog = createAccessLog(log, settings.publicUrl)
  const insecure = insecureSettings(settings)
  const reloads = { ok: 0, failed: 0 }
  let readiness = 'starting'
  let sources: MetricSources | undefined
  let created: Promise<Metrics> | undefined
  // Loaded only if needed, because loading it delays the start.
  const metrics = (): Promise<Metrics> => {
    created ??= import('./metrics.ts').then(({ createMetrics }) => createMetrics(() => sources))
    return created
  }
  const tracing = settings.otel ? (await import('./tracing.ts')).createTracing(settings.otelSampler, log) : undefined
  const ops = await openOps(settings.ops, metrics, () => readiness)
  const stopWatching = reportDescriptors(log)

  return {
    /** Opens the span of a request; undefined if tracing is off. */
    onOpen: tracing?.begin,
    onClose(exchange: Exchange): void {
      const now = performance.now()
      requests.record(exchange, now)
      traffic.record(exchange, now)
      writeLog(exchange)
      tracing?.end(exchange)
    },
    onUnreadable({ error, ...fields }: UnreadableRequest): void {
      requests.recordRefusal(error)
      log.info({ ...fields, code: error.code, reason: error.reason }, 'refused an unreadable request')
    },
    onLogin(outcome: LoginOutcome): void {
      requests.recordLogin(outcome)
      traffic.recordLogin(outcome.ok)
    },
    onRefusal: requests.recordRefusal,
    onReload(ok: boolean): void {
      reloads[ok ? 'ok' : 'failed']++
    },
    onTable: requests.retain,
    traffic: { stepMs: STEP_MS, counts: traffic.counts },
    insecure: Object.keys(insecure).filter(name => insecure[name] === true),
    /** Of the ops listener; undefined without one. */
    opsPort: ops?.port,
    /** All metrics as prom-client's JSON, for a process that combines those of several. */
    metrics: async (): Promise<unknown> => (await metrics()).json(),
    attach(known: Known): void {
      sources = {
        ...known,
        requests,
        reloads: () => reloads,
        logLinesDropped: () => droppedLines(log),
        insecure,
        isReady: () => readiness === 'ready'
      }
    },
    /** Shown by `/ready`; before the first call it shows `starting`. */
    nowReady(): void {
      readiness = 'ready'
    },
    nowDraining(): void {
      readiness = 'draining'
    },
    async close(): Promise<void> {
      stopWatching()
      await tracing?.close()
      await ops?.close()
    }
  }
}
