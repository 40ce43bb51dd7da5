// Tells which of the gateway's hosts a request is on. Cookies, origins and ways to the login belong to one host each.
import type { Exchange } from '../http/exchange.ts'
import type { RouteTable } from '../routes/route.ts'
import { hostName } from '../values/urls.ts'

export type OwnHosts = ReturnType<typeof createOwnHosts>

/** As a value in another query, where what stands beside it still fits into the longest target that is taken. */
const MAX_ENCODED = 6144

/** Whether a path with its query leads to this origin in any reading, and is ASCII, so that it may be redirected to. */
export const isOwnPath = (path: string): boolean =>
  /^\/(?![/\\])[!-~]*$/.test(path) && String(new URLSearchParams({ path })).length <= MAX_ENCODED

export const createOwnHosts = (publicUrl: string, current: () => Pick<RouteTable, 'hosts' | 'namesHost'>) => {
  const { origin: publicOrigin, protocol, host, port } = new URL(publicUrl)
  const publicName = hostName(host)
  const isNamed = (name: string) => name !== publicName && current().namesHost(name)
  // All hosts are reached as PUBLIC_URL is. A port that does not exist makes no origin.
  const originAt = (authority: string) => {
    const address = `${protocol}//${authority}`
    return URL.canParse(address) ? new URL(address).origin : ''
  }
  const named = ({ hostName }: Exchange) => (isNamed(hostName) ? hostName : undefined)
  return {
    /** The host that routes name; undefined: that of PUBLIC_URL, or any that counts as it. */
    named,
    /** Whether any route names a host. */
    areNamed: (): boolean => current().hosts.length > 0,
    /** The origin of the pages on the host of a request. */
    originOf: (exchange: Exchange): string => (named(exchange) === undefined ? publicOrigin : originAt(exchange.host)),
    /** Where a plain request for this host is redirected: to the same host if routes name it, at the port of PUBLIC_URL. */
    redirectOrigin(said = ''): string {
      const name = hostName(said)
      return name !== undefined && isNamed(name) ? originAt(port === '' ? name : `${name}:${port}`) : publicUrl
    },
    /** Reads an absolute address, its path with the query; undefined if it is not on a named host, or could be read in two ways. */
    read(text: string) {
      const [, scheme, authority = '', path = ''] = /^(https?:)\/\/([^/?#\\]+)(.*)$/.exec(text) ?? []
      const host = hostName(authority)
      const target = path.startsWith('/') ? path : `/${path}`
      if (scheme !== protocol || host === undefined || !isNamed(host)) return undefined
      if (!isOwnPath(target)) return undefined
      const origin = originAt(authority)
      return origin === '' ? undefined : { host, origin, path: target }
    }
  }
}
