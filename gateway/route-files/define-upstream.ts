// An upstream as written has become one that can be dialled, or complaints about what is dangerous or wrong in it.
import { X509Certificate } from 'node:crypto'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Place, Target, Upstream } from '../routes/route.ts'
import { MAX_TIMER_MS, parseDuration } from '../settings/quantities.ts'
import { type Complaint, complain } from './complaint.ts'
import type { UpstreamData } from './schema.ts'

/** Place of a part of the upstream by its path from there. */
export type PlaceOf = (...path: (string | number)[]) => Place

const MAX_CA_BYTES = 1024 * 1024
const DEFAULTS = { timeout: '30s', connectTimeout: '2s', interval: '10s' }

/** `file` is the route file, beside which `caFile` is looked for. Returns undefined after a complaint. */
export const defineUpstream = async (
  name: string,
  data: UpstreamData,
  file: string,
  placeOf: PlaceOf,
  complaints: Complaint[]
): Promise<Upstream | undefined> => {
  const before = complaints.length
  const targets = defineTargets(data, placeOf, complaints)
  const ca = await readCa(data, file, targets, placeOf, complaints)
  const duration = (text: string | number, ...path: string[]): number => {
    const milliseconds = parseDuration(text)
    if (milliseconds > MAX_TIMER_MS) complaints.push(complain(placeOf(...path), `"${path.at(-1)}" must be at most 24d`))
    return milliseconds
  }
  const upstream: Upstream = {
    name,
    targets,
    timeoutMs: duration(data.timeout ?? DEFAULTS.timeout, 'timeout'),
    connectTimeoutMs: duration(data.connectTimeout ?? DEFAULTS.connectTimeout, 'connectTimeout'),
    ca,
    healthCheck: data.healthCheck && {
      path: data.healthCheck.path,
      intervalMs: duration(data.healthCheck.interval ?? DEFAULTS.interval, 'healthCheck', 'interval')
    },
    place: placeOf()
  }
  return complaints.length === before ? upstream : undefined
}

const defineTargets = (data: UpstreamData, placeOf: PlaceOf, complaints: Complaint[]): Target[] => {
  const written = [
    ...(data.url === undefined ? [] : [{ url: data.url, place: placeOf('url') }]),
    ...(data.targets ?? []).map((url, index) => ({ url, place: placeOf('targets', index) }))
  ]
  return written.flatMap(({ url, place }) => {
    const target = parseTarget(url)
    if (typeof target !== 'string') return [target]
    complaints.push(complain(place, target))
    return []
  })
}

const HTTP_URL = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?\/?$/
// RFC 3927 and RFC 4291 §2.5.6: nothing but a cloud's metadata service is reached by such an address.
const LINK_LOCAL = /^(?:169\.254\.|\[fe[89ab][0-9a-f]:|\[::ffff:a9fe:|\[fd00:ec2::254\])/i

/** A target from its address, or what is wrong with it. */
export const parseTarget = (url: string): Target | string => {
  if (url.startsWith('unix:')) return parseSocket(url)
  if (/\$\{|\{\{/.test(url)) return 'the address holds a placeholder that nothing has filled in'
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(url)?.[1]
  if (scheme !== undefined && !['http', 'https'].includes(scheme)) {
    return `the address must begin with http://, https:// or unix:, not with ${scheme}:`
  }
  if (/^https?:\/\/[^/?#]*@/.test(url)) return 'the address must not hold a user or a password'
  if (/[?#]/.test(url)) return 'the address must not hold a query or a fragment'
  if (/^https?:\/\/[^/]+\/[^/]/.test(url)) return 'the address must not hold a path; routes have stripPrefix'
  const [, protocol, host, port] = HTTP_URL.exec(url) ?? []
  const tls = protocol === 'https'
  const number = port === undefined ? (tls ? 443 : 80) : Number(port)
  if (number < 1 || number > 65_535) return 'the port must be from 1 to 65535'
  if (host === undefined || !URL.canParse(url)) {
    return 'the address must have the form http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock'
  }
  const parsed = new URL(url)
  if (LINK_LOCAL.test(parsed.hostname)) return 'the address is link-local, as only metadata services are'
  const bare = parsed.hostname.replace(/^\[|\]$/g, '')
  return { url, tls, host: bare, port: number, socketPath: undefined, authority: parsed.host }
}

const parseSocket = (url: string): Target | string => {
  const socketPath = url.replace(/^unix:(?:\/\/(?=\/))?/, '')
  if (!/^\/[^\x00-\x1f?#]+$/.test(socketPath)) return 'a socket must be an absolute path, as in unix:/run/orders.sock'
  // sun_path holds 108 bytes, the closing NUL included (unix(7)).
  if (Buffer.byteLength(socketPath) > 107) return 'the path of a socket must be at most 107 bytes long'
  return { url, tls: false, host: 'localhost', port: 0, socketPath, authority: 'localhost' }
}

const readCa = async (
  { caFile }: UpstreamData,
  file: string,
  targets: readonly Target[],
  placeOf: PlaceOf,
  complaints: Complaint[]
): Promise<string | undefined> => {
  if (caFile === undefined) return undefined
  const complaint = (message: string): undefined => {
    complaints.push(complain(placeOf('caFile'), message))
  }
  if (targets.length > 0 && !targets.some(target => target.tls)) return complaint('"caFile" needs an https:// address')
  const pem = await readAtMost(resolve(dirname(file), caFile), MAX_CA_BYTES)
  if (pem === undefined) return complaint('"caFile" names no file that can be read')
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  if (certificates.length === 0 || !certificates.every(isCertificate))
    return complaint('"caFile" holds no valid PEM certificates')
  return pem
}

const isCertificate = (pem: string): boolean => {
  try {
    new X509Certificate(pem)
    return true
  } catch {
    return false
  }
}

/** The text of a regular file; undefined when it is none, is larger, or cannot be read. */
const readAtMost = async (path: string, maxBytes: number): Promise<string | undefined> => {
  let handle: FileHandle | undefined
  try {
    handle = await open(path)
    const stats = await handle.stat()
    return stats.isFile() && stats.size <= maxBytes ? await handle.readFile('utf8') : undefined
  } catch {
    return undefined
  } finally {
    await handle?.close()
  }
}
