// Compares upstreams of the same name: targets, timeouts, and the headers of requests and responses.
import { createHash } from 'node:crypto'
import type { RouteTable } from '../routes/route.ts'
import type { HeaderRules, HealthCheck, IdentityHeader, Upstream } from '../routes/upstream.ts'
import { added, compareEach, type Note, type Option, type OptionValue, raised, turnedOn } from './compare-options.ts'

/** Notes on upstreams that kept their name but changed. */
export const compareUpstreams = (before: RouteTable, after: RouteTable): Note[] =>
  [...after.upstreams].flatMap(([name, upstream]) => {
    const old = before.upstreams.get(name)
    return old === undefined ? [] : compareEach(OPTIONS, `upstream ${name}`, old, upstream)
  })

// Values may be credentials, so the output shows only whether they differ.
const fingerprint = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8)

const setFields = (rules: HeaderRules | undefined): OptionValue =>
  rules?.set.map(([name, value]) => `${name} (${fingerprint(value)})`).join(', ') || undefined

const identityFields = (headers: readonly IdentityHeader[] | undefined): OptionValue =>
  headers?.map(({ name, attribute }) => `${name}: ${attribute}`).join(', ') || undefined

const checkWords = ({ path, intervalMs, timeoutMs, status, host, rise, fall }: HealthCheck): string =>
  `${path}${host === undefined ? '' : ` at ${host}`} every ${intervalMs} ms, ${status.from}-${status.to} within ${timeoutMs} ms, ` +
  `rise ${rise}, fall ${fall}`

const dropped = (was: OptionValue, now: OptionValue): boolean => added(now, was)

/** Looser: a backend now learns more, or is trusted more. */
const OPTIONS: readonly Option<Upstream>[] = [
  {
    name: 'targets',
    read: ({ targets }) => targets.map(({ url, backup }) => (backup === true ? `${url} (backup)` : url)).join(', ')
  },
  { name: 'timeout', read: ({ timeoutMs }) => timeoutMs },
  { name: 'idleTimeout', read: ({ idleTimeoutMs }) => idleTimeoutMs },
  { name: 'connectTimeout', read: ({ connectTimeoutMs }) => connectTimeoutMs },
  { name: 'requestBuffer', read: ({ requestBufferBytes }) => requestBufferBytes },
  { name: 'caFile', read: ({ ca }) => ca && fingerprint(ca) },
  { name: 'clientCertFile', read: ({ clientCertificate }) => clientCertificate && fingerprint(clientCertificate.cert) },
  { name: 'serverName', read: ({ serverName }) => serverName },
  { name: 'sharedCache', read: ({ sharedCache }) => sharedCache, isLooser: turnedOn },
  { name: 'assertion', read: ({ assertion }) => assertion, isLooser: turnedOn },
  { name: 'preserveHost', read: ({ preserveHost }) => preserveHost, isLooser: turnedOn },
  { name: 'identityHeaders', read: ({ identityHeaders }) => identityFields(identityHeaders), isLooser: added },
  { name: 'requestHeaders.set', read: ({ requestHeaders }) => setFields(requestHeaders), isLooser: added },
  { name: 'requestHeaders.remove', read: ({ requestHeaders }) => requestHeaders?.remove.join(', '), isLooser: dropped },
  { name: 'responseHeaders.set', read: ({ responseHeaders }) => setFields(responseHeaders) },
  {
    name: 'responseHeaders.remove',
    read: ({ responseHeaders }) => responseHeaders?.remove.join(', '),
    isLooser: dropped
  },
  {
    name: 'healthCheck',
    read: ({ healthCheck }) => healthCheck && checkWords(healthCheck)
  },
  {
    name: 'outlier',
    read: ({ outlier: { errors, restMs } }) =>
      errors === 0 ? undefined : `${errors} errors in a row, for ${restMs} ms`
  },
  { name: 'maxConnections', read: ({ maxConnections }) => maxConnections, isLooser: raised },
  { name: 'queue', read: ({ queue }) => queue && `${queue.max} requests, for ${queue.timeoutMs} ms` }
]
