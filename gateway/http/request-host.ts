// Decides which host a request is for: one result for routes, backends, cookies, origins and redirects.
import type { RouteTable } from '../routes/route.ts'
import { hostName } from '../values/host-names.ts'
import type { RequestHead } from './head.ts'

interface HostSettings {
  readonly publicUrl: string
  /** In addition to PUBLIC_URL's, in lower case, with ports; `*`: any. */
  readonly allowedHosts: readonly string[]
}

/** undefined: the host can be read in several ways, where hosts choose routes. */
export type RequestHost = (
  said: string | undefined,
  table: Pick<RouteTable, 'hosts' | 'namesHost'>
) => string | undefined

// host [":" port] of RFC 3986 §3.2.2, as match-route requires of Host; a list of several is invalid.
const ONE_HOST = /^(?:[A-Za-z0-9._~!$&'()*+;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

/** What the client asked for: only trusted proxies may say it in place of Host. */
export const hostSaid = (head: Pick<RequestHead, 'host' | 'forwardedHost'>, peerTrusted: boolean): string | undefined =>
  (peerTrusted ? head.forwardedHost : undefined) ?? head.host

/**
 * Selects the host that a request is for, with its port, among those of this gateway; backends receive the same. Any other host
 * counts as PUBLIC_URL's, so that an invented host gets into no link that a backend writes, and chooses no rules.
 */
export const createRequestHost = ({ publicUrl, allowedHosts }: HostSettings): RequestHost => {
  const publicHost = new URL(publicUrl).host
  const allowed = new Set([publicHost, ...allowedHosts])
  const isAny = allowed.has('*')
  return (said, { hosts, namesHost }) => {
    if (said === undefined || said === publicHost) return publicHost
    if (hosts.length > 0) {
      const name = hostName(said)
      if (name === undefined) return undefined
      if (namesHost(name)) return said.toLowerCase()
    }
    if (allowed.has(said.toLowerCase())) return said
    return isAny && ONE_HOST.test(said) ? said : publicHost
  }
}
