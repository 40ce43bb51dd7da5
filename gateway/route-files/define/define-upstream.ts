// Builds an upstream from its definition in a route file, or complains about what is dangerous or wrong in it.
import type { Target, Upstream } from '../../routes/upstream.ts'
import { type Complain, type Complaint, complainTo, type PlaceOf } from '../complaint.ts'
import type { UpstreamData } from '../schema/upstream-schema.ts'
import { readCertificates } from './certificates.ts'
import { defineTimer } from './define-timer.ts'
import { defineHeaders } from './headers.ts'

const DEFAULTS = { timeout: '30s', idleTimeout: '5m', connectTimeout: '2s', interval: '10s' }

/** `file` is the route file, to which certificate paths are relative. Returns undefined after a complaint. */
export const defineUpstream = async (
  name: string,
  data: UpstreamData,
  file: string,
  placeOf: PlaceOf,
  complaints: Complaint[]
): Promise<Upstream | undefined> => {
  const before = complaints.length
  const say = complainTo(complaints, placeOf)
  const targets = defineTargets(data, say)
  const certificates = await readCertificates(data, file, targets, say)
  const duration = (text: string | number, ...path: string[]) => defineTimer(text, say, ...path)
  const upstream: Upstream = {
    name,
    targets,
    timeoutMs: duration(data.timeout ?? DEFAULTS.timeout, 'timeout'),
    idleTimeoutMs: duration(data.idleTimeout ?? DEFAULTS.idleTimeout, 'idleTimeout'),
    connectTimeoutMs: duration(data.connectTimeout ?? DEFAULTS.connectTimeout, 'connectTimeout'),
    ...certificates,
    preserveHost: data.preserveHost ?? false,
    assertion: data.assertion ?? false,
    sharedCache: data.sharedCache ?? false,
    ...defineHeaders(data, say),
    healthCheck: data.healthCheck && {
      path: data.healthCheck.path,
      intervalMs: duration(data.healthCheck.interval ?? DEFAULTS.interval, 'healthCheck', 'interval')
    },
    place: placeOf()
  }
  return complaints.length === before ? upstream : undefined
}

const defineTargets = (data: UpstreamData, say: Complain): Target[] => {
  const written: { url: string; path: (string | number)[] }[] = [
    ...(data.url === undefined ? [] : [{ url: data.url, path: ['url'] }]),
    ...(data.targets ?? []).map((url, index) => ({ url, path: ['targets', index] }))
  ]
  return written.flatMap(({ url, path }) => {
    const target = parseTarget(url)
    if (typeof target !== 'string') return [target]
    say(target, ...path)
    return []
  })
}

const HTTP_URL = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\/?$/
// RFC 3927 and RFC 4291 §2.5.6: such addresses only reach a cloud's metadata service.
const LINK_LOCAL = /^(?:169\.254\.|\[fe[89ab][0-9a-f]:|\[::ffff:a9fe:|\[fd00:ec2::254\])/i

/** A target from its address, or what is wrong with it. */
export const parseTarget = (url: string): Target | string => {
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
