// Reads the OpenTelemetry variables as the standard defines them; the exporter reads its own address and headers.
import type { Environment } from './reader.ts'

/** Which requests are traced: all, none, or a fraction. */
export type SamplerSettings = Readonly<ReturnType<typeof readSampler>>

export const isTracing = (environment: Environment): boolean => {
  if (environment.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || exporterIn(environment) === 'none') return false
  return ['OTEL_TRACES_EXPORTER', ...ENDPOINTS].some(name => (environment[name] ?? '') !== '')
}

/** The standard's words count whatever their case. */
const exporterIn = ({ OTEL_TRACES_EXPORTER = '' }: Environment): string => OTEL_TRACES_EXPORTER.toLowerCase()

const ENDPOINTS = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT'] as const

/** Requested features that are not supported, and an address to which nothing can be sent; reported at startup. */
export const tracingWarnings = (environment: Environment): string[] => {
  if (!isTracing(environment)) return []
  const { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL } = environment
  const protocol = OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? OTEL_EXPORTER_OTLP_PROTOCOL ?? ''
  const endpoint = ENDPOINTS.find(name => (environment[name] ?? '') !== '')
  const isHttp = endpoint === undefined || /^https?:\/\/[^/]/i.test(environment[endpoint] ?? '')
  return [
    ...(['', 'otlp'].includes(exporterIn(environment))
      ? []
      : ['OTEL_TRACES_EXPORTER: only otlp is supported and will be used']),
    ...(['', 'http/protobuf'].includes(protocol)
      ? []
      : ['OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is supported and will be used']),
    ...(isHttp ? [] : [`${endpoint} must begin with http:// or https://: no traces can be sent there`]),
    ...samplerWarnings(environment)
  ]
}

const samplerWarnings = (environment: Environment): string[] => {
  const [, , kind] = samplerIn(environment) ?? []
  if (kind === undefined && (environment.OTEL_TRACES_SAMPLER ?? '') !== '')
    return ['OTEL_TRACES_SAMPLER is unknown: every request is traced unless its client decides otherwise']
  return kind === 'traceidratio' && shareIn(environment) === undefined
    ? ['OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1: 1 is used']
    : []
}

/** OTEL_TRACES_SAMPLER and its argument; unknown values mean the standard's default, parentbased_always_on. */
export const readSampler = (environment: Environment) => {
  const [, parent, kind] = samplerIn(environment) ?? []
  if (kind === undefined) return { parentBased: true, ratio: 1 }
  return {
    /** The client's decision takes precedence. */
    parentBased: parent !== undefined,
    /** From 0 to 1. */
    ratio: { always_on: 1, always_off: 0, traceidratio: shareIn(environment) ?? 1 }[kind] ?? 1
  }
}

const samplerIn = ({ OTEL_TRACES_SAMPLER = '' }: Environment) =>
  /^(parentbased_)?(always_on|always_off|traceidratio)$/.exec(OTEL_TRACES_SAMPLER.toLowerCase())

/** Undefined: it is none. */
const shareIn = ({ OTEL_TRACES_SAMPLER_ARG = '' }: Environment): number | undefined => {
  const share = OTEL_TRACES_SAMPLER_ARG.trim() === '' ? 1 : Number(OTEL_TRACES_SAMPLER_ARG)
  return share >= 0 && share <= 1 ? share : undefined
}
