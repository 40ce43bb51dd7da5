// Builds an upstream and its targets from its definition in a route file, or complains about what is dangerous or wrong in it.
import { endpointOf, type HealthCheck, type Target, type Upstream } from '../../routes/upstream.ts'
import { parseSize } from '../../values/quantities.ts'
import { type Complain, type Complaint, complainTo, type LocationOf } from '../complaint.ts'
import { defineTimer } from '../schema/forms.ts'
import { DEFAULTS, type UpstreamData } from '../schema/upstream-schema.ts'
import { readCertificates } from './certificates.ts'
import { defineHeaders } from './headers.ts'

interface Written {
  readonly url: string
  readonly backup: boolean
  readonly path: readonly (string | number)[]
}

/** With both keys, which is an error, only `url`. */
const writtenTargets = ({ url, targets = [] }: UpstreamData): Written[] => {
  if (url !== undefined) return [{ url, backup: false, path: ['url'] }]
  return targets.map((entry, index) =>
    typeof entry === 'string'
      ? { url: entry, backup: false, path: ['targets', index] }
      : { url: entry.url, backup: entry.backup ?? false, path: ['targets', index, 'url'] }
  )
}

const defineTargets = (data: UpstreamData, say: Complain): Target[] => {
  const known = new Set<string>()
  const targets = writtenTargets(data).flatMap(({ url, backup, path }) => {
    const target = parseTarget(url)
    if (typeof target === 'string') say(target, ...path)
    else if (known.has(endpointOf(target))) say('this address is listed twice', ...path)
    else {
      known.add(endpointOf(target))
      return [backup ? { ...target, backup } : target]
    }
    return []
  })
  const isOnlyBackups = targets.length > 0 && targets.every(({ backup }) => backup === true)
  if (isOnlyBackups) say('all targets are backups: at least one must not be', 'targets')
  return targets
}

const HTTP_URL = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\/?$/
// RFC 3927 and RFC 4291 §2.5.6: such addresses only reach a cloud's metadata service.
const LINK_LOCAL = /^(?:169\.254\.|\[fe[89ab][0-9a-f]:|\[::ffff:a9fe:|\[fd00:ec2::254\])/i

/** A target from its address, or what is wrong with it. */
const parseTarget = (url: string): Target | string => {
  if (url.startsWith('unix:')) return parseSocket(url)
  if (/\{\{|\$\(?[A-Z_]/.test(url)) return 'the address contains a placeholder that was not filled in'
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(url)?.[1]
  const bareHost = /^(?:[\w-]+(?:\.[\w-]+)*|\[[\da-f:.]+\]):\d{1,5}\/?$/i.test(url)
  if (bareHost) return `the address must begin with http:// or https://; write http://${url.replace(/\/$/, '')}`
  if (scheme === 'ws' || scheme === 'wss') {
    return `the address must begin with http:// or https://; write ${scheme.replace('ws', 'http')}:// (WebSockets use the same address)`
  }
  if (scheme !== undefined && !['http', 'https'].includes(scheme)) {
    return `the address must begin with http://, https:// or unix:, not with ${scheme}:`
  }
  if (/^https?:\/\/[^/?#]*@/.test(url)) return 'the address must not contain a user or a password'
  if (/[?#]/.test(url)) return 'the address must not contain a query or a fragment'
  if (/^https?:\/\/[^/]+\/[^/]/.test(url)) return 'the address must not contain a path; use stripPrefix on the routes'
  const [, protocol, host, port] = HTTP_URL.exec(url) ?? []
  const tls = protocol === 'https'
  const number = port === undefined ? (tls ? 443 : 80) : Number(port)
  if (number < 1 || number > 65_535) return 'the port must be from 1 to 65535'
  if (host === undefined || !URL.canParse(url)) {
    return 'the address must have the form http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock'
  }
  const parsed = new URL(url)
  if (LINK_LOCAL.test(parsed.hostname)) return 'the address is link-local, which only metadata services use'
  const bare = parsed.hostname.replace(/^\[|\]$/g, '')
  return { url, tls, host: bare, port: number, socketPath: undefined, authority: parsed.host }
}

const parseSocket = (url: string): Target | string => {
  const socketPath = url.replace(/^unix:(?:\/\/(?=\/))?/, '')
  if (!/^\/[^\x00-\x1f?#]+$/.test(socketPath)) return 'a socket must be an absolute path, as in unix:/run/orders.sock'
  // sun_path holds 108 bytes, including the terminating NUL (unix(7)).
  if (Buffer.byteLength(socketPath) > 107) return 'the path of a socket must be at most 107 bytes long'
  return { url, tls: false, host: 'localhost', port: 0, socketPath, authority: 'localhost' }
}

/**
 * `file` is the route file, to which certificate paths are relative; without `readsFiles` they are not opened. Returns
 * undefined after a complaint.
 */
export const defineUpstream = async (
  name: string,
  data: UpstreamData,
  file: string,
  locationOf: LocationOf,
  complaints: Complaint[],
  readsFiles: boolean
): Promise<Upstream | undefined> => {
  const before = complaints.length
  const say = complainTo(complaints, locationOf)
  const targets = defineTargets(data, say)
  const certificates = await readCertificates(data, file, targets, say, readsFiles)
  const { timeout, idleTimeout, connectTimeout, requestBuffer } = { ...DEFAULTS, ...data }
  const outlier = { ...DEFAULTS.outlier, ...data.outlier }
  const upstream: Upstream = {
    name,
    targets,
    timeoutMs: defineTimer(timeout, say, 'timeout'),
    idleTimeoutMs: defineTimer(idleTimeout, say, 'idleTimeout'),
    connectTimeoutMs: defineTimer(connectTimeout, say, 'connectTimeout'),
    requestBufferBytes: defineRequestBuffer(requestBuffer, say),
    ...certificates,
    preserveHost: data.preserveHost ?? false,
    assertion: data.assertion ?? false,
    sharedCache: data.sharedCache ?? false,
    ...defineHeaders(data, say),
    healthCheck: data.healthCheck && defineHealthCheck(data.healthCheck, say),
    outlier: { errors: outlier.errors, restMs: defineTimer(outlier.for, say, 'outlier', 'for') },
    maxConnections: data.maxConnections,
    queue: defineQueue(data, say),
    place: locationOf()
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

const defineRequestBuffer = (written: string | number, say: Complain): number => {
  const bytes = parseSize(written)
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
