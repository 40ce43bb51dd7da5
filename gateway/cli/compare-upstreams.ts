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
  [
    'targets',
    ({ targets }) => targets.map(({ url, backup }) => (backup === true ? `${url} (backup)` : url)).join(', ')
  ],
  ['timeout', ({ timeoutMs }) => timeoutMs],
  ['idleTimeout', ({ idleTimeoutMs }) => idleTimeoutMs],
  ['connectTimeout', ({ connectTimeoutMs }) => connectTimeoutMs],
  ['requestBuffer', ({ requestBufferBytes }) => requestBufferBytes],
  ['caFile', ({ ca }) => ca && fingerprint(ca)],
  ['clientCertFile', ({ clientCertificate }) => clientCertificate && fingerprint(clientCertificate.cert)],
  ['serverName', ({ serverName }) => serverName],
  ['sharedCache', ({ sharedCache }) => sharedCache, turnedOn],
  ['assertion', ({ assertion }) => assertion, turnedOn],
  ['preserveHost', ({ preserveHost }) => preserveHost, turnedOn],
  ['identityHeaders', ({ identityHeaders }) => identityFields(identityHeaders), added],
  ['requestHeaders.set', ({ requestHeaders }) => setFields(requestHeaders), added],
  ['requestHeaders.remove', ({ requestHeaders }) => requestHeaders?.remove.join(', ') || undefined, dropped],
  ['responseHeaders.set', ({ responseHeaders }) => setFields(responseHeaders)],
  ['responseHeaders.remove', ({ responseHeaders }) => responseHeaders?.remove.join(', ') || undefined, dropped],
  ['healthCheck', ({ healthCheck }) => healthCheck && checkWords(healthCheck)],
  [
    'outlier',
    ({ outlier: { errors, restMs } }) => (errors === 0 ? undefined : `${errors} errors in a row, for ${restMs} ms`)
  ],
  ['maxConnections', ({ maxConnections }) => maxConnections, raised],
  ['queue', ({ queue }) => queue && `${queue.max} requests, for ${queue.timeoutMs} ms`]
]
