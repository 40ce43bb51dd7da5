// Builds an upstream from its definition in a route file, or complains about what is dangerous or wrong in it.
import type { HealthCheck, Upstream } from '../../routes/upstream.ts'
import { parseSize } from '../../values/quantities.ts'
import { type Complain, type Complaint, complainTo, type PlaceOf } from '../complaint.ts'
import { UPSTREAM_DEFAULTS as DEFAULTS } from '../schema/upstream-defaults.ts'
import type { UpstreamData } from '../schema/upstream-schema.ts'
import { readCertificates } from './certificates.ts'
import { defineTargets } from './define-targets.ts'
import { defineTimer } from './define-timer.ts'
import { defineHeaders } from './headers.ts'

/**
 * `file` is the route file, to which certificate paths are relative; without `readsFiles` they are not opened. Returns
 * undefined after a complaint.
 */
export const defineUpstream = async (
  name: string,
  data: UpstreamData,
  file: string,
  placeOf: PlaceOf,
  complaints: Complaint[],
  readsFiles: boolean
): Promise<Upstream | undefined> => {
  const before = complaints.length
  const say = complainTo(complaints, placeOf)
  const targets = defineTargets(data, say)
  const certificates = await readCertificates(data, file, targets, say, readsFiles)
  const duration = (text: string | number, ...path: string[]) => defineTimer(text, say, ...path)
  const upstream: Upstream = {
    name,
    targets,
    timeoutMs: duration(data.timeout ?? DEFAULTS.timeout, 'timeout'),
    idleTimeoutMs: duration(data.idleTimeout ?? DEFAULTS.idleTimeout, 'idleTimeout'),
    connectTimeoutMs: duration(data.connectTimeout ?? DEFAULTS.connectTimeout, 'connectTimeout'),
    requestBufferBytes: defineRequestBuffer(data, say),
    ...certificates,
    preserveHost: data.preserveHost ?? false,
    assertion: data.assertion ?? false,
    sharedCache: data.sharedCache ?? false,
    ...defineHeaders(data, say),
    healthCheck: data.healthCheck && defineHealthCheck(data.healthCheck, say),
    outlier: {
      errors: data.outlier?.errors ?? DEFAULTS.outlier.errors,
      restMs: duration(data.outlier?.for ?? DEFAULTS.outlier.for, 'outlier', 'for')
    },
    maxConnections: data.maxConnections,
    queue: defineQueue(data, say),
    place: placeOf()
  }
  return complaints.length === before ? upstream : undefined
}

const defineHealthCheck = (data: NonNullable<UpstreamData['healthCheck']>, say: Complain): HealthCheck => {
  const { interval, timeout, status, rise, fall } = { ...DEFAULTS.healthCheck, ...data }
  const [from = 0, to = from] = String(status).split('-').map(Number)
  if (from > to) say(`"status" must begin with the lower status; write ${to}-${from}`, 'healthCheck', 'status')
  return {
    path: data.path,
    intervalMs: defineTimer(interval, say, 'healthCheck', 'interval'),
    timeoutMs: defineTimer(timeout, say, 'healthCheck', 'timeout'),
    status: { from, to },
    host: data.host,
    rise,
    fall
  }
}

/** Each connection may hold so much memory. */
const MOST_BUFFER_BYTES = 16 * 1024 * 1024

const defineRequestBuffer = ({ requestBuffer }: UpstreamData, say: Complain): number => {
  const bytes = parseSize(requestBuffer ?? DEFAULTS.requestBuffer)
  if (bytes > MOST_BUFFER_BYTES) say('"requestBuffer" must be at most 16MB', 'requestBuffer')
  return bytes
}

const defineQueue = ({ maxConnections, queue }: UpstreamData, say: Complain): Upstream['queue'] => {
  if (maxConnections === undefined) {
    if (queue !== undefined) say('"queue" needs "maxConnections": without it no request waits', 'queue')
    return undefined
  }
  const { max, timeout } = { ...DEFAULTS.queue, ...queue }
  return { max, timeoutMs: defineTimer(timeout, say, 'queue', 'timeout') }
}
