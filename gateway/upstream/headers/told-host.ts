// Selects the host name that backends receive, among those of this gateway.
import type { Exchange } from '../../http/exchange.ts'

interface HostSettings {
  readonly publicUrl: string
  /** In addition to PUBLIC_URL's, in lower case, with ports; `*`: any. */
  readonly allowedHosts: readonly string[]
}

/** Any other host is replaced by PUBLIC_URL's, so that an invented host gets into no link that a backend writes. */
export type ToldHost = (exchange: Exchange) => string

// host [":" port] of RFC 3986 §3.2.2, as match-route requires of Host; a list of several is invalid.
const ONE_HOST = /^(?:[A-Za-z0-9._~!$&'()*+;=%-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?$/

export const createToldHost = ({ publicUrl, allowedHosts }: HostSettings): ToldHost => {
  const publicHost = new URL(publicUrl).host
  const allowed = new Set([publicHost, ...allowedHosts])
  const isAny = allowed.has('*')
  return ({ head, peerTrusted }) => {
    const said = (peerTrusted ? head.forwardedHost : undefined) ?? head.host
    if (said === undefined) return publicHost
    if (said === publicHost || allowed.has(said.toLowerCase())) return said
    return isAny && ONE_HOST.test(said) ? said : publicHost
  }
}
