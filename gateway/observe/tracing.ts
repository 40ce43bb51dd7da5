// Makes each request a span in its client's trace, exported in the background; not loaded without OTEL_*.
import {
  type Context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector
} from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider
} from '@opentelemetry/sdk-trace'
import type { Exchange } from '../http/exchange.ts'
import { formatTraceparent, parseTraceparent } from '../http/trace-context.ts'
import type { SamplerSettings } from '../settings/tracing.ts'
import type { Log } from '../values/log.ts'
import { VERSION } from '../values/package-files.ts'
import { readRecord } from '../values/records.ts'
import { seldom } from '../values/throttled-log.ts'
import { outcomeOf } from './access-log.ts'
import { redactText } from './redaction.ts'

const CLOSE_MS = 2000

const contextOf = (exchange: Exchange): Context => {
  // Joined with a comma if sent twice, which makes it invalid (§3.2).
  const parent = parseTraceparent(exchange.head.traceparent)
  if (parent === undefined) return ROOT_CONTEXT
  const { traceId, spanId, flags } = parent
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true })
}

const attributesOf = ({ request: { method, connection } }: Exchange) => ({
  'http.request.method': method,
  'url.scheme': connection.isTls ? 'https' : 'http',
  'network.protocol.version': connection.isHttp2 ? '2' : '1.1'
})

const describe = (span: Span, exchange: Exchange) => {
  const { request, response, route, error, upstreamMs } = exchange
  if (route !== undefined) span.updateName(`${request.method} ${route.path}`).setAttribute('http.route', route.path)
  const status = exchange.upgraded ? 101 : response.status
  if (status !== 0) span.setAttribute('http.response.status_code', status)
  span.setAttribute('url.path', redactText(exchange.path))
  span.setAttribute('portaria.request_id', exchange.requestId)
  span.setAttribute('portaria.decision', outcomeOf(exchange))
  if (upstreamMs >= 0) span.setAttribute('portaria.upstream_ms', upstreamMs)
  if (error === undefined) return
  span.setAttribute('error.type', error.code)
  if (error.reason !== undefined) span.setAttribute('portaria.reason', error.reason)
  if (error.statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
}

/** The exporter itself says nothing. What it could not send is given to OpenTelemetry's own log, as JSON. */
const reportUnsent = (log: Pick<Log, 'warn'>): void => {
  const say = seldom((failures, fault: unknown) =>
    log.warn(
      { reason: 'traces-unsent', failures, fault },
      'traces could not be sent; check OTEL_EXPORTER_OTLP_ENDPOINT'
    )
  )
  const quiet = () => undefined
  const error = (text: string) => say(readRecord(text)?.message ?? text)
  const options = { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true }
  diag.setLogger({ error, warn: quiet, info: quiet, debug: quiet, verbose: quiet }, options)
}

/** The exporter reads OTEL_EXPORTER_OTLP_*; the resource reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES. */
export const createTracing = ({ parentBased, ratio }: SamplerSettings, log: Pick<Log, 'warn'>) => {
  reportUnsent(log)
  const root = new TraceIdRatioBasedSampler(ratio)
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'portaria', 'service.version': VERSION }))
      .merge(detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] })),
    sampler: parentBased ? new ParentBasedSampler({ root }) : root,
    spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter() })]
  })
  const tracer = provider.getTracer('portaria')
  const spans = new WeakMap<Exchange, Span>()

  return {
    /** Opens the span of a request, and records what replaces the client's traceparent upstream. */
    begin(exchange: Exchange): void {
      const parent = contextOf(exchange)
      const method = exchange.request.method
      const span = tracer.startSpan(method, { kind: SpanKind.SERVER, attributes: attributesOf(exchange) }, parent)
      const { traceId, spanId, traceFlags } = span.spanContext()
      spans.set(exchange, span)
      exchange.trace = {
        traceId,
        traceparent: formatTraceparent({ traceId, spanId, flags: traceFlags }),
        keepsState: parent !== ROOT_CONTEXT
      }
    },
    end(exchange: Exchange): void {
      const span = spans.get(exchange)
      if (span === undefined) return
      if (span.isRecording()) describe(span, exchange)
      span.end()
    },
    /** Sends what is left, for at most two seconds. */
    async close(): Promise<void> {
      const late = new Promise(resolve => setTimeout(resolve, CLOSE_MS).unref())
      await Promise.race([provider.shutdown().catch(() => undefined), late])
    }
  }
}
