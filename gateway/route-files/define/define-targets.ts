// Reads the targets of an upstream from their addresses, or complains about what is wrong with them.
import { endpointOf, type Target } from '../../routes/upstream.ts'
import type { Complain } from '../complaint.ts'
import type { UpstreamData } from '../schema/upstream-schema.ts'

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

export const defineTargets = (data: UpstreamData, say: Complain): Target[] => {
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
